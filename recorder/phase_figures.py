"""The figures of phases, from the readings of a recording."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recorder.phases import Stretch
from recorder.recording import Readings, Recording

__all__ = ["PhaseFigures", "phase_figures", "typical"]


@dataclass(frozen=True)
class PhaseFigures:
    """One phase in one recording; sizes in bytes, None where nothing was read."""

    duration_ns: int
    pss_readings: int
    application_memory_bytes: int | None
    application_uss_bytes: int | None
    application_rss_bytes: int | None
    application_peak_rss_bytes: int | None
    process_peak_rss_bytes: int | None
    system_memory_bytes: int | None
    system_memory_over_idle_bytes: int | None
    npu_memory_bytes: int | None


def phase_figures(recording: Recording) -> dict[str, PhaseFigures]:
    """Return the figures of the phases by their names, in order."""
    stretches: dict[str, list[Stretch]] = {}
    for stretch in recording.stretches:
        stretches.setdefault(stretch.name, []).append(stretch)
    return {name: _figures(recording, of_phase) for name, of_phase in stretches.items()}


def typical(readings: Readings, stretches: Sequence[Stretch]) -> int | None:
    """Return the value that half of the time was below; a moment counts with the reading nearest to it.

    A reading at a mark counts on both of its sides. None where there is no reading.
    """
    weighted = sorted(pair for stretch in stretches for pair in _weighted(readings, stretch))
    half, before = sum(weight for _, weight in weighted) / 2, 0
    for index, (value, weight) in enumerate(weighted):
        before += weight
        if before == half and index + 1 < len(weighted):
            return (value + weighted[index + 1][0]) // 2
        if before >= half:
            return value
    return None


def _figures(recording: Recording, stretches: Sequence[Stretch]) -> PhaseFigures:
    system = typical(recording.system, stretches)
    single = _most_of(_highest(recording.largest, stretches), _highest(recording.peaks, stretches, until_end=True))
    return PhaseFigures(
        duration_ns=sum(stretch.end_ns - stretch.begin_ns for stretch in stretches),
        pss_readings=sum(1 for stretch in stretches for _ in _weighted(recording.pss, stretch)),
        application_memory_bytes=typical(recording.pss, stretches),
        application_uss_bytes=typical(recording.uss, stretches),
        application_rss_bytes=typical(recording.rss, stretches),
        # When one process was at its peak, the sum was at least that.
        application_peak_rss_bytes=_most_of(_highest(recording.rss, stretches), single),
        process_peak_rss_bytes=single,
        system_memory_bytes=system,
        system_memory_over_idle_bytes=None if system is None else system - recording.idle_bytes,
        npu_memory_bytes=typical(recording.npu, stretches),
    )


def _most_of(*sizes: int | None) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


def _weighted(readings: Readings, stretch: Stretch) -> Iterator[tuple[int, int]]:
    """Yield the readings of the stretch, with the time for which they are the nearest, at least 1."""
    first, last = bisect_left(readings.times_ns, stretch.begin_ns), bisect_right(readings.times_ns, stretch.end_ns)
    times = readings.times_ns[first:last]
    ends = [stretch.begin_ns, *((one + other) // 2 for one, other in zip(times, times[1:])), stretch.end_ns]
    for value, begin_ns, end_ns in zip(readings.values[first:last], ends, ends[1:]):
        yield value, max(end_ns - begin_ns, 1)


def _highest(readings: Readings, stretches: Sequence[Stretch], until_end: bool = False) -> int | None:
    """Return the highest of the readings from the begin of a stretch to before its end.

    `until_end`: of what had risen in it, which is still in a reading at its end, and no more in one at its begin.
    """
    bisect = bisect_right if until_end else bisect_left
    values: list[int] = []
    for stretch in stretches:
        first, last = bisect(readings.times_ns, stretch.begin_ns), bisect(readings.times_ns, stretch.end_ns)
        values += readings.values[first:last]
    return max(values, default=None)
