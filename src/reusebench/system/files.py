"""Safe opening of files that others made, and replacing of our files as a whole.

A file of others must not block, fill memory, or lead elsewhere by a link.
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
    "TEMPORARY_NAME",
    "UNFINISHED",
    "folder_inside",
    "inside",
    "keep_writing_to_user",
    "leftovers_of",
    "open_emptied",
    "open_inside",
    "open_regular",
    "outside_user_folders",
    "printable",
    "read_regular",
    "remove_inside",
    "replacing",
    "started_umask",
    "temporary_path",
]

#: Suffix of the names of temporary files and folders.
UNFINISHED = ".unfinished"
#: Names of temporary_path.
TEMPORARY_NAME = re.compile(rf"\..+\.\d+{re.escape(UNFINISHED)}")

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
#: Opening neither waits for a pipe's writer nor makes a terminal this process's own.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: Rights of others to write, which files of ours do not have.
_WRITING_OF_OTHERS = 0o022
#: The umask before keep_writing_to_user.
_started_umask: int | None = None


def keep_writing_to_user() -> None:
    """Deny others to write to files of this process and its children, whatever the umask allows."""
    global _started_umask
    _started_umask = os.umask(0o077)
    os.umask(_started_umask | _WRITING_OF_OTHERS)


@contextmanager
def started_umask() -> Iterator[None]:
    """Use the umask with which this process was started, for programs of the user."""
    own = os.umask(0o077)
    os.umask(own if _started_umask is None else _started_umask)
    try:
        yield
    finally:
        os.umask(own)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, through links.

    Every error is an OSError whose strerror tells the problem.
    """
    # Checked before opening, which alone would arm a watchdog or rewind a tape.
    _check_regular(path.stat(), path)
    return _regular(os.open(path, _READ), path)


def read_regular(path: Path, at_most_bytes: int) -> bytes:
    """Return a regular file's content; OSError if it is not one, or exceeds `at_most_bytes`."""
    with open_regular(path) as file:
        return _content(file, path, at_most_bytes)


def open_inside(folder: Path, relative: str) -> BinaryIO:
    """Open a regular file by its path relative to the folder, without following links below it.

    Raises OSError if the file is missing, or if the path is absolute or leads out of the folder.
    The path may come from a file of ours.
    """
    path = folder / relative
    with folder_inside(folder, relative) as (within, name):
        # Checked before opening, as in open_regular.
        _check_regular(os.stat(name, dir_fd=within, follow_symlinks=False), path)
        return _regular(os.open(name, _READ | os.O_NOFOLLOW, dir_fd=within), path)


def remove_inside(folder: Path, relative: str) -> None:
    """Remove a regular file or an empty folder by its path relative to `folder`.

    No link below the folder is followed, whatever anybody puts there meanwhile. Raises OSError if
    the path is neither a regular file nor an empty folder.
    """
    with folder_inside(folder, relative) as (within, name):
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=within)
        else:
            _check_regular(status, folder / relative)
            os.unlink(name, dir_fd=within)


@contextmanager
def folder_inside(folder: Path, relative: str) -> Iterator[tuple[int, str]]:
    """Yield the open folder of the path's last part, and that part."""
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
    """Return a descriptor of a regular file, created or emptied, to which others append.

    Links are followed. Raises OSError if the path exists and is no regular file.
    """
    # Checked before opening, as in open_regular.
    with suppress(FileNotFoundError):
        _check_regular(path.stat(), path)
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
    """Yield a temporary path in the same folder, which replaces `path` in one step at the end.

    Nobody ever sees half a file, not even after a power cut. If writing fails, the file at `path`
    stays. Raises OSError also if `path` is no regular file: replacing a device such as /dev/null
    would make it a plain file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "it exists and is not a regular file", str(path))
    temporary = temporary_path(path)
    # Shows before any work whether the folder can be written to.
    temporary.touch()
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        # Already gone if all went well.
        with suppress(OSError):
            temporary.unlink()


def temporary_path(path: Path) -> Path:
    """Return the path at which this process makes a file or folder before it is renamed."""
    return path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")


def leftovers_of(path: Path) -> list[Path]:
    """Return the temporary paths of a file or folder, of any process, that exist."""
    return list(path.parent.glob(f".{path.name}.*{UNFINISHED}"))


def printable(text: str, keep: str = "") -> str:
    """Return text of others in a form that can be shown.

    Characters that move a cursor, hide or cannot be encoded are escaped, except those in `keep`,
    such as "\\n" for text with lines.
    """
    if text.isprintable():
        return text
    letters = []
    for letter in text:
        is_space = unicodedata.category(letter) == "Zs"
        if not letter.isprintable() and letter not in keep and not is_space:
            letter = letter.encode("unicode_escape").decode()
        letters.append(letter)
    return "".join(letters)


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
    content = file.read(at_most_bytes + 1)  # its size may be reported wrongly, and may grow
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
    """Work in a folder without modules.

    For libraries that start a Python which imports from its working folder.
    """
    return inside(Path("/"))
