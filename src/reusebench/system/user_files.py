"""Files that the user names: checked by the same rules whichever option names one, pinned while
they are measured.
"""

from __future__ import annotations

import errno
import hashlib
import os
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from reusebench.system.files import open_regular, printable

__all__ = [
    "ChangedFile",
    "FileState",
    "Pins",
    "UserFileError",
    "check_file",
    "digest_of",
    "problem_of",
]

_BLOCK_BYTES = 1 << 20
#: Categories of Unicode that no name of a file here may have: control characters, and bytes that
#: are no UTF-8.
_NOT_IN_NAMES = ("Cc", "Cs")
#: What the system says of a path, as it is told.
_PROBLEMS = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "it does not exist, as a part of its path is no folder",
    errno.ELOOP: "its links lead in a circle",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EACCES: "this user may not read it",
}


class UserFileError(Exception):
    """A file cannot be used: the message has its path and the problem, without a full stop, for a
    remedy to follow.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{printable(str(path))}: {problem}")


class ChangedFile(UserFileError):
    """A file is no longer the one that was read before."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, "it has changed since it was first read. Run again, and leave it alone meanwhile"
        )
        self.path = path


def check_file(path: Path, at_most_bytes: int | None = None) -> Path:
    """Return the path with its links followed; raise UserFileError unless it is a regular file with
    content.

    It can be read, has no more than so many bytes, and is called so that runtimes, results and
    terminals can have it.
    """
    _check_name(path, path)
    try:
        with open_regular(path) as file:
            size_bytes = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UserFileError(path, problem_of(error)) from None
    if size_bytes == 0:
        raise UserFileError(path, "the file is empty")
    if at_most_bytes is not None and size_bytes > at_most_bytes:
        raise UserFileError(
            path, f"it has {size_bytes:,} bytes, and at most {at_most_bytes:,} are read"
        )
    resolved = path.resolve()
    _check_name(resolved, path)
    return resolved


def problem_of(error: OSError) -> str:
    """Return what is wrong with a path that could not be opened, in words."""
    words = error.strerror or str(error)
    return _PROBLEMS.get(error.errno or 0) or (
        words if words.startswith("it ") else f"it cannot be read: {words}"
    )


def digest_of(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the files, one behind the other, whatever their size; OSError if one
    cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        with open_regular(path) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class FileState:
    """What changes when a file is written or replaced."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    #: Also when only its name or its rights do.
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> FileState | None:
        """Return it; None if there is no such file."""
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


@dataclass(frozen=True)
class _Pin:
    """Files as they were read together."""

    paths: tuple[Path, ...]
    states: tuple[Optional[FileState], ...]
    digest: str

    @classmethod
    def of(cls, paths: tuple[Path, ...]) -> _Pin:
        states = tuple(map(FileState.of, paths))
        try:
            pin = cls(paths, states, digest_of(paths))
        except OSError as error:
            raise UserFileError(Path(error.filename or paths[0]), problem_of(error)) from None
        if states != tuple(map(FileState.of, paths)):
            raise ChangedFile(paths[0])
        return pin


@dataclass
class Pins:
    """The files of a session as they were when their digests were taken, by the first path of those
    read together.
    """

    _pins: dict[Path, _Pin] = field(default_factory=dict)

    def digest(self, *paths: Path) -> str:
        """Return the SHA-256 of a file, and of those that belong to it; UserFileError if one
        cannot be read.

        ChangedFile where they are not what they were at the first call.
        """
        pin = self._pins.get(paths[0])
        if pin is None:
            pin = self._pins[paths[0]] = _Pin.of(paths)
        else:
            self.check(paths[0])
        return pin.digest

    def check(self, path: Path) -> None:
        """Raise ChangedFile where this file, or one that was read with it, has other content; pin
        it if it is new.

        As long as the system says that nobody has touched it, it is not read again. A new one that
        cannot be read is for its user to complain of.
        """
        pin = self._pins.get(path)
        if pin is None:
            with suppress(UserFileError):
                self.digest(path)
            return
        if tuple(map(FileState.of, pin.paths)) == pin.states:
            return
        try:
            now = _Pin.of(pin.paths)
        except UserFileError:
            raise ChangedFile(path) from None
        if now.digest != pin.digest:
            raise ChangedFile(path)
        self._pins[path] = now  # moved, or with other rights


def _check_name(path: Path, named: Path) -> None:
    if any(unicodedata.category(letter) in _NOT_IN_NAMES for letter in str(path)):
        problem = (
            "its path has control characters, or bytes that are no UTF-8. Copy it to a path without"
            " them"
        )
        raise UserFileError(named, problem)
