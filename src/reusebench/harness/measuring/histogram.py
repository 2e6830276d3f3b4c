"""Percentiles of any number of durations in a fixed amount of memory."""

from __future__ import annotations

from reusebench.storage.result import Percentiles

__all__ = ["Histogram"]

#: Number of buckets of equal width for each doubling of a duration: a percentile is off by 0.4 % at
#: most.
_BUCKETS_PER_DOUBLING = 128
_BITS = _BUCKETS_PER_DOUBLING.bit_length() - 1


class Histogram:
    """Counts of durations in buckets that widen with them, as in HdrHistogram; an exact maximum."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._max_ns = 0
        self.count = 0

    def add(self, duration_ns: int) -> None:
        """Count a duration; a negative one counts as 0."""
        bucket = _bucket(max(0, duration_ns))
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._max_ns = max(self._max_ns, duration_ns)
        self.count += 1

    def percentiles(self) -> Percentiles | None:
        """Return the stored percentiles; None without any duration."""
        if not self.count:
            return None
        return Percentiles(
            p50=self.value(50), p90=self.value(90), p99=self.value(99), max=self._max_ns
        )

    def value(self, percent: int) -> int:
        """Return the duration that `percent` of all do not exceed; 0 without any."""
        wanted = -(-percent * self.count // 100)
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(_middle(bucket), self._max_ns)
        return self._max_ns


def _bucket(duration_ns: int) -> int:
    """Return the number of the bucket: exact below 256 ns, then 128 for each doubling."""
    shift = max(0, duration_ns.bit_length() - _BITS - 1)
    return (shift << _BITS) + (duration_ns >> shift)


def _middle(bucket: int) -> int:
    """Return the duration in the middle of the bucket."""
    shift = max(0, (bucket >> _BITS) - 1)
    low = (bucket - (shift << _BITS)) << shift
    return low + (1 << shift) // 2
