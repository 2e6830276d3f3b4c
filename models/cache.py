"""The folder of model files that were built before, whole or not at all.

Standard library only: the harness calls ensure(), and a harness that imported numpy or onnx would map
libraries that the measured process maps too, which lowers the PSS of that process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from models.errors import ModelError, cannot_write, end_of
from models.recipe import AnyRecipe, Recipe

__all__ = [
    "UNFINISHED",
    "cache_root",
    "cached_path",
    "ensure",
    "fill",
    "is_intact",
    "locked",
    "run_in_another_process",
    "written_whole",
]

_CHECKOUT = Path(__file__).resolve().parent.parent

#: How the names of temporary files and folders end.
UNFINISHED = ".unfinished"


def cache_root() -> Path:
    """Return the folder for everything that can be made again: $XDG_CACHE_HOME/reusebench or ~/.cache/reusebench.

    It may not exist yet. A relative $XDG_CACHE_HOME is ignored, as the XDG base directory specification asks.
    """
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else Path.home() / ".cache") / "reusebench"


def cached_path(recipe: AnyRecipe) -> Path:
    """Return where the recipe's file is, or would be, in the cache."""
    return cache_root() / "models" / recipe.file_name


def is_intact(path: Path) -> bool:
    """Whether the cached file has as many bytes as were written when it was built."""
    try:
        return path.stat().st_size == int(_size_record(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return False


def ensure(name: str, size: int, seed: int) -> Path:
    """Return the ONNX file from the cache, built first where it is missing or damaged.

    Building takes seconds and runs in a process of its own, since it imports numpy and onnx. Two callers at
    once get the same file, built once. Raises ModelError for an invalid recipe, and if the build fails.
    """
    recipe = Recipe(name, size, seed)
    path = cached_path(recipe)
    if not is_intact(path):
        arguments = ["--size", str(recipe.size), "--seed", str(recipe.seed)]
        run_in_another_process("commands", "models", "build", recipe.name, *arguments)
    return path


def fill(recipe: AnyRecipe, build: Callable[[Path], None]) -> Path:
    """Return the recipe's file in the cache, calling build(temporary path) where it is missing or damaged.

    Only one process fills the cache at a time: a second one waits, and finds the first one's file.
    """
    path = cached_path(recipe)
    with locked(path):
        if not is_intact(path):
            _remove_unfinished(path)
            with written_whole(path) as temporary:
                build(temporary)
            with written_whole(_size_record(path)) as temporary:
                temporary.write_text(str(path.stat().st_size), encoding="ascii")
    return path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Lend a temporary path to write to, in the same folder; at the end it replaces path in one step.

    Nobody ever sees half a file, not even after a power cut; if the writing fails, path stays as it was.
    Every OSError inside becomes a ModelError.
    """
    try:
        temporary = _temporary_beside(path)
        try:
            yield temporary
            _flush_to_disk(temporary)
            temporary.replace(path)
        finally:
            # Gone already where all went well.
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder that path is in; the kernel lets go of it when the process ends, however it ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / ".lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise cannot_write(path, error) from error
    with lock:
        yield


def run_in_another_process(module: str, *arguments: str) -> None:
    """Run a module of the project with this Python; raise ModelError with its last words if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        last_words = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        raise ModelError(f"`{' '.join(command)}` failed ({end_of(done.returncode)}): {last_words}")


def _temporary_beside(path: Path) -> Path:
    """Make an empty file in the folder of path: one that cannot be written to shows here, before any work."""
    if path.exists() and not path.is_file():
        # Replacing it would make a plain file of a device such as /dev/null.
        raise OSError(errno.EEXIST, "it exists and is not a regular file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    temporary.touch()
    return temporary


def _remove_unfinished(path: Path) -> None:
    """Remove what killed builds of this file left behind: a board's flash is small. Needs the lock."""
    for leftover in path.parent.glob(f".{path.name}.*{UNFINISHED}"):
        leftover.unlink()


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _size_record(path: Path) -> Path:
    """The small file beside a cached one that holds the number of its bytes."""
    return path.with_name(f".{path.name}.size")
