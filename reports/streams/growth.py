"""The growth of memory while streams run, over the repeats of a configuration."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.trend import Precision, Trend, trend
from reusebench.reports.results.rows import Row
from reusebench.storage.result import Series

#: The memories that are watched over time: RSS, and the bytes that the C library has handed out,
#: which show a leak into free memory of the heap.
RSS = "memory"
HEAP = "heap"
#: The standard deviation of a reading, however little the readings differ. The kernel's counter of
#: RSS may be off by 128 KiB between two times on 2 CPUs: it is folded in batches of 32 pages for
#: each (lib/percpu_counter.c). The error of more CPUs shows in the noise. The heap in use is exact
#: but for blocks that come and go with each frame.
READING_ERRORS = {RSS: 128.0 * 1024, HEAP: 4.0 * 1024}
_SECONDS_PER_DAY = 86_400
#: Verdicts on memory over time. If repeats differ, the first of these counts: a leak in one of them
#: is a leak.
GROWTH_VERDICTS = ("growing", "grew_then_level", "falling", "level", "unknown")


@dataclass(frozen=True)
class Growth:
    """Memory over time, in the repeats with this verdict; rates are in bytes per second."""

    #: One of GROWTH_VERDICTS.
    verdict: str
    #: The number of repeats with this verdict.
    count: int
    #: The number of all repeats.
    repeats: int
    slope: float
    #: The widest of the 95 % intervals.
    low: float
    high: float
    #: The lowest.
    confidence_percent: float
    #: The latest; None for every verdict but grew_then_level.
    level_after_s: float | None
    #: The smallest growth that each of these repeats would have distinguished from noise.
    resolution: float
    #: The length of a run that would show whether memory grows.
    needed_s: float

    @property
    def per_day(self) -> float:
        """The growth in a day."""
        return self.slope * _SECONDS_PER_DAY

    @property
    def most_per_day(self) -> float:
        """The most by which it could still grow in a day."""
        return max(0.0, self.high) * _SECONDS_PER_DAY


def readings_of(series: Series, memory: str) -> Sequence[int | None]:
    """Return the readings of RSS or HEAP; empty if there are none."""
    if memory == RSS:
        return series.rss_bytes
    return series.heap_bytes or ()


def trends(row: Row, memory: str = RSS) -> Sequence[tuple[Series, Trend]]:
    """Return the series of each repeat with enough readings of RSS or HEAP, and their trend."""
    repeats = []
    for streams in row.frames:
        series = streams.series
        if series is None:
            continue
        readings = readings_of(series, memory)
        known = [size for size in readings if size is not None]
        if not readings or len(known) < len(readings):
            continue
        precision = Precision(row.leak_limits.bytes_per_s, READING_ERRORS[memory])
        fitted = trend(series.seconds, known, precision)
        if fitted:
            repeats.append((series, fitted))
    return repeats


def growth(row: Row, memory: str = RSS) -> Growth | None:
    """Return the growth of RSS or HEAP over time; None if there are too few readings."""
    series_trends = trends(row, memory)
    if not series_trends:
        return None

    repeats = [fitted for _, fitted in series_trends]
    limit = row.leak_limits.bytes_per_s
    needed_s = []
    for series, fitted in series_trends:
        length_s = series.seconds[-1] - series.seconds[0]
        needed_s.append(length_s * fitted.length_needed(limit))
    verdicts = {repeat.verdict for repeat in repeats}
    verdict = next(name for name in GROWTH_VERDICTS if name in verdicts)
    decisive = [repeat for repeat in repeats if repeat.verdict == verdict]
    level_times_s = [repeat.level_after for repeat in decisive if repeat.level_after is not None]
    return Growth(
        verdict=verdict,
        count=len(decisive),
        repeats=len(repeats),
        slope=statistics.median(repeat.slope for repeat in decisive),
        low=min(repeat.low for repeat in decisive),
        high=max(repeat.high for repeat in decisive),
        confidence_percent=min(repeat.growing_confidence_percent for repeat in decisive),
        level_after_s=max(level_times_s, default=None),
        resolution=max(repeat.resolution for repeat in decisive),
        needed_s=max(needed_s),
    )
