"""Ctrl-C, SIGTERM and SIGHUP as requests to end in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from reusebench.system.interrupts import (
    Interrupted,
    check_interrupted,
    handle_signals,
    ignore_signals,
    shell_code,
    uninterrupted,
)

_NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handle the signals in the test, and restore the handlers afterwards."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_DFL)
    handle_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", _NUMBERS)
def test_the_first_one_is_raised(number: int) -> None:
    """The first signal is raised as KeyboardInterrupt, with the exit code that shells give."""
    with pytest.raises(Interrupted) as interrupt:
        _send(number)
    assert shell_code(interrupt.value) == 128 + number
    assert shell_code(KeyboardInterrupt()) == 130


def _end_twice() -> list[str]:
    nothing: dict[str, str] = {}
    done = []
    try:
        try:
            _send()
        finally:
            with suppress(KeyError):
                nothing["absent"]
            try:
                nothing["absent"]
            except KeyError:
                _send()
            done.append("cleaned")
    except KeyboardInterrupt:
        _send(signal.SIGINT)
        done.append("stored")
    return done


def test_what_handles_it_is_not_interrupted() -> None:
    """Cleaning up is not interrupted, even while it handles errors; a later signal is raised."""
    assert _end_twice() == ["cleaned", "stored"]
    with pytest.raises(Interrupted):
        _send()


def test_what_must_be_whole_is_not_cut() -> None:
    """The signal is raised once, when the operation is done."""
    done = []

    def write() -> None:
        with uninterrupted():
            _send()
            with uninterrupted():
                _send(signal.SIGINT)
            done.append("written")

    with pytest.raises(Interrupted):
        write()
    assert done == ["written"]


def test_one_that_is_ignored_stays_so() -> None:
    """SIGHUP under nohup is such a signal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    handle_signals()
    _send(signal.SIGHUP)


def test_near_the_end_they_do_nothing() -> None:
    """Programs started then can still be interrupted."""
    ignore_signals()
    for number in _NUMBERS:
        _send(number)
        assert signal.getsignal(number) is not signal.SIG_IGN


def test_one_that_python_swallows_is_raised_again() -> None:
    """Python swallows exceptions in finalisers and in fork callbacks."""
    check_interrupted()
    with suppress(KeyboardInterrupt):
        _send()
    with pytest.raises(Interrupted):
        check_interrupted()
