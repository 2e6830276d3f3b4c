"""Files that the user names: checked by the same rules for every option, pinned for a session."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from reusebench.system.files import open_regular, printable

__all__ = [
    "MOST_BYTES",
    "MOST_ONNX_BYTES",
    "ChangedFile",
    "FileState",
    "Pins",
    "UserFileError",
    "check_file",
    "digest_of",
    "problem_of",
]

#: Most bytes of a file, and of a model with the files of its weights: no board of this kind has
#: more memory. A file with holes may claim any size, and would be read for hours.
MOST_BYTES = 32 << 30
#: Suffix of ONNX files, and the most bytes of one: protobuf reads no larger message.
_ONNX = ".onnx"
MOST_ONNX_BYTES = (1 << 31) - 1
_BLOCK_BYTES = 1 << 20
#: Unit of st_blocks.
_DISK_BLOCK_BYTES = 512
#: Files of at least this size are named before they are read, as that takes seconds.
_LARGE_BYTES = 1 << 30
#: Interval between messages on a large file.
_MESSAGE_S = 5.0
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


def check_file(path: Path, at_most_bytes: int = MOST_BYTES) -> Path:
    """Return the path with its links followed; raise UserFileError if the file is not usable.

    It must be a readable regular file, not empty, of at most `at_most_bytes`, and no larger than
    its kind of file can be. Its path must suit runtimes, results and terminals.
    """
    _check_name(path, path)
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
    except OSError as error:
        raise UserFileError(path, problem_of(error)) from None
    if status.st_size == 0:
        raise UserFileError(path, "the file is empty")
    if status.st_size > at_most_bytes:
        raise UserFileError(path, _too_large(status, at_most_bytes))
    if path.suffix == _ONNX and status.st_size > MOST_ONNX_BYTES:
        problem = _too_large(status, MOST_ONNX_BYTES)
        raise UserFileError(
            path, f"{problem}. A larger model has its weights in a file beside the .onnx file"
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


def _too_large(status: os.stat_result, at_most_bytes: int) -> str:
    problem = f"it has {status.st_size:,} bytes, and at most {at_most_bytes:,} are read"
    on_disk_bytes = status.st_blocks * _DISK_BLOCK_BYTES
    if on_disk_bytes < status.st_size // 2:
        problem += (
            f". Only {on_disk_bytes:,} of them are on the disk: it may not have been copied or"
            " downloaded wholly"
        )
    return problem


def _total_size(paths: Sequence[Path], statuses: Sequence[os.stat_result]) -> int:
    """Return the size of all files; raise OSError if it is above MOST_BYTES."""
    total = sum(status.st_size for status in statuses)
    if total <= MOST_BYTES:
        return total
    for path, status in zip(paths, statuses):
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, _too_large(status, MOST_BYTES), str(path))
    problem = f"it has {total:,} bytes with its weight files, and at most {MOST_BYTES:,} are read"
    raise OSError(errno.EFBIG, problem, str(paths[0]))


def _write_error_line(line: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr:
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def digest_of(paths: Sequence[Path], tell: Callable[[str], None] = _write_error_line) -> str:
    """Return the SHA-256 of the concatenated files; OSError if one cannot be read.

    `tell` gets lines that tell how far reading has come, if the files are large.
    """
    digest = hashlib.sha256()
    with ExitStack() as opened:
        files = [opened.enter_context(open_regular(path)) for path in paths]
        statuses = [os.fstat(file.fileno()) for file in files]
        total = _total_size(paths, statuses)
        is_large = total >= _LARGE_BYTES
        done = 0
        told_s = float("-inf")
        for file in files:
            while block := file.read(_BLOCK_BYTES):
                if is_large and time.monotonic() - told_s >= _MESSAGE_S:
                    told_s = time.monotonic()
                    progress = f"{done / 2**30:.1f} of {total / 2**30:.1f} GiB"
                    tell(f"reading {printable(str(paths[0]))}: {progress}")
                digest.update(block)
                done += len(block)
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
    def of(cls, paths: tuple[Path, ...], tell: Callable[[str], None]) -> _Pin:
        states = _states_of(paths)
        try:
            digest = digest_of(paths, tell)
        except OSError as error:
            raise UserFileError(Path(error.filename or paths[0]), problem_of(error)) from None
        if states != _states_of(paths):
            raise ChangedFile(paths[0])
        return cls(paths, states, digest)


@dataclass
class Pins:
    """The files of a session, as they were when their digests were taken."""

    #: Gets lines that tell how far the reading of large files has come.
    tell: Callable[[str], None] = _write_error_line
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
            self._pins[first] = _Pin.of(paths, self.tell)
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
            now = _Pin.of(pin.paths, self.tell)
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
