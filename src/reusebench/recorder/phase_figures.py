"""The figures of a phase, made while it is recorded: what is kept of it stays small, however long
it takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from reusebench.recorder.process_tree import Peaks

__all__ = ["KINDS", "PhaseRecord", "WeightedReadings"]

#: What is read of a program again and again, by the names of its figures.
KINDS = ("application_memory", "application_uss", "application_rss", "system_memory", "npu_memory")
#: Readings of a phase whose median is exact; of more, two neighbours become one.
_MOST_READINGS = 1000


class WeightedReadings:
    """The readings of one kind in one phase."""

    def __init__(self) -> None:
        self.count = 0
        self.last_bytes: int | None = None
        self.last_ns = 0
        self._values = array("q")
        #: For how long each of them is the nearest reading.
        self._weights_ns = array("q")
        #: Up to when the time of the phase has been given to them.
        self._until_ns = 0
        self._is_of_stretch = False

    def begin(self, now_ns: int) -> None:
        """Begin a stretch of the phase."""
        self._until_ns = now_ns
        self._is_of_stretch = False

    def add(self, value: int, now_ns: int) -> None:
        """Add a reading; half of the time since the last one is that one's."""
        gap_ns = now_ns - self._until_ns
        if self._is_of_stretch:
            self._weights_ns[-1] += gap_ns // 2
            gap_ns -= gap_ns // 2
        self._values.append(value)
        self._weights_ns.append(gap_ns)
        self._until_ns = now_ns
        self._is_of_stretch = True
        self.count += 1
        self.last_bytes = value
        self.last_ns = now_ns
        if len(self._values) > _MOST_READINGS:
            self._merge()

    def end(self, now_ns: int) -> None:
        """End the stretch."""
        if self._is_of_stretch:
            self._weights_ns[-1] += now_ns - self._until_ns
        self._until_ns = now_ns
        self._is_of_stretch = False

    def median(self) -> int | None:
        """Return the value that half of the time was below; None if there is no reading."""
        weighted = sorted(
            (value, max(weight_ns, 1)) for value, weight_ns in zip(self._values, self._weights_ns)
        )
        half = sum(weight for _, weight in weighted) / 2
        before = 0
        for index, (value, weight) in enumerate(weighted):
            before += weight
            if before == half and index + 1 < len(weighted):
                return (value + weighted[index + 1][0]) // 2
            if before >= half:
                return value
        return None

    def _merge(self) -> None:
        """Give the time of two readings that are next to each other in size to the one that has
        more of it.
        """
        # The last one stays last: more time may be its own.
        last_value = self._values.pop()
        last_ns = self._weights_ns.pop()
        by_size = sorted(zip(self._values, self._weights_ns))
        pairs = list(zip(by_size[::2], by_size[1::2]))
        self._values = array("q", [max(pair, key=lambda reading: reading[1])[0] for pair in pairs])
        self._weights_ns = array("q", [one[1] + other[1] for one, other in pairs])
        self._values.append(last_value)
        self._weights_ns.append(last_ns)


@dataclass
class PhaseRecord:
    """One phase in one recording, all its stretches together; times are monotonic."""

    duration_ns: int = 0
    series: dict[str, WeightedReadings] = field(
        default_factory=lambda: {kind: WeightedReadings() for kind in KINDS}
    )
    #: Highest RSS that was read or that the kernel noted: of the sum over all processes, and of a
    #: single one.
    peak_bytes: int | None = None
    process_peak_bytes: int | None = None
    #: Of the sum what the kernel's marks allow at most.
    _at_most_bytes: int = 0
    #: Whether the kernel's marks were of all processes, and of nothing but the phase, in each
    #: stretch of it.
    _is_bounded: bool = True
    is_process_peak_exact: bool = False
    #: Whether a stretch of it is over.
    has_ended: bool = False
    _end_ns: int = 0

    def begin(self, now_ns: int, readings: Mapping[str, int]) -> None:
        """Begin a stretch; the readings at its mark are the first of it too."""
        self._end_ns = now_ns
        self.is_process_peak_exact = False
        for kind, series in self.series.items():
            series.begin(now_ns)
            if kind in readings:
                series.add(readings[kind], now_ns)

    def add(self, kind: str, value: int, now_ns: int) -> None:
        """Add a reading."""
        self.series[kind].add(value, now_ns)

    def add_peak(self, sum_bytes: int, process_bytes: int) -> None:
        """Note what may be higher than all before."""
        self.process_peak_bytes = max(self.process_peak_bytes or 0, process_bytes)
        # When one process was at its peak, the sum was at least that.
        self.peak_bytes = max(self.peak_bytes or 0, sum_bytes, process_bytes)

    def go_on(self, now_ns: int) -> None:
        """Count the time up to now."""
        self.duration_ns += now_ns - self._end_ns
        self._end_ns = now_ns

    def end(self, now_ns: int, peaks: Peaks | None) -> None:
        """End the stretch, with the kernel's marks where they were read at its end."""
        self.go_on(now_ns)
        self.has_ended = True
        for series in self.series.values():
            series.end(now_ns)
        if peaks is None or peaks.sum_bytes is None:
            self._is_bounded = False
        else:
            self._at_most_bytes = max(self._at_most_bytes, peaks.sum_bytes)
        self.is_process_peak_exact = self._is_bounded

    def last(self, kind: str) -> int | None:
        """Return the reading at the end, or the last one before it."""
        return self.series[kind].last_bytes

    def age_ns(self) -> int | None:
        """Return how long before the end the last reading of application memory was made."""
        series = self.series[KINDS[0]]
        return self._end_ns - series.last_ns if series.count else None

    def peak_at_most_bytes(self) -> int | None:
        """Return what the sum over all processes can have been at most; None if that is not
        known.
        """
        if not (self._is_bounded and self.is_process_peak_exact) or self.peak_bytes is None:
            return None
        return max(self._at_most_bytes, self.peak_bytes)
