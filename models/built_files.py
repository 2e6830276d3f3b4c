"""The model files in the cache: built once, and again where a file is missing or damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cache import UNFINISHED, cache_root, locked, run_in_another_process, written_whole
from models.recipe import AnyRecipe, Recipe

__all__ = ["cached_path", "ensure", "fill", "is_intact"]


def cached_path(recipe: AnyRecipe) -> Path:
    """Return where the recipe's file is, or would be, in the cache."""
    return cache_root() / "models" / recipe.file_name


def is_intact(path: Path) -> bool:
    """Whether the cached file has as many bytes as were written when it was built."""
    try:
        return path.stat().st_size == int(_size_record(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return False


def ensure(recipe: Recipe) -> Path:
    """Return the ONNX file from the cache, built first where it is missing or damaged.

    Building takes seconds and runs in a process of its own, since it imports numpy and onnx. Two callers at
    once get the same file, built once. Raises CacheError if the build fails.
    """
    path = cached_path(recipe)
    if not is_intact(path):
        arguments = ["--size", str(recipe.size), "--seed", str(recipe.seed)]
        run_in_another_process("commands", "models", "build", recipe.name, *arguments)
    return path


def fill(recipe: AnyRecipe, build: Callable[[Path], object]) -> Path:
    """Return the recipe's file in the cache, calling build(temporary path) where it is missing or damaged.

    Only one process fills the cache at a time: a second one waits and then takes the first one's file.
    """
    path = cached_path(recipe)
    with locked(path):
        if not is_intact(path):
            # Left by killed builds: a board's flash is small.
            for leftover in path.parent.glob(f".{path.name}.*{UNFINISHED}"):
                leftover.unlink()
            with written_whole(path) as temporary:
                build(temporary)
            with written_whole(_size_record(path)) as temporary:
                temporary.write_text(str(path.stat().st_size), encoding="ascii")
    return path


def _size_record(path: Path) -> Path:
    """Return the path of the small file beside a cached one that holds the number of its bytes."""
    return path.with_name(f".{path.name}.size")
