"""The model files in the cache: built once, and again where a file is missing or damaged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from reusebench.models.recipe import AnyRecipe, NativeRecipe, Recipe
from reusebench.system.cache import cache_root, locked, run_in_another_process, written_whole
from reusebench.system.files import UNFINISHED

__all__ = ["cached_path", "ensure", "fill", "is_intact", "weights_of"]


def cached_path(recipe: AnyRecipe) -> Path:
    """Return where the recipe's file is, or would be, in the cache."""
    return cache_root() / "models" / recipe.file_name


def weights_of(recipe: AnyRecipe, path: Path) -> Path | None:
    """Return the file with the weights, beside the recipe's file; None if that has them
    itself.
    """
    suffix = recipe.native.weights if isinstance(recipe, NativeRecipe) else None
    return path.with_suffix(suffix) if suffix else None


def is_intact(path: Path) -> bool:
    """Whether the cached file has as many bytes as were written when it was built, and its weights
    beside it too.
    """
    try:
        record = _size_record(path).read_text(encoding="ascii").split()
        files = [path, *(path.with_suffix(suffix) for suffix in record[1::2])]
        return [file.stat().st_size for file in files] == list(map(int, record[::2]))
    except (OSError, ValueError):
        return False


def ensure(recipe: Recipe) -> Path:
    """Return the ONNX file from the cache, built first where it is missing or damaged.

    Building takes seconds and runs in a process of its own, since it imports numpy and onnx. Two
    callers at once get the same file, built once. Raises CacheError if the build fails.
    """
    path = cached_path(recipe)
    if not is_intact(path):
        arguments = ["--size", str(recipe.size), "--seed", str(recipe.seed)]
        run_in_another_process("reusebench", "models", "build", recipe.name, *arguments)
    return path


def fill(recipe: AnyRecipe, build: Callable[..., object]) -> Path:
    """Return the recipe's file in the cache, made first where it is missing or damaged.

    build() gets a temporary path, and another one of the weights where they are a file of their
    own. Only one process fills the cache at a time: a second one waits and then takes the first
    one's file.
    """
    path = cached_path(recipe)
    weights = weights_of(recipe, path)
    files = [file for file in (path, weights) if file]
    with locked(path):
        if not is_intact(path):
            # Left by killed builds: a board's flash is small.
            for file in files:
                for leftover in path.parent.glob(f".{file.name}.*{UNFINISHED}"):
                    leftover.unlink()
            with (
                written_whole(path) as temporary,
                written_whole(weights) if weights else nullcontext() as beside,
            ):
                build(*filter(None, (temporary, beside)))
            with written_whole(_size_record(path)) as temporary:
                size_of_weights = f" {weights.suffix} {weights.stat().st_size}" if weights else ""
                temporary.write_text(f"{path.stat().st_size}{size_of_weights}", encoding="ascii")
    return path


def _size_record(path: Path) -> Path:
    """Return the path of the small file beside a cached one that has the number of its bytes.

    Then follow suffix and bytes of the file with its weights, if there is one.
    """
    return path.with_name(f".{path.name}.size")
