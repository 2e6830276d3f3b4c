"""The user's cache: files that can be made again, written whole or not at all, and the processes
that make them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from reusebench.system import processes
from reusebench.system.files import UNFINISHED_NAME, replacing
from reusebench.system.interrupts import uninterrupted
from reusebench.system.package import python_command

__all__ = [
    "CacheError",
    "CacheLeftover",
    "OwnFolder",
    "ProcessError",
    "cache_root",
    "cannot_write",
    "end_of",
    "locked",
    "make_folder",
    "remove_leftovers",
    "run_in_another_process",
    "scratch_folder",
    "written_whole",
]

#: Locked by whoever makes files in the folder that it is in.
_LOCK = ".lock"
#: Prefix of the folders that scratch_folder makes; tempfile adds eight characters.
_SCRATCH = ".scratch-"
_SCRATCH_NAME = re.compile(rf"{re.escape(_SCRATCH)}\w{{8}}")
#: Locked by the process whose temporary folder it is in; the names of those, and what they are in.
_OWNER = ".owner"
_OWN_FOLDER = re.compile(r"tmp\w{8}")
_KINDS = ("prepared", "temporary")


class CacheError(Exception):
    """A file cannot be made or written; the message has the reason and what to do next."""


def cache_root() -> Path:
    """Return the folder for everything that can be made again: $XDG_CACHE_HOME/reusebench or
    ~/.cache/reusebench.

    It may not exist yet. A relative $XDG_CACHE_HOME is ignored, as the XDG base directory
    specification asks.
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
    """Yield a temporary path that replaces path at the end, as files.replacing; an OSError becomes
    a CacheError.
    """
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise cannot_write(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and what is missing above it; the cache, which has files made of the user's
    models, is private.

    OSError if it cannot be made.
    """
    root = cache_root()
    if root == path or root in path.parents:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(parents=True, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder that path is in; the kernel releases it when the process ends,
    however it ends.

    What is made meanwhile belongs to the cache, too: an OSError becomes a CacheError.
    """
    try:
        make_folder(path.parent)
        with (path.parent / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder in `parent`, a folder of the cache whose lock the caller holds.

    It is removed at the end; if the process is killed, remove_leftovers finds it by its name.
    """
    with tempfile.TemporaryDirectory(dir=parent, prefix=_SCRATCH) as folder:
        yield Path(folder)


class OwnFolder:
    """A temporary folder in the cache, which is removed with this object, at the latest when Python
    ends.

    Its owner holds a lock, which the kernel releases however the owner ends: see remove_leftovers.
    """

    def __init__(self, kind: str = "temporary") -> None:
        """Make it in the cache's folder of this name, one of _KINDS; raise CacheError if it
        cannot be.
        """
        parent = cache_root() / kind
        # A signal in between would leave the folder without a finaliser.
        with uninterrupted():
            try:
                make_folder(parent)
                self.path, lock = _owned_folder(parent)
            except OSError as error:
                raise cannot_write(parent, error) from error
            self._remove = weakref.finalize(self, _remove_own, self.path, lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it."""
        self._remove()


class CacheLeftover(NamedTuple):
    """A temporary file or folder whose owner was killed."""

    path: Path
    size_bytes: int


def remove_leftovers(dry_run: bool = False) -> Iterator[CacheLeftover]:
    """Remove what killed processes have left in the cache, and yield it; OSError if something
    cannot be removed.

    What has an owner that is alive stays, and so do links and all that has no name of ours.
    """
    for folder in _folders_in(cache_root()):
        if folder.name in _KINDS:
            own = [inner for inner in _folders_in(folder) if _OWN_FOLDER.fullmatch(inner.name)]
            locks = [(inner / _OWNER, [inner]) for inner in own]
        else:
            files = [path for path in folder.iterdir() if _is_temporary(path.name)]
            locks = [(folder / _LOCK, sorted(files))] if files else []
        for lock, paths in locks:
            # Else another process has removed it meanwhile.
            with suppress(FileNotFoundError), _lock_if_free(lock) as is_free:
                for path in paths if is_free else ():
                    yield _removed(path, dry_run)


def run_in_another_process(module: str, *arguments: str) -> None:
    """Run a module of this package with this Python; raise ProcessError if it fails."""
    command = python_command(module, *arguments)
    done = processes.run(command)
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        raise ProcessError(" ".join(command), end_of(done.returncode), last_line)


def end_of(return_code: int) -> str:
    """Return in words how a process ended; a negative return code is the signal that ended it."""
    return (
        f"exit code {return_code}"
        if return_code >= 0
        else f"killed by {signal.Signals(-return_code).name}"
    )


def cannot_write(path: Path, cause: OSError) -> CacheError:
    """Return the error of a file or folder that the system does not let be written."""
    return CacheError(
        f"cannot write {path}: {cause.strerror or cause}; choose a folder that exists, is writable"
        " and has room (--output FILE, or XDG_CACHE_HOME for the cache)"
    )


def _owned_folder(parent: Path) -> tuple[Path, IO[bytes]]:
    """Return a new folder and its lock, which was taken; another process may take the folder for a
    leftover before.
    """
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent))
        try:
            lock = (folder / _OWNER).open("wb")
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / _OWNER).exists():
            return folder, lock
        lock.close()


def _remove_own(folder: Path, lock: IO[bytes]) -> None:
    # A finaliser runs once: what a signal kept it from removing would stay.
    with uninterrupted():
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


@contextmanager
def _lock_if_free(path: Path) -> Iterator[bool]:
    """Take a lock, and yield whether nobody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except BlockingIOError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(descriptor)


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, by name, without links; none where it is not there."""
    return (
        sorted(path for path in folder.iterdir() if stat.S_ISDIR(path.lstat().st_mode))
        if folder.is_dir()
        else []
    )


def _is_temporary(name: str) -> bool:
    """Whether a file or folder with this name is left over if nobody holds its folder's lock."""
    return bool(UNFINISHED_NAME.fullmatch(name) or _SCRATCH_NAME.fullmatch(name))


def _removed(path: Path, dry_run: bool) -> CacheLeftover:
    is_folder = stat.S_ISDIR(path.lstat().st_mode)
    files = (
        [Path(at) / name for at, _, names in os.walk(path) for name in names]
        if is_folder
        else [path]
    )
    leftover = CacheLeftover(path, sum(file.lstat().st_size for file in files))
    if not dry_run:
        shutil.rmtree(path) if is_folder else path.unlink()
    return leftover
