"""One file of the kernel with a figure, and why it may not be readable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from messages import Message
from samplers.files import under

__all__ = ["FileSource", "first_readable"]

T = TypeVar("T")


@dataclass(frozen=True)
class FileSource(Generic[T]):
    """A file or folder, how it is read, and the reason where it is not."""

    #: As a user would type it.
    path: str
    #: Returns None where the file cannot be read or has another form than the kernel writes.
    parse: Callable[[Path], T | None]
    #: Why a kernel does not have it.
    absent: Message

    def read(self, root: Path) -> T | None:
        """Return the present figure."""
        return self.parse(under(root, self.path))

    def refusal(self, root: Path) -> Message | None:
        """Return what the user lacks to read it; None where it is not a question of permission."""
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
