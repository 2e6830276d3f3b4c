"""Streams of video in stored results: what was asked of them, which frames they kept, and what their memory is for."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reports.base.statistics import Figure, difference
from reports.results.rows import Row, workload

__all__ = [
    "DECODE_ONLY",
    "FULL_DUP",
    "HEAP",
    "PERCENTILES",
    "PER_CORE",
    "RSS",
    "STAGES",
    "STREAMS",
    "VERDICTS",
    "FrameFigures",
    "Growth",
    "MemoryParts",
    "Throttling",
    "Workload",
    "all_frames",
    "asked_per_s",
    "growth",
    "inference_saved_percent",
    "is_cut_off",
    "is_interrupted",
    "kept_up",
    "memory_parts",
    "of_repeats",
    "stage",
    "stream_frames",
    "throttling",
    "workloads",
]

#: The question of these scenarios.
STREAMS = "streams"
DECODE_ONLY, FULL_DUP, PER_CORE = "streams_decode_only", "streams_full_dup", "streams_full_dup_per_core"
PERCENTILES = ("p50", "p90", "p99", "max")
#: What a frame goes through, in this order.
STAGES = ("wait", "decode", "queue", "resize", "inference", "output")
#: Which memory is looked at over time, by the names that its trends have in stored results: RSS, and what the C library
#: has handed out, in which a leak shows that fills free memory of the heap.
RSS, HEAP = "memory", "heap"
#: Of memory over time; of repeats that differ the first of these counts, since a leak in one of them is a leak.
VERDICTS = ("growing", "grew_then_level", "falling", "level", "unknown")
#: A run that lost fewer of its frames kept up: the first frame of a stream may be late, and so may the last.
_KEPT_PERCENT = 1.0


@dataclass(frozen=True)
class FrameFigures:
    """What became of the frames of one stream, or of all, over the repeats."""

    due: Figure
    done: Figure
    dropped: Figure
    missed: Figure
    per_s: Figure
    #: Dropped and missed ones, of those that were due; None where none was.
    lost_percent: Figure | None
    #: Nanoseconds by percentile of PERCENTILES; the longest is that of all repeats. Empty where no frame was done.
    latency: dict[str, Figure]


@dataclass(frozen=True)
class MemoryParts:
    """What the application memory of a configuration is for, in bytes."""

    #: The runtime imported.
    imported: Figure
    #: Decoders with their library; None where nothing is decoded.
    decoding: Figure | None
    #: All the rest; None of the run that only decodes.
    inference: Figure | None


@dataclass(frozen=True)
class Growth:
    """Memory over time, over the repeats; rates in bytes per second, of the part that the verdict is about."""

    #: One of VERDICTS.
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
    #: The smallest growth that every repeat would have told from noise.
    resolution: float


@dataclass(frozen=True)
class Throttling:
    """What slowed the machine down while a configuration ran."""

    names: tuple[str, ...]
    #: Of the readings, at most.
    share_percent: float


@dataclass(frozen=True)
class Workload:
    """The rows of a group that were asked the same of the same video."""

    #: Of the plan.
    schedule: dict[str, Any]
    rows: Sequence[Row]

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
        """Return the row of a scenario that was measured; of several, with other models, the first."""
        return next((row for row in self.rows if row.scenario == scenario and row.measured), None)


def workloads(rows: Sequence[Row]) -> list[Workload]:
    """Return the rows that have streams by what was asked of them, the newest workload first."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        if row.schedule:
            found.setdefault(workload(row.result), []).append(row)
    newest_first = sorted(found.values(), key=lambda each: max(row.file.recorded_at for row in each), reverse=True)
    return [Workload(each[0].schedule or {}, each) for each in newest_first]


def asked_per_s(row: Row) -> float:
    """Return the frames per second that were asked for, of all streams; 0: as fast as they are done."""
    schedule = row.schedule or {}
    return float(schedule.count * schedule.fps)


def all_frames(row: Row) -> FrameFigures | None:
    """Return the figures of all streams together, whatever the outcome; None where nothing computed, or came so far."""
    return _frame_figures([each.all for each in row.frames])


def stream_frames(row: Row) -> list[FrameFigures]:
    """Return the figures of each stream, in their order."""
    streams = zip(*(each.streams for each in row.frames if each.streams))
    return [figures for each in streams if (figures := _frame_figures(each))]


def kept_up(row: Row) -> bool | None:
    """Whether it did the frames that were asked for; None where it was asked for none, or nothing computed."""
    frames = all_frames(row)
    if frames is None or frames.lost_percent is None or not asked_per_s(row):
        return None
    return frames.lost_percent.median <= _KEPT_PERCENT


def stage(row: Row, name: str, percentile: str) -> Figure | None:
    """Return the nanoseconds of a stage of STAGES; None where it has none."""
    stages = of_repeats(row, "stages_ns", name)
    return Figure.of(each[percentile] for each in stages)


def of_repeats(row: Row, *place: str) -> list[Any]:
    """Return what stands at a place of what the streams did, of each repeat in which it is known."""
    found: list[Any] = row.frames
    for key in place:
        # Runs that were stored before the heap was looked at lack it.
        found = [each[key] for each in found if each.get(key) is not None]
    return found


def is_interrupted(row: Row) -> bool:
    """Whether Ctrl-C ended a repeat early."""
    return any(each.interrupted for each in row.frames)


def is_cut_off(row: Row) -> bool:
    """Whether the session ended while it ran."""
    return row.outcome == "cut_off"


def memory_parts(row: Row, decode_only: Row | None) -> MemoryParts | None:
    """Return what application memory is for; None where it was not measured.

    Import and decoding are those of the run that only decodes: memory of its library that a first inference touches
    too would else count twice. Without such a run they are read in the same process, before there were contexts.
    """
    whole = row.memory("application_memory_bytes")
    imported = (decode_only or row).memory("baseline_memory_bytes")
    if whole is None or imported is None:
        return None
    decoded = decode_only.memory("application_memory_bytes") if decode_only else None
    if decoded:
        inference = None if row.scenario == DECODE_ONLY else difference(whole, decoded)
        return MemoryParts(imported, difference(decoded, imported) if _decodes(row) else None, inference)
    decoding = row.memory("decoder_memory_bytes")
    rest = difference(difference(whole, imported), decoding or Figure(0.0, 0.0))
    return MemoryParts(imported, decoding, rest)


def inference_saved_percent(row: Row, decode_only: Row | None) -> float | None:
    """Return what is saved, of the baseline's memory of inference: import and decoding are there in every mode."""
    parts = memory_parts(row.baseline, decode_only) if row.baseline else None
    if row.saved is None or parts is None or parts.inference is None or parts.inference.median <= 0:
        return None
    return 100 * row.saved.median / parts.inference.median


def growth(row: Row, memory: str = RSS) -> Growth | None:
    """Return whether RSS, or HEAP, grew over time; None where there are no readings, or too few."""
    trends = of_repeats(row, memory)
    if not trends:
        return None
    verdict = next(name for name in VERDICTS if any(each.verdict == name for each in trends))
    own = [each for each in trends if each.verdict == verdict]
    level_after = [each.level_after_s for each in own if each.level_after_s is not None]
    return Growth(
        verdict=verdict,
        count=len(own),
        repeats=len(trends),
        slope=statistics.median(each.last_slope_bytes_per_s for each in own),
        low=min(each.last_low_bytes_per_s for each in own),
        high=max(each.last_high_bytes_per_s for each in own),
        confidence_percent=min(each.growing_confidence_percent for each in own),
        level_after_s=max(level_after, default=None),
        resolution=max(each.resolution_bytes_per_s for each in own),
    )


def throttling(row: Row) -> Throttling | None:
    """Return what throttled the machine, no names where nothing did; None where the machine does not say."""
    said = of_repeats(row, "machine", "throttled")
    if not said:
        return None
    causes = [cause for each in said for cause in each if cause["share_percent"] > 0]
    names = tuple(dict.fromkeys(str(cause["name"]) for cause in causes))
    return Throttling(names, max((cause["share_percent"] for cause in causes), default=0.0))


def _decodes(row: Row) -> bool:
    return bool(row.schedule and row.schedule.video)


def _frame_figures(repeats: Sequence[dict[str, Any] | None]) -> FrameFigures | None:
    known = [each for each in repeats if each]
    if not known:
        return None

    def of(value: Callable[[dict[str, Any]], float]) -> Figure:
        figure = Figure.of(map(value, known))
        assert figure is not None
        return figure

    return FrameFigures(
        due=of(lambda each: each.due),
        done=of(lambda each: each.done),
        dropped=of(lambda each: each.dropped),
        missed=of(lambda each: each.missed),
        per_s=of(lambda each: each.per_s),
        lost_percent=Figure.of(100 * (each.dropped + each.missed) / each.due for each in known if each.due),
        latency=_latency([each.latency_ns for each in known if each.latency_ns]),
    )


def _latency(repeats: Sequence[dict[str, int]]) -> dict[str, Figure]:
    if not repeats:
        return {}
    found = {name: Figure.of(each[name] for each in repeats) for name in PERCENTILES}
    longest = Figure(max(each.max for each in repeats), None)
    return {name: figure for name, figure in {**found, "max": longest}.items() if figure}
