"""The user's cache: reproducible files, written whole or not at all, and their makers."""

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
from reusebench.system.files import TEMPORARY_NAME, replacing
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
    "output_of_another_process",
    "remove_leftovers",
    "run_in_another_process",
    "scratch_folder",
    "written_whole",
]

#: Lock file of a folder, held while files in the folder are made.
_LOCK = ".lock"
#: Prefix of the folders that scratch_folder makes; tempfile adds eight characters.
_SCRATCH = ".scratch-"
_SCRATCH_NAME = re.compile(rf"{re.escape(_SCRATCH)}\w{{8}}")
#: Lock file in a temporary folder, held by the process that owns the folder.
_OWNER = ".owner"
#: Names of such folders, as tempfile makes them.
_OWN_FOLDER = re.compile(r"tmp\w{8}")
#: Names of the cache's folders that have such folders.
_KINDS = ("prepared", "temporary")


class CacheError(Exception):
    """A file cannot be made or written; the message has the reason and what to do next."""


def cache_root() -> Path:
    """Return the folder for everything that can be made again.

    It is $XDG_CACHE_HOME/reusebench or ~/.cache/reusebench, and may not exist yet. A relative
    $XDG_CACHE_HOME is ignored, as the XDG base directory specification asks.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not folder.is_absolute():
        folder = Path.home() / ".cache"
    return folder / "reusebench"


class ProcessError(CacheError):
    """A process of the project failed; `words` is the last line of its standard error."""

    def __init__(self, command: str, end: str, words: str) -> None:
        super().__init__(f"`{command}` failed ({end}): {words}")
        self.words = words


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` at the end; see files.replacing.

    An OSError becomes a CacheError.
    """
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise cannot_write(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents; OSError if that fails.

    The cache is private, since its files are made of the user's models.
    """
    root = cache_root()
    if root == path or root in path.parents:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(parents=True, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder of `path`; the kernel releases it however the process ends.

    The caller makes files of the cache meanwhile: an OSError becomes a CacheError.
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

    It is removed at the end. If the process is killed, remove_leftovers finds it by its name.
    """
    with tempfile.TemporaryDirectory(dir=parent, prefix=_SCRATCH) as folder:
        yield Path(folder)


class OwnFolder:
    """A temporary folder in the cache, removed with this object, at the latest when Python ends.

    Its owner holds a lock, which the kernel releases however the owner ends: see remove_leftovers.
    """

    def __init__(self, kind: str = "temporary") -> None:
        """Make the folder in the cache's folder `kind`, one of _KINDS; raise CacheError."""
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
        """Remove the folder."""
        self._remove()


class CacheLeftover(NamedTuple):
    """A temporary file or folder whose owner was killed."""

    path: Path
    size_bytes: int


def remove_leftovers(dry_run: bool = False) -> Iterator[CacheLeftover]:
    """Remove the leftovers of killed processes from the cache, and yield them.

    Leftovers of living owners stay, and so do links and all names that are not ours. Raises OSError
    if one cannot be removed.
    """
    for folder in _folders_in(cache_root()):
        for lock, paths in _possible_leftovers(folder):
            # FileNotFoundError: another process has removed the folder meanwhile.
            with suppress(FileNotFoundError), _lock_if_free(lock) as is_free:
                if is_free:
                    for path in paths:
                        yield _removed(path, dry_run)


def run_in_another_process(module: str, *arguments: str) -> None:
    """Run a module of this package with this Python; raise ProcessError if it fails."""
    output_of_another_process(module, *arguments)


def output_of_another_process(module: str, *arguments: str) -> str:
    """Return the output of a module of this package; raise ProcessError if it fails."""
    command = python_command(module, *arguments)
    done = processes.run(command)
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        raise ProcessError(" ".join(command), end_of(done.returncode), last_line)
    return done.stdout


def end_of(return_code: int) -> str:
    """Return a description of a return code; a negative one is a signal's."""
    if return_code >= 0:
        return f"exit code {return_code}"
    return f"killed by {signal.Signals(-return_code).name}"


def cannot_write(path: Path, cause: OSError) -> CacheError:
    """Return the error for a file or folder that cannot be written."""
    return CacheError(
        f"cannot write {path}: {cause.strerror or cause}; choose a folder that exists, is writable"
        " and has room (--output FILE, or XDG_CACHE_HOME for the cache)"
    )


def _owned_folder(parent: Path) -> tuple[Path, IO[bytes]]:
    """Return a new folder and its lock, which this process holds.

    Another process may take the folder for a leftover before it is locked; then the next is made.
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
    # A finaliser runs only once, so a signal must not interrupt the removal.
    with uninterrupted():
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


@contextmanager
def _lock_if_free(path: Path) -> Iterator[bool]:
    """Try to take a lock; yield whether nobody else has it."""
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


def _possible_leftovers(folder: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each lock file in a folder of the cache, with what is left over if the lock is free."""
    if folder.name in _KINDS:
        for own_folder in _folders_in(folder):
            if _OWN_FOLDER.fullmatch(own_folder.name):
                yield own_folder / _OWNER, [own_folder]
    else:
        temporary = sorted(path for path in folder.iterdir() if _is_temporary(path.name))
        if temporary:
            yield folder / _LOCK, temporary


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder by name, without links; empty if it is missing."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if stat.S_ISDIR(path.lstat().st_mode))


def _is_temporary(name: str) -> bool:
    """Whether a path of this name is temporary, and left over if its folder is unlocked."""
    return bool(TEMPORARY_NAME.fullmatch(name) or _SCRATCH_NAME.fullmatch(name))


def _removed(path: Path, dry_run: bool) -> CacheLeftover:
    if not stat.S_ISDIR(path.lstat().st_mode):
        leftover = CacheLeftover(path, path.lstat().st_size)
        if not dry_run:
            path.unlink()
        return leftover

    size_bytes = 0
    for folder, _, names in os.walk(path):
        size_bytes += sum(Path(folder, name).lstat().st_size for name in names)
    if not dry_run:
        shutil.rmtree(path)
    return CacheLeftover(path, size_bytes)
