"""The clock that gives pytest-benchmark the times of the measured process."""

from __future__ import annotations

import pytest

from harness.clock import ReplayClock


def test_a_round_is_exactly_one_latency() -> None:
    """The difference of two readings around `advance` is the latency to the last bit, however many came before."""
    latencies_ns = [1, 123_456_789, 3, 10**12 + 1, 7]
    clock = ReplayClock()
    clock.load(latencies_ns)
    rounds = []
    for _ in latencies_ns:
        clock.rewind()
        before = clock()
        clock.advance()
        rounds.append(clock() - before)
    assert rounds == [each / 1e9 for each in latencies_ns]


def test_time_stands_while_nobody_advances() -> None:
    """Reading the clock takes no time of its own."""
    clock = ReplayClock()
    clock.load([5])
    clock.advance()
    assert clock() == clock() == 5e-9


def test_there_are_no_more_rounds_than_latencies() -> None:
    """A round that was not measured cannot be made up."""
    clock = ReplayClock()
    clock.load([5])
    clock.advance()
    with pytest.raises(StopIteration):
        clock.advance()
