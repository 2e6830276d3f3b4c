"""Ctrl-C as a request to end in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["first_interrupt_calls"]


@contextmanager
def first_interrupt_calls(end: Callable[[], None]) -> Iterator[None]:
    """While this is open, Ctrl-C calls `end`; a second one does what Ctrl-C did before.

    Where SIGINT is ignored, as of a job in the background, it stays so; only the main thread can handle it.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        end()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
