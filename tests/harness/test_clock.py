"""The clock that gives pytest-benchmark the times of the measured process."""

from __future__ import annotations

import pytest

from reusebench.harness.clock import ReplayClock


def test_a_round_is_exactly_one_latency() -> None:
    """The difference of two readings around `advance` is the latency to the last bit; there are no
    other rounds.
    """
    latencies_ns = [1, 123_456_789, 3, 10**12 + 1, 7]
    clock = ReplayClock()
    clock.load(latencies_ns)
    rounds_s = []
    for _ in latencies_ns:
        clock.rewind()
        before_s = clock()
        clock.advance()
        rounds_s.append(clock() - before_s)
    assert rounds_s == [latency_ns / 1e9 for latency_ns in latencies_ns]
    with pytest.raises(StopIteration):
        clock.advance()
