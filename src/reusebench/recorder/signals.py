"""Signals to the recorder wake a select; what they do is decided where they are read."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

__all__ = ["SignalPipe"]

#: From the user and the terminal, and from the kernel when a child has ended.
_NUMBERS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD)


class SignalPipe:
    """While it is open, these signals are only written into a pipe.

    One that is ignored, as of a job in the background, stays so, and so it does for the program.
    """

    def __enter__(self) -> SignalPipe:
        self.descriptor, self._write = os.pipe()
        for end in (self.descriptor, self._write):
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers: dict[int, Any] = {}
        for number in _NUMBERS:
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD:
                self._handlers[number] = signal.signal(number, _nothing)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.descriptor)
        os.close(self._write)

    def read(self) -> list[int]:
        """Return the numbers of the signals since the last time, in order."""
        try:
            return list(os.read(self.descriptor, 1024))
        except BlockingIOError:
            return []


def _nothing(number: int, frame: FrameType | None) -> None:
    """Be a handler: executing a program resets it, where it would keep an ignored signal
    ignored.
    """
