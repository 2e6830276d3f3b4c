"""Ctrl-C, SIGTERM and SIGHUP: requests to end in order.

The first one is raised as KeyboardInterrupt. While that is handled further ones do nothing: what
was finished is being stored, and what was started ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

__all__ = [
    "Interrupted",
    "check_interrupted",
    "first_interrupt_calls",
    "forwarded",
    "handle_signals",
    "ignore_signals",
    "shell_code",
    "uninterrupted",
]

_DESCRIPTORS = Path("/proc/self/fd")
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A request to end, by a signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Hold:
    """Keeps a signal back until what must not be cut in two is done."""

    is_on = False
    number: int | None = None
    #: The last one that was raised.
    raised: int | None = None


def shell_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of a program that this has ended, as shells give it."""
    return 128 + (interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT)


def handle_signals() -> None:
    """Have these signals raise Interrupted from now on. One that is ignored, as SIGHUP under nohup,
    stays so.
    """
    _Hold.raised = None
    _set(_interrupt)


def check_interrupted() -> None:
    """Raise again what was raised since handle_signals, where the program goes on as if nothing had
    been.

    Python swallows what is raised in finalisers and callbacks.
    """
    if _Hold.raised is not None:
        _interrupt(_Hold.raised, None)


def ignore_signals() -> None:
    """Have these signals do nothing from now on, since the end is near; processes that are started
    get them.
    """
    _set(_nothing)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep these signals back while this is open: it takes a moment, and half of it would be in the
    way.
    """
    if _Hold.is_on:
        yield
        return
    _Hold.is_on = True
    try:
        yield
    finally:
        _Hold.is_on = False
        number = _Hold.number
        _Hold.number = None
        if number is not None:
            _interrupt(number, None)


@contextmanager
def first_interrupt_calls(end: Callable[[], None]) -> Iterator[None]:
    """While this is open, the first of these signals calls `end`; a second one does what it did
    before.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        restore()
        end()

    with _replaced(handle) as restore:
        yield


@contextmanager
def forwarded() -> Iterator[Callable[[Callable[[int], None]], None]]:
    """While this is open, what is given to the yielded function gets these signals, also those that
    came before.

    The first one is raised at the end.
    """
    numbers: list[int] = []
    receivers: list[Callable[[int], None]] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        numbers.append(number)
        for send in receivers:
            send(number)

    def forward_to(send: Callable[[int], None]) -> None:
        receivers.append(send)
        for number in tuple(numbers):
            send(number)

    with _replaced(handle):
        yield forward_to
    if numbers:
        raise Interrupted(numbers[0])


@contextmanager
def _replaced(handler: Callable[[int, FrameType | None], None]) -> Iterator[Callable[[], None]]:
    """Have another handler while this is open, and yield what puts the former ones back; only the
    main thread can.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _NUMBERS} if is_main else {}

    def restore() -> None:
        for number, former in before.items():
            signal.signal(number, former)

    if is_main:
        _set(handler)
    try:
        yield restore
    finally:
        restore()


def _set(handler: Callable[[int, FrameType | None], None]) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        handler(number, frame)

    for number in _NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _leave_terminal() -> None:
    """Drop what is written from now on to a terminal that is gone: an error of writing would hide
    that this ends.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for link in list(_DESCRIPTORS.iterdir()):
        with suppress(OSError):  # the listing's own
            if str(link.readlink()).startswith(("/dev/pts/", "/dev/tty")) and not os.isatty(
                int(link.name)
            ):
                os.dup2(null, int(link.name))
    os.close(null)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if _Hold.is_on:
        _Hold.number = number
    elif not _is_ending():
        _Hold.raised = number
        raise Interrupted(number)


def _is_ending() -> bool:
    """Whether a KeyboardInterrupt is being handled, in `except` or `finally`, however deep."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Be a handler: programs that are started do not inherit it, as they would that a signal is
    ignored.
    """
