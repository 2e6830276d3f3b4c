"""One file of the kernel that says how much memory there is, and why it may not be readable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from messages import Message

__all__ = ["FileSource", "directory", "exists", "first_readable", "read_at", "read_text", "under"]

T = TypeVar("T")

_PAGE_BYTES = 4096


@dataclass(frozen=True)
class FileSource(Generic[T]):
    """A file or folder, how it is read, and what to say where it is not."""

    #: As a user would type it.
    path: str
    #: Returns None where the file cannot be read or says something else than the kernel writes.
    parse: Callable[[Path], T | None]
    #: Why a kernel does not have it.
    absent: Message

    def read(self, root: Path) -> T | None:
        """Return what the file says now."""
        return self.parse(under(root, self.path))

    def refusal(self, root: Path) -> Message | None:
        """Return what the user lacks to read it; None where it is not that."""
        try:
            os.close(os.open(under(root, self.path), os.O_RDONLY))
        except PermissionError:
            return Message("needs_root") if os.geteuid() else Message("refused_to_root")
        except OSError:
            pass
        return None


def first_readable(sources: Iterable[FileSource[T]], root: Path) -> FileSource[T] | None:
    """Return the first source that can be read."""
    return next((source for source in sources if source.read(root) is not None), None)


def read_text(path: Path) -> str | None:
    """Return what the file holds; None where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


@contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open a folder, so that its files are found without walking the path for each."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


def read_at(name: str, folder: int) -> bytes:
    """Return what a small file in that open folder holds: a page at most, as files of /proc and /sys have."""
    file = os.open(name, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(file, _PAGE_BYTES)
    finally:
        os.close(file)


def exists(path: Path) -> bool:
    """Whether the path is there and may be looked at."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def under(root: Path, path: str) -> Path:
    """Return the absolute path below another root."""
    return root / path.lstrip("/")
