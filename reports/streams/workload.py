"""Streams of video in stored results: what they were given to do, which frames they kept, what
their memory is for.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from reusebench.measured.plan import Streams
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.trend import Precision, Trend, trend
from reusebench.reports.results.rows import Row, workload_key
from reusebench.reports.results.savings import APPLICATION, Saving
from reusebench.storage.result import FrameCount, Series

#: Scenarios that are compared with each other besides their baselines.
DECODE_ONLY = "streams_decode_only"
FULL_DUP = "streams_full_dup"
PER_CORE = "streams_full_dup_per_core"
PERCENTILES = ("p50", "p90", "p99", "max")
#: Of storage.result.FrameCount and FrameFigures.
_COUNTED = ("due", "done", "dropped", "missed", "per_s")
#: Which memory is looked at over time: RSS, and what the C library has handed out, in which a leak
#: shows that fills free memory of the heap.
RSS = "memory"
HEAP = "heap"
#: The leak that a run of 2 minutes must find is 1 MB a minute. The kernel's counter of RSS of 2
#: CPUs may be off by 128 KiB between two times: it is folded in batches of 32 pages for each
#: (lib/percpu_counter.c). What more CPUs do shows in the noise.
PRECISION = Precision(least_growth=1e6 / 60, reading_error=128 * 1024)
#: Of memory over time; of repeats that differ the first of these counts, since a leak in one of
#: them is a leak.
GROWTH_VERDICTS = ("growing", "grew_then_level", "falling", "level", "unknown")
#: A run that lost fewer of its frames kept up: the first frame of a stream may be late, and so may
#: the last.
_KEPT_PERCENT = 1.0


@dataclass(frozen=True)
class FrameFigures:
    """What became of the frames of one stream, or of all, over the repeats."""

    due: Figure
    done: Figure
    dropped: Figure
    missed: Figure
    per_s: Figure
    #: Dropped and missed ones, of those that were due; None if none was.
    lost_percent: Figure | None
    #: Nanoseconds by percentile of PERCENTILES; the longest is that of all repeats. Empty if no
    #: frame was done.
    latency: dict[str, Figure]


@dataclass(frozen=True)
class MemoryParts:
    """What the application memory of a configuration is for, in bytes."""

    #: The runtime imported.
    imported: Figure
    #: Decoders with their library; None if nothing is decoded.
    decoding: Figure | None
    #: All the rest; None of the run that only decodes.
    inference: Figure | None


@dataclass(frozen=True)
class Growth:
    """Memory over time, over the repeats; rates in bytes per second, of the part that the verdict
    is about.
    """

    #: One of GROWTH_VERDICTS.
    verdict: str
    #: How many of the repeats say so.
    count: int
    repeats: int
    slope: float
    #: The widest of the 95 % intervals.
    low: float
    high: float
    #: The least.
    confidence_percent: float
    #: The latest; None for every verdict but grew_then_level.
    level_after_s: float | None
    #: The smallest growth that every repeat would have distinguished from noise.
    resolution: float


@dataclass(frozen=True)
class ThrottlingSummary:
    """What slowed the machine down while a configuration ran."""

    names: tuple[str, ...]
    #: Of the readings, at most.
    share_percent: float


@dataclass(frozen=True)
class Workload:
    """The rows of a group whose streams were given the same to do, of the same video."""

    #: Of the plan.
    schedule: Streams
    rows: list[Row]

    @property
    def due_per_s(self) -> float:
        """Frames per second that are due, of all streams; 0: they are done as fast as possible."""
        return self.schedule.count * self.schedule.fps

    @property
    def decode_only(self) -> Row | None:
        """The run without contexts."""
        return self.row(DECODE_ONLY)

    @property
    def computes(self) -> bool:
        """Whether frames and their latencies mean something."""
        return all(row.computes for row in self.rows)

    @property
    def modes(self) -> list[Row]:
        """The rows that infer, in order."""
        return [row for row in self.rows if row.scenario != DECODE_ONLY]

    def row(self, scenario: str) -> Row | None:
        """Return the row of a scenario that was measured; of several, with other models, the
        first.
        """
        return next((row for row in self.rows if scenario in row.names and row.measured), None)


def workloads(rows: Sequence[Row]) -> list[Workload]:
    """Return the rows that have streams by what they were given to do, the newest workload
    first.
    """
    of_workloads: dict[Hashable, Workload] = {}
    for row in rows:
        if row.schedule:
            of_workloads.setdefault(workload_key(row.info), Workload(row.schedule, [])).rows.append(
                row
            )
    return sorted(
        of_workloads.values(),
        key=lambda workload: max(row.file.order for row in workload.rows),
        reverse=True,
    )


def all_frames(row: Row) -> FrameFigures | None:
    """Return the figures of all streams together, whatever the outcome; None if nothing
    computed, or came so far.
    """
    return _frame_figures([streams.all for streams in row.frames if streams.all])


def stream_frames(row: Row) -> list[FrameFigures]:
    """Return the figures of each stream, in their order."""
    repeats = zip(*(streams.streams for streams in row.frames if streams.streams))
    return [figures for counts in repeats if (figures := _frame_figures(counts))]


def kept_up(row: Row) -> bool | None:
    """Whether it did the frames that were due; None if it had no pace to keep, or nothing
    computed.
    """
    frames = all_frames(row)
    if frames is None or frames.lost_percent is None or not (row.schedule and row.schedule.fps):
        return None
    return frames.lost_percent.median <= _KEPT_PERCENT


def stage(row: Row, name: str, percentile: str) -> Figure | None:
    """Return the nanoseconds of a stage of measured.streams.threads.STAGES; None if it has none."""
    stages = [streams.stages_ns.get(name) for streams in row.frames if streams.stages_ns]
    return Figure.of(getattr(durations, percentile) for durations in stages if durations)


def is_interrupted(row: Row) -> bool:
    """Whether Ctrl-C ended a repeat early."""
    return any(streams.interrupted for streams in row.frames)


def is_cut_off(row: Row) -> bool:
    """Whether the session ended while it ran."""
    return row.outcome == "cut_off"


def memory_parts(row: Row, decode_only: Row | None) -> MemoryParts | None:
    """Return what application memory is for; None if it was not measured.

    Import and decoding are those of the run that only decodes: memory of its library that a first
    inference touches too would else count twice. Without such a run they are read in the same
    process, before there were contexts.
    """
    whole = row.memory(APPLICATION)
    imported = (decode_only or row).memory("baseline_memory_bytes")
    if whole is None or imported is None:
        return None
    decoded = decode_only.memory(APPLICATION) if decode_only else None
    if decoded:
        decodes = bool(row.schedule and row.schedule.video)
        inference = None if row.scenario == DECODE_ONLY else whole - decoded
        return MemoryParts(imported, decoded - imported if decodes else None, inference)
    decoding = row.memory("decoder_memory_bytes")
    return MemoryParts(imported, decoding, whole - imported - (decoding or Figure(0, 0)))


def inference_saving(row: Row, decode_only: Row | None) -> Saving | None:
    """Return what is saved of the baseline's memory of inference: import and decoding are there in
    every mode.
    """
    saving = row.saving(APPLICATION)
    parts = memory_parts(row.baseline, decode_only) if row.baseline else None
    return (
        Saving(APPLICATION, parts.inference, saving.saved)
        if saving and parts and parts.inference
        else None
    )


def trends(row: Row, memory: str = RSS) -> Sequence[tuple[Series, Trend]]:
    """Return the readings of RSS, or of HEAP, with their trend, of each repeat that has enough of
    them.
    """
    repeats = []
    for series in (streams.series for streams in row.frames):
        readings = (series.rss_bytes if memory == RSS else series.heap_bytes) if series else None
        known = [size for size in readings or () if size is not None]
        if (
            series
            and readings
            and len(known) == len(readings)
            and (fitted := trend(series.seconds, known, PRECISION))
        ):
            repeats.append((series, fitted))
    return repeats


def growth(row: Row, memory: str = RSS) -> Growth | None:
    """Return whether RSS, or HEAP, grew over time; None if there are no readings, or too few."""
    repeats = [fitted for _, fitted in trends(row, memory)]
    if not repeats:
        return None
    verdict = next(
        name for name in GROWTH_VERDICTS if any(fitted.verdict == name for fitted in repeats)
    )
    own = [fitted for fitted in repeats if fitted.verdict == verdict]
    return Growth(
        verdict=verdict,
        count=len(own),
        repeats=len(repeats),
        slope=statistics.median(fitted.slope for fitted in own),
        low=min(fitted.low for fitted in own),
        high=max(fitted.high for fitted in own),
        confidence_percent=min(fitted.growing_confidence_percent for fitted in own),
        level_after_s=max(
            (fitted.level_after for fitted in own if fitted.level_after is not None), default=None
        ),
        resolution=max(fitted.resolution for fitted in own),
    )


def throttling_summary(row: Row) -> ThrottlingSummary | None:
    """Return what throttled the machine, no names where nothing did; None if the machine does
    not say.
    """
    machines = [streams.machine for streams in row.frames if streams.machine]
    repeats = [machine.throttled for machine in machines if machine.throttled is not None]
    if not repeats:
        return None
    causes = [cause for repeat in repeats for cause in repeat if cause.share_percent > 0]
    names = tuple(dict.fromkeys(cause.name for cause in causes))
    return ThrottlingSummary(names, max((cause.share_percent for cause in causes), default=0.0))


def _frame_figures(repeats: Sequence[FrameCount]) -> FrameFigures | None:
    figures = {name: Figure.of(getattr(count, name) for count in repeats) for name in _COUNTED}
    known = {name: figure for name, figure in figures.items() if figure}
    if not known:
        return None
    lost = Figure.of(
        100 * (count.dropped + count.missed) / count.due for count in repeats if count.due
    )
    latencies = [count.latency_ns for count in repeats if count.latency_ns]
    latency = {
        name: Figure.of(getattr(durations, name) for durations in latencies) for name in PERCENTILES
    }
    if latencies:
        latency["max"] = Figure(max(durations.max for durations in latencies))
    return FrameFigures(
        **known, lost_percent=lost, latency={name: one for name, one in latency.items() if one}
    )
