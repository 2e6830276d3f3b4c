"""The pipe of signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from reusebench.recorder.signals import SignalPipe


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    """Put back the handler of SIGCHLD."""
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_signals_are_read_in_order_and_handlers_are_put_back() -> None:
    """A signal has no other effect while the pipe is open."""
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = signal.signal(signal.SIGHUP, note)
    signal.signal(signal.SIGCHLD, note)
    try:
        with SignalPipe() as pipe:
            for number in (signal.SIGHUP, signal.SIGCHLD):
                os.kill(os.getpid(), number)
            assert pipe.read() == [signal.SIGHUP, signal.SIGCHLD]
            assert pipe.read() == []
        assert received == []
        for number in (signal.SIGHUP, signal.SIGCHLD):
            os.kill(os.getpid(), number)
        assert received == [signal.SIGHUP, signal.SIGCHLD]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_child_may_end_while_the_pipe_is_closed() -> None:
    """SIGCHLD keeps a handler: without one Python complains if another thread just got it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with SignalPipe():
        pass
    assert callable(signal.getsignal(signal.SIGCHLD))
