"""The figures of a phase, computed while it is recorded: their memory stays small in any case."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from reusebench.recorder.moments import MemoryRange, PassedMark
from reusebench.recorder.process_tree import Peaks

__all__ = ["KINDS", "PhaseRecord", "WeightedReadings"]

#: Kinds of repeated readings of a program, by the names of their figures.
KINDS = (
    "application_memory",
    "application_uss",
    "application_rss",
    "system_memory",
    "npu_memory",
    "hugetlb_memory",
    "held_memory",
    "dmabuf_memory",
)
#: Readings of a phase up to which the median is exact; of more, two neighbours become one.
_MOST_READINGS = 1000
#: A bound of a peak is the peak itself if it is higher by at most this size, or by this share: the
#: kernel counts RSS to some hundred KiB, and a phase goes on while it is read.
_EXACT_BYTES = 512 * 1024
_EXACT_SHARE = 0.005


class WeightedReadings:
    """The readings of one kind in one phase, each with the time for which it is the nearest."""

    def __init__(self) -> None:
        self.count = 0
        self.highest_bytes: int | None = None
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
        self.highest_bytes = max(self.highest_bytes or 0, value)
        self.last_bytes = value
        self.last_ns = now_ns
        if len(self._values) > _MOST_READINGS:
            self._merge_neighbours()

    def set_last(self, value: int, now_ns: int) -> None:
        """Set the value at the end, which follows from the last reading and from others."""
        self.last_bytes = value
        self.last_ns = now_ns

    def end(self, now_ns: int) -> None:
        """End the stretch."""
        if self._has_reading_in_stretch:
            self._weights_ns[-1] += now_ns - self._until_ns
        self._until_ns = now_ns
        self._has_reading_in_stretch = False

    def forget(self) -> None:
        """Drop all readings."""
        self.count = 0
        self.highest_bytes = None
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
    #: Bounds of application memory at the end; None if they are unknown.
    least_bytes: int | None = None
    most_bytes: int | None = None
    #: Upper bound of the sum, from the kernel's marks.
    _at_most_bytes: int = 0
    #: Upper bound of the largest process in the time that no reading has seen.
    _unseen_largest_bytes: int = 0
    #: Whether the kernel's marks covered all processes and nothing but the phase in each stretch.
    _is_bounded: bool = True
    _is_running: bool = False
    _end_ns: int = 0

    def begin(self, now_ns: int) -> None:
        """Begin a stretch."""
        self._end_ns = now_ns
        self._is_running = True
        self.is_process_peak_exact = False
        for weighted in self.readings.values():
            weighted.begin(now_ns)

    def began_unseen(self, passed: MemoryRange) -> None:
        """Note the range of RSS in the time that the kernel's marks of this phase do not cover."""
        self._at_most_bytes = max(self._at_most_bytes, passed.high_bytes)
        self._unseen_largest_bytes = max(self._unseen_largest_bytes, passed.largest_bytes)

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

    def end(self, now_ns: int, peaks: Peaks | None, is_last_exact: bool = False) -> None:
        """End the stretch; `peaks` are the kernel's marks, if they were read at its end.

        `is_last_exact` tells whether the last readings were made while the program waited at the
        end.
        """
        self.go_on(now_ns)
        self.has_ended = True
        self._is_running = False
        for weighted in self.readings.values():
            weighted.end(now_ns)
        if peaks is None or peaks.sum_bytes is None:
            self._is_bounded = False
        else:
            self._at_most_bytes = max(self._at_most_bytes, peaks.sum_bytes)
        seen_bytes = self.process_peak_bytes or 0
        is_all_seen = _is_close(self._unseen_largest_bytes, seen_bytes)
        self.is_process_peak_exact = self._is_bounded and is_all_seen
        self.least_bytes = self.most_bytes = self.last(KINDS[0]) if is_last_exact else None

    def end_passed(self, now_ns: int, peaks: Peaks | None, passed: PassedMark | None) -> None:
        """End the stretch of a program that went on at its mark; `passed` is known of its memory.

        The kernel's marks have what came after the mark too.
        """
        if passed:
            self._unseen_largest_bytes = max(self._unseen_largest_bytes, passed.peak.largest_bytes)
            self.readings["application_memory"].set_last(passed.pss_bytes, passed.before_ns)
            self.readings["application_uss"].set_last(passed.uss_bytes, passed.before_ns)
            self.readings["application_rss"].set_last(passed.rss_bytes, passed.before_ns)
        self.end(now_ns, peaks)
        if passed:
            self.least_bytes = passed.least_bytes
            self.most_bytes = passed.most_bytes

    def last(self, kind: str) -> int | None:
        """Return the reading at the end, or the last one before it."""
        return self.readings[kind].last_bytes

    def age_ns(self) -> int | None:
        """Return the time from the last reading of application memory to the end."""
        readings = self.readings[KINDS[0]]
        return None if readings.last_bytes is None else self._end_ns - readings.last_ns

    def peak_at_most_bytes(self) -> int | None:
        """Return an upper bound of the sum over all processes; None if it is unknown."""
        if not self._is_bounded or self._is_running or self.peak_bytes is None:
            return None
        return max(self._at_most_bytes, self.peak_bytes)


def _is_close(bound_bytes: int, peak_bytes: int) -> bool:
    """Whether an upper bound is as good as the peak itself."""
    return bound_bytes - peak_bytes <= max(_EXACT_BYTES, peak_bytes * _EXACT_SHARE)
