"""A timer for pytest-benchmark that advances by latencies which were measured elsewhere.

In pedantic mode a round is the difference of two readings of the timer around one call. The call
here is `advance`, which moves the clock by the next latency. So each round is exactly one inference
as it was timed inside the measured process, and pytest-benchmark's statistics, table, storage and
comparison work unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["ReplayClock"]


class ReplayClock:
    """A clock in seconds, as pytest-benchmark expects it."""

    def __init__(self) -> None:
        self._latencies_ns: Iterator[int] = iter(())
        self._now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self._now_s

    def load(self, latencies_ns: Sequence[int]) -> None:
        """Set the durations of the next calls of `advance`."""
        self._latencies_ns = iter(latencies_ns)

    def advance(self) -> None:
        """Move on by one inference, from 0, so that no precision is lost in a long sum."""
        self._now_s = next(self._latencies_ns) / 1e9

    def rewind(self) -> None:
        """Set the clock to 0."""
        self._now_s = 0.0
