"""Model files in the cache: built once, and again if a file is missing or damaged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from reusebench.models.recipe import AnyRecipe, NativeRecipe, Recipe
from reusebench.system.cache import cache_root, locked, run_in_another_process, written_whole
from reusebench.system.files import leftovers_of

__all__ = ["cached_path", "ensure", "fill", "is_intact", "weights_of"]


def cached_path(recipe: AnyRecipe) -> Path:
    """Return the path of the recipe's file in the cache; it may not exist yet."""
    return cache_root() / "models" / recipe.file_name


def weights_of(recipe: AnyRecipe, path: Path) -> Path | None:
    """Return the separate weight file beside `path`; None if the recipe's file has the weights."""
    if isinstance(recipe, NativeRecipe) and recipe.native.weights:
        return path.with_suffix(recipe.native.weights)
    return None


def is_intact(path: Path) -> bool:
    """Whether the cached file and its weight file have the sizes recorded when they were built."""
    try:
        record = _size_record(path).read_text(encoding="ascii").split()
        files = [path, *(path.with_suffix(suffix) for suffix in record[1::2])]
        return [file.stat().st_size for file in files] == list(map(int, record[::2]))
    except (OSError, ValueError):
        return False


def ensure(recipe: Recipe) -> Path:
    """Return the ONNX file from the cache; build it first if it is missing or damaged.

    Building takes seconds and runs in a separate process, since it imports numpy and onnx. Two
    simultaneous callers get the same file, built once. Raises CacheError if the build fails.
    """
    path = cached_path(recipe)
    if not is_intact(path):
        arguments = ["--height", str(recipe.size), "--seed", str(recipe.seed)]
        run_in_another_process("reusebench", "models", "build", recipe.name, *arguments)
    return path


def fill(recipe: AnyRecipe, build: Callable[..., object]) -> Path:
    """Return the recipe's file in the cache; build it first if it is missing or damaged.

    build() gets a temporary path, and a second one if the weights are a separate file. Only one
    process fills the cache at a time: a second one waits and then uses the first one's file.
    """
    path = cached_path(recipe)
    weights = weights_of(recipe, path)
    files = [file for file in (path, weights) if file]
    with locked(path):
        if is_intact(path):
            return path

        # Killed builds leave unfinished files, and a board's flash is small.
        for file in files:
            for leftover in leftovers_of(file):
                leftover.unlink()

        with (
            written_whole(path) as temporary,
            written_whole(weights) if weights else nullcontext() as temporary_weights,
        ):
            build(*filter(None, (temporary, temporary_weights)))

        record = str(path.stat().st_size)
        if weights:
            record += f" {weights.suffix} {weights.stat().st_size}"
        with written_whole(_size_record(path)) as temporary:
            temporary.write_text(record, encoding="ascii")
    return path


def _size_record(path: Path) -> Path:
    """Return the path of the small file with the size of a cached file in bytes.

    Suffix and size of the weight file follow if there is one.
    """
    return path.with_name(f".{path.name}.size")
