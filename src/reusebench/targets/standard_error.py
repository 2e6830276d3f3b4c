"""The standard error of a measured process: a pipe, of which only the end is kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
from typing import IO

__all__ = ["LAST_WORDS_BYTES", "StandardError", "readable_words"]

#: Length of the end that is kept.
LAST_WORDS_BYTES = 4000
_READ_BYTES = 1 << 16
#: Linux, fcntl.h; Python has it since 3.10.
_F_SETPIPE_SZ = 1031
#: The most that an ordinary user's pipe may hold. A process that prints much does not wait while
#: the harness reads memory.
_PIPE_BYTES = 1 << 20
#: Escape sequences of coloured messages.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class StandardError:
    """The reading end of the pipe.

    A process that prints without end fills neither a disk nor memory.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        """Take the pipe, which the caller closes."""
        self._pipe = pipe
        self._last = b""
        self._is_open = True
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)

    def sources(self) -> list[IO[bytes]]:
        """Return the pipe, to be waited for with others; empty if its other end is closed."""
        return [self._pipe] if self._is_open else []

    def take(self) -> None:
        """Read once; waits if nothing has come."""
        chunk = os.read(self._pipe.fileno(), _READ_BYTES)
        self._is_open = bool(chunk)
        self._last = (self._last + chunk)[-LAST_WORDS_BYTES:]

    def take_all(self) -> None:
        """Read what has come, at most what the pipe can hold, without waiting."""
        for _ in range(0, _PIPE_BYTES, _READ_BYTES):
            readable, _, _ = select.select(self.sources(), [], [], 0)
            if not readable:
                return
            self.take()

    def last_words(self) -> str:
        """Return the end of what has come, as text."""
        self.take_all()
        return readable_words(self._last)


def readable_words(errors: bytes) -> str:
    """Return the end of standard error as text, without colours."""
    return _COLOURS.sub("", errors[-LAST_WORDS_BYTES:].decode(errors="replace")).strip()
