"""Ctrl-C, SIGTERM and SIGHUP: requests to end in order.

The first one is raised as KeyboardInterrupt. While that is handled, later ones do nothing: results
are being stored, and started processes ended.
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
    """A request to end, by signal `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _State:
    """State of the signals: held back while an operation must not be interrupted halfway."""

    is_holding = False
    #: The signal that is held back.
    held: int | None = None
    #: The last signal that was raised.
    raised: int | None = None


def shell_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of a program ended by this interrupt, as shells give it."""
    number = interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT
    return 128 + number


def handle_signals() -> None:
    """Have these signals raise Interrupted.

    Ignored signals stay ignored, such as SIGHUP under nohup.
    """
    _State.raised = None
    _set(_interrupt)


def check_interrupted() -> None:
    """Raise the interrupt again that was raised since handle_signals, if it got lost.

    Python swallows exceptions raised in finalisers and callbacks, and the program continues.
    """
    if _State.raised is not None:
        _interrupt(_State.raised, None)


def ignore_signals() -> None:
    """Have these signals do nothing, since the end is near; started processes still get them."""
    _set(_do_nothing)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold these signals back during a short operation that must not stop halfway."""
    if _State.is_holding:
        yield
        return
    _State.is_holding = True
    try:
        yield
    finally:
        _State.is_holding = False
        number = _State.held
        _State.held = None
        if number is not None:
            _interrupt(number, None)


@contextmanager
def first_interrupt_calls(end: Callable[[], None]) -> Iterator[None]:
    """Have the first of these signals call `end`; a second one has its previous effect."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        restore()
        end()

    with _replaced(handle) as restore:
        yield


@contextmanager
def forwarded() -> Iterator[Callable[[Callable[[int], None]], None]]:
    """Forward these signals to the receivers that are passed to the yielded function.

    A receiver also gets the signals that came before. The first signal is raised at the end.
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
    """Set another handler, and yield the function that restores the previous ones.

    Only the main thread can set handlers.
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
    """Redirect writing to a vanished terminal to nowhere: write errors would hide the interrupt."""
    null = os.open(os.devnull, os.O_RDWR)
    for link in list(_DESCRIPTORS.iterdir()):
        descriptor = int(link.name)
        with suppress(OSError):  # the listing's own descriptor
            is_terminal = str(link.readlink()).startswith(("/dev/pts/", "/dev/tty"))
            if is_terminal and not os.isatty(descriptor):
                os.dup2(null, descriptor)
    os.close(null)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    if _State.is_holding:
        _State.held = number
    elif not _is_ending():
        _State.raised = number
        raise Interrupted(number)


def _is_ending() -> bool:
    """Whether a KeyboardInterrupt is being handled, in `except` or `finally`, at any depth."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Serve as a handler: started programs inherit no handlers, but would inherit SIG_IGN."""
