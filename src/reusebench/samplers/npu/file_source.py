"""One file of the kernel with a figure, and why it may not be readable."""

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
    """A file, how its text is read, and the reason where it is not."""

    #: As a user would type it.
    path: str
    #: Returns None if the text has another form than the kernel writes.
    parse: Callable[[str], T | None]
    #: Why a kernel does not have it.
    absent: Message

    def read(self, host: Host) -> T | None:
        """Return the present figure; None if the file cannot be read."""
        return self.parse(read_text(host, self.path) or "")

    def refusal(self, host: Host) -> Message | None:
        """Return what the user lacks to read it; None if it is not a question of permission."""
        try:
            host.read(self.path)
        except PermissionError:
            return Message("needs_root") if host.user_id else Message("refused_to_root")
        except OSError:
            pass
        return None


def first_readable(sources: Iterable[FileSource[T]], host: Host) -> FileSource[T] | None:
    """Return the first source that can be read."""
    return next((source for source in sources if source.read(host) is not None), None)
