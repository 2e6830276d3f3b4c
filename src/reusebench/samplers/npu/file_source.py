"""One file of the kernel with a figure, and the reasons for which it may be unreadable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from reusebench.measured.messages import Message
from reusebench.samplers.host import Host, read_text

__all__ = ["FileSource", "first_readable"]

T = TypeVar("T")


@dataclass(frozen=True)
class FileSource(Generic[T]):
    """A file, the parser of its text, and the reason if a kernel does not have it."""

    #: Path as a user would type it.
    path: str
    #: Returns None if the text does not have the kernel's format.
    parse: Callable[[str], T | None]
    #: Reason if the kernel does not have the file.
    absent: Message

    def read(self, host: Host) -> T | None:
        """Return the current figure; None if the file cannot be read."""
        return self.parse(read_text(host, self.path) or "")

    def refusal(self, host: Host) -> Message | None:
        """Return the right that the user lacks; None if permission is not the problem."""
        try:
            host.read(self.path)
        except PermissionError:
            return Message("needs_root" if host.user_id else "refused_to_root")
        except OSError:
            return None
        return None


def first_readable(sources: Iterable[FileSource[T]], host: Host) -> FileSource[T] | None:
    """Return the first source that can be read."""
    return next((source for source in sources if source.read(host) is not None), None)
