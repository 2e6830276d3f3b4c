"""Signals to the recorder: they wake its select, and the reader of the pipe acts on them."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

__all__ = ["SignalPipe"]

#: Signals from the user and the terminal, and from the kernel when a child has ended.
_NUMBERS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD)
_READ_BYTES = 1024


class SignalPipe:
    """A pipe that receives the numbers of signals, which have no other effect while it is open.

    A signal that is ignored, as in a background job, stays ignored, also in the program.
    """

    def __enter__(self) -> SignalPipe:
        self.descriptor, self._write = os.pipe()
        for end in (self.descriptor, self._write):
            os.set_blocking(end, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers: dict[int, Any] = {}
        for number in _NUMBERS:
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGCHLD:
                self._handlers[number] = signal.signal(number, _do_nothing)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        # Python complains of a signal whose handler has just gone. Meanwhile this thread gets none.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._handlers)
        for number, handler in self._handlers.items():
            # Another thread may get a SIGCHLD, which by default does nothing either.
            if number != signal.SIGCHLD or handler != signal.SIG_DFL:
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.descriptor)
        os.close(self._write)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def read(self) -> list[int]:
        """Return the numbers of the signals since the last call, in order."""
        try:
            return list(os.read(self.descriptor, _READ_BYTES))
        except BlockingIOError:
            return []


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Serve as a handler: executing a program resets it, but would keep an ignored signal."""
