"""The figures of a phase, computed while it is recorded: their memory stays small in any case."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from reusebench.recorder.process_tree import Peaks

__all__ = ["KINDS", "PhaseRecord", "WeightedReadings"]

#: Kinds of repeated readings of a program, by the names of their figures.
KINDS = ("application_memory", "application_uss", "application_rss", "system_memory", "npu_memory")
#: Readings of a phase up to which the median is exact; of more, two neighbours become one.
_MOST_READINGS = 1000


class WeightedReadings:
    """The readings of one kind in one phase, each with the time for which it is the nearest."""

    def __init__(self) -> None:
        self.count = 0
        self.last_bytes: int | None = None
        self.last_ns = 0
        self._values = array("q")
        self._weights_ns = array("q")
        #: End of the time that has been given to readings.
        self._until_ns = 0
        self._has_reading_in_stretch = False

    def begin(self, now_ns: int) -> None:
        """Begin a stretch of the phase."""
        self._until_ns = now_ns
        self._has_reading_in_stretch = False

    def add(self, value: int, now_ns: int) -> None:
        """Add a reading; half of the time since the last one goes to the last one."""
        gap_ns = now_ns - self._until_ns
        if self._has_reading_in_stretch:
            self._weights_ns[-1] += gap_ns // 2
            gap_ns -= gap_ns // 2
        self._values.append(value)
        self._weights_ns.append(gap_ns)
        self._until_ns = now_ns
        self._has_reading_in_stretch = True
        self.count += 1
        self.last_bytes = value
        self.last_ns = now_ns
        if len(self._values) > _MOST_READINGS:
            self._merge_neighbours()

    def end(self, now_ns: int) -> None:
        """End the stretch."""
        if self._has_reading_in_stretch:
            self._weights_ns[-1] += now_ns - self._until_ns
        self._until_ns = now_ns
        self._has_reading_in_stretch = False

    def forget(self) -> None:
        """Drop all readings."""
        self.count = 0
        self.last_bytes = None
        self._values = array("q")
        self._weights_ns = array("q")
        self._has_reading_in_stretch = False

    def median(self) -> int | None:
        """Return the median weighted by time; None if there is no reading."""
        weighted = sorted(
            (value, max(weight_ns, 1)) for value, weight_ns in zip(self._values, self._weights_ns)
        )
        half_ns = sum(weight_ns for _, weight_ns in weighted) / 2
        sum_ns = 0
        for index, (value, weight_ns) in enumerate(weighted):
            sum_ns += weight_ns
            if sum_ns == half_ns and index + 1 < len(weighted):
                next_value = weighted[index + 1][0]
                return (value + next_value) // 2
            if sum_ns >= half_ns:
                return value
        return None

    def _merge_neighbours(self) -> None:
        """Merge readings that are neighbours in size; the value of the heavier one stays."""
        # The last reading stays last: it may still gain time.
        last_value = self._values.pop()
        last_weight_ns = self._weights_ns.pop()
        by_size = sorted(zip(self._values, self._weights_ns))
        self._values = array("q")
        self._weights_ns = array("q")
        for (lower, lower_ns), (higher, higher_ns) in zip(by_size[::2], by_size[1::2]):
            self._values.append(higher if higher_ns > lower_ns else lower)
            self._weights_ns.append(lower_ns + higher_ns)
        self._values.append(last_value)
        self._weights_ns.append(last_weight_ns)


def _empty_readings() -> dict[str, WeightedReadings]:
    return {kind: WeightedReadings() for kind in KINDS}


@dataclass
class PhaseRecord:
    """One phase in one recording, all its stretches together; times are monotonic."""

    duration_ns: int = 0
    #: Key: kind.
    readings: dict[str, WeightedReadings] = field(default_factory=_empty_readings)
    #: Highest RSS, read or noted by the kernel: of the sum over all processes.
    peak_bytes: int | None = None
    #: The same for the largest single process.
    process_peak_bytes: int | None = None
    is_process_peak_exact: bool = False
    #: Whether one of its stretches is over.
    has_ended: bool = False
    #: Upper bound of the sum, from the kernel's marks.
    _at_most_bytes: int = 0
    #: Whether the kernel's marks covered all processes and nothing but the phase in each stretch.
    _is_bounded: bool = True
    _end_ns: int = 0

    def begin(self, now_ns: int, at_mark: Mapping[str, int]) -> None:
        """Begin a stretch; the readings `at_mark` are also its first."""
        self._end_ns = now_ns
        self.is_process_peak_exact = False
        for kind, weighted in self.readings.items():
            weighted.begin(now_ns)
            if kind in at_mark:
                weighted.add(at_mark[kind], now_ns)

    def add(self, kind: str, value: int, now_ns: int) -> None:
        """Add a reading."""
        self.readings[kind].add(value, now_ns)

    def forget(self, kind: str) -> None:
        """Drop the readings of a kind: from then on there are none, and earlier ones are stale."""
        self.readings[kind].forget()

    def add_peak(self, sum_bytes: int, process_bytes: int) -> None:
        """Note the RSS of all processes and of the largest, which may be new peaks."""
        self.process_peak_bytes = max(self.process_peak_bytes or 0, process_bytes)
        # When one process was at its peak, the sum was at least that.
        self.peak_bytes = max(self.peak_bytes or 0, sum_bytes, process_bytes)

    def go_on(self, now_ns: int) -> None:
        """Count the time up to now."""
        self.duration_ns += now_ns - self._end_ns
        self._end_ns = now_ns

    def end(self, now_ns: int, peaks: Peaks | None) -> None:
        """End the stretch; `peaks` are the kernel's marks, if they were read at its end."""
        self.go_on(now_ns)
        self.has_ended = True
        for weighted in self.readings.values():
            weighted.end(now_ns)
        if peaks is None or peaks.sum_bytes is None:
            self._is_bounded = False
        else:
            self._at_most_bytes = max(self._at_most_bytes, peaks.sum_bytes)
        self.is_process_peak_exact = self._is_bounded

    def last(self, kind: str) -> int | None:
        """Return the reading at the end, or the last one before it."""
        return self.readings[kind].last_bytes

    def age_ns(self) -> int | None:
        """Return the time from the last reading of application memory to the end."""
        readings = self.readings[KINDS[0]]
        return self._end_ns - readings.last_ns if readings.count else None

    def peak_at_most_bytes(self) -> int | None:
        """Return an upper bound of the sum over all processes; None if it is unknown."""
        if not self._is_bounded or not self.is_process_peak_exact or self.peak_bytes is None:
            return None
        return max(self._at_most_bytes, self.peak_bytes)
