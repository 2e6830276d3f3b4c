"""The user's cache: files that can be made again, written whole or not at all, and the processes that make them.

Standard library only: the harness asks for such files, and a harness that imported numpy, onnx or PyAV would map
libraries that the measured process maps too, which lowers the PSS of that process.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from files import replacing

__all__ = [
    "CacheError",
    "ProcessError",
    "cache_root",
    "cannot_write",
    "end_of",
    "locked",
    "make_folder",
    "run_in_another_process",
    "written_whole",
]

_CHECKOUT = Path(__file__).resolve().parent


class CacheError(Exception):
    """A file cannot be made or written; the message has the reason and what to do next."""


def cache_root() -> Path:
    """Return the folder for everything that can be made again: $XDG_CACHE_HOME/reusebench or ~/.cache/reusebench.

    It may not exist yet. A relative $XDG_CACHE_HOME is ignored, as the XDG base directory specification asks.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".cache") / "reusebench"


class ProcessError(CacheError):
    """A process of the project failed; `words` is the last line of its errors."""

    def __init__(self, command: str, end: str, words: str) -> None:
        super().__init__(f"`{command}` failed ({end}): {words}")
        self.words = words


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces path at the end, as files.replacing; an OSError becomes a CacheError."""
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise cannot_write(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and what is missing above it; the cache, which has files made of the user's models, is private.

    OSError where it cannot be made.
    """
    root = cache_root()
    if root == path or root in path.parents:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(parents=True, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder that path is in; the kernel releases it when the process ends, however it ends."""
    try:
        make_folder(path.parent)
        lock = (path.parent / ".lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise cannot_write(path, error) from error
    with lock:
        yield


def run_in_another_process(module: str, *arguments: str) -> None:
    """Run a module of the project with this Python; raise ProcessError if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        raise ProcessError(" ".join(command), end_of(done.returncode), last_line)


def end_of(return_code: int) -> str:
    """Return in words how a process ended; a negative return code is the signal that ended it."""
    return f"exit code {return_code}" if return_code >= 0 else f"killed by {signal.Signals(-return_code).name}"


def cannot_write(path: Path, cause: OSError) -> CacheError:
    """Return the error of a file or folder that the system does not let be written."""
    return CacheError(
        f"cannot write {path}: {cause.strerror or cause}; choose a folder that exists, is writable and has room "
        "(--output FILE, or XDG_CACHE_HOME for the cache)"
    )
