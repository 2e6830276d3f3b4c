"""Files that the user names: checked by the same rules for every option, pinned for a session."""

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
#: Unicode categories that names of files must not have: control characters, and bytes that are not
#: UTF-8.
_NOT_IN_NAMES = ("Cc", "Cs")
#: Key: errno of opening a path; the problem for the user.
_PROBLEMS = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "it does not exist, as a part of its path is no folder",
    errno.ELOOP: "its links lead in a circle",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EACCES: "this user may not read it",
}


class UserFileError(Exception):
    """A file cannot be used: the message has its path and the problem.

    It has no full stop, so that a remedy can follow.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{printable(str(path))}: {problem}")


class ChangedFile(UserFileError):
    """A file has changed since it was read."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, "it has changed since it was first read. Run again, and leave it alone meanwhile"
        )
        self.path = path


def check_file(path: Path, at_most_bytes: int | None = None) -> Path:
    """Return the path with its links followed; raise UserFileError if the file is not usable.

    It must be a readable regular file, not empty, of at most `at_most_bytes`. Its path must suit
    runtimes, results and terminals.
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
    """Return the problem with a path that could not be opened, as a clause."""
    problem = _PROBLEMS.get(error.errno or 0)
    if problem:
        return problem
    words = error.strerror or str(error)
    return words if words.startswith("it ") else f"it cannot be read: {words}"


def digest_of(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the concatenated files; OSError if one cannot be read."""
    digest = hashlib.sha256()
    for path in paths:
        with open_regular(path) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class FileState:
    """Attributes that change when a file is written or replaced."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    #: Changes also with the name or the rights.
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> FileState | None:
        """Return the state; None if there is no such file."""
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


def _states_of(paths: Iterable[Path]) -> tuple[Optional[FileState], ...]:
    return tuple(FileState.of(path) for path in paths)


@dataclass(frozen=True)
class _Pin:
    """Files that were read together, with their digest."""

    paths: tuple[Path, ...]
    states: tuple[Optional[FileState], ...]
    digest: str

    @classmethod
    def of(cls, paths: tuple[Path, ...]) -> _Pin:
        states = _states_of(paths)
        try:
            digest = digest_of(paths)
        except OSError as error:
            raise UserFileError(Path(error.filename or paths[0]), problem_of(error)) from None
        if states != _states_of(paths):
            raise ChangedFile(paths[0])
        return cls(paths, states, digest)


@dataclass
class Pins:
    """The files of a session, as they were when their digests were taken."""

    #: Key: the first of the files that were read together.
    _pins: dict[Path, _Pin] = field(default_factory=dict)

    def digest(self, *paths: Path) -> str:
        """Return the SHA-256 of a file and its companions.

        Raises UserFileError if one cannot be read, ChangedFile if one has changed since the first
        call.
        """
        first = paths[0]
        if first in self._pins:
            self.check(first)
        else:
            self._pins[first] = _Pin.of(paths)
        return self._pins[first].digest

    def check(self, path: Path) -> None:
        """Raise ChangedFile if this file, or one read with it, has changed; pin it if it is new.

        Files are read again only if the system says that they were touched. A new file that cannot
        be read is left for its user to report.
        """
        pin = self._pins.get(path)
        if pin is None:
            with suppress(UserFileError):
                self.digest(path)
            return
        if _states_of(pin.paths) == pin.states:
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
