"""Files that somebody else made, opened so that none hangs, fills memory or leads elsewhere; ours,
replaced whole.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

__all__ = [
    "UNFINISHED",
    "UNFINISHED_NAME",
    "inside",
    "keep_writing_to_user",
    "open_emptied",
    "open_inside",
    "open_regular",
    "outside_user_folders",
    "printable",
    "read_regular",
    "remove_inside",
    "replacing",
    "started_umask",
]

#: Suffix of the names of temporary files and folders.
UNFINISHED = ".unfinished"
#: Names of the temporary files that `replacing` makes, and of folders that are named alike.
UNFINISHED_NAME = re.compile(rf"\..+\.\d+{re.escape(UNFINISHED)}")

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
#: A pipe without a writer would be waited for; a terminal would become this process's.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: What others may not do with files of ours.
_WRITING_OF_OTHERS = 0o022
#: That of before keep_writing_to_user.
_started_umask: int | None = None


def keep_writing_to_user() -> None:
    """Have what this process and its children make be writable for their user alone, whatever the
    umask allows.
    """
    global _started_umask
    _started_umask = os.umask(0o077)
    os.umask(_started_umask | _WRITING_OF_OTHERS)


@contextmanager
def started_umask() -> Iterator[None]:
    """Have the umask that this process was started with, for a program that is the user's."""
    own = os.umask(0o077)
    os.umask(own if _started_umask is None else _started_umask)
    try:
        yield
    finally:
        os.umask(own)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to be read, through links; every error is an OSError whose strerror says
    what is wrong.
    """
    _check_regular(
        path.stat(), path
    )  # before it is opened: that alone arms a watchdog, or rewinds a tape
    return _regular(os.open(path, _READ), path)


def read_regular(path: Path, at_most_bytes: int) -> bytes:
    """Return what is in a regular file; OSError if it is none, or has more than so many
    bytes.
    """
    with open_regular(path) as file:
        return _content(file, path, at_most_bytes)


def open_inside(folder: Path, relative: str) -> BinaryIO:
    """Open a regular file that a file of ours names, relative to the folder; no link below the
    folder is followed.

    OSError if the path is absolute or leads out of the folder, as where the file is missing.
    """
    with _folder_inside(folder, relative) as (within, name):
        _check_regular(
            os.stat(name, dir_fd=within, follow_symlinks=False), folder / relative
        )  # as above
        return _regular(os.open(name, _READ | os.O_NOFOLLOW, dir_fd=within), folder / relative)


def remove_inside(folder: Path, relative: str) -> None:
    """Remove a regular file, or an empty folder, by its path relative to the folder; OSError where
    it is neither.

    No link below the folder is followed, whatever anybody puts there meanwhile.
    """
    with _folder_inside(folder, relative) as (within, name):
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=within)
        else:
            _check_regular(status, folder / relative)
            os.unlink(name, dir_fd=within)


@contextmanager
def _folder_inside(folder: Path, relative: str) -> Iterator[tuple[int, str]]:
    """Yield the open folder that the path's last part is in, and that part."""
    parts = PurePosixPath(relative).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in relative:
        raise OSError(errno.EACCES, "its path leads out of its folder", relative)
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=within)
            os.close(within)
            within = inner
        yield within, parts[-1]
    finally:
        os.close(within)


def open_emptied(path: Path) -> int:
    """Return a descriptor of a regular file that others append to: made, or emptied, also through
    links.

    OSError if path is there and is no regular file.
    """
    with suppress(FileNotFoundError):
        _check_regular(path.stat(), path)  # as above
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    try:
        _check_regular(os.fstat(descriptor), path)
        os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, in the same folder; at the end it replaces path in one
    step.

    Nobody ever sees half a file, not even after a power cut; if the writing fails, path stays as it
    was. OSError also where path is there and is no regular file: replacing it would make a plain
    file of a device such as /dev/null.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "it exists and is not a regular file", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    # A folder that cannot be written to shows here, before any work.
    temporary.touch()
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        # Gone already where all went well.
        with suppress(OSError):
            temporary.unlink()


def printable(text: str, keep: str = "") -> str:
    """Return text of others as it may be shown: what moves a cursor, hides or cannot be encoded, is
    escaped.

    `keep` has characters that stay all the same, as "\\n" of what has lines.
    """
    if text.isprintable():
        return text
    return "".join(
        (
            letter
            if letter.isprintable() or letter in keep or unicodedata.category(letter) == "Zs"
            else letter.encode("unicode_escape").decode()
        )
        for letter in text
    )


def _regular(descriptor: int, path: Path) -> BinaryIO:
    try:
        _check_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_regular(status: os.stat_result, path: Path) -> None:
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")
        raise OSError(errno.EINVAL, f"it is {kind}; a regular file is needed", str(path))


def _content(file: BinaryIO, path: Path, at_most_bytes: int) -> bytes:
    content = file.read(at_most_bytes + 1)  # its size may be said wrongly, and may grow
    if len(content) > at_most_bytes:
        raise OSError(
            errno.EFBIG,
            f"it has more than {at_most_bytes:,} bytes, the most that is read",
            str(path),
        )
    return content


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in that folder."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def outside_user_folders() -> AbstractContextManager[None]:
    """Work in a folder without modules, for a library that runs a Python which imports from its
    working folder.
    """
    return inside(Path("/"))
