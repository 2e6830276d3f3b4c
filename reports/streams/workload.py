"""Streams of video in stored results: their task, the frames they kept, and the use of memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from reusebench.measured.plan import Streams
from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.rows import Row
from reusebench.storage.result import FrameCount
from reusebench.storage.result_summary import workload_of
from reusebench.storage.run_file import CUT_OFF
from reusebench.storage.savings import APPLICATION, Saving

#: Scenarios that are compared with each other, not only with their baselines.
DECODE_ONLY = "streams_decode_only"
FULL_DUP = "streams_full_dup"
PER_CORE = "streams_full_dup_per_core"
PERCENTILES = ("p50", "p90", "p99", "max")
#: Fields that storage.result.FrameCount and FrameFigures share.
_COUNTED = ("due", "done", "dropped", "missed", "per_s")
#: A run that lost at most this share of its frames kept up: the first frame of a stream may be
#: late, and so may the last.
_KEPT_PERCENT = 1.0
#: Frames of a stream from which on its 99th percentile is not its slowest frame.
_LEAST_FRAMES = 100


@dataclass(frozen=True)
class FrameFigures:
    """The fate of the frames of one stream, or of all, over the repeats."""

    due: Figure
    done: Figure
    dropped: Figure
    missed: Figure
    per_s: Figure
    #: Dropped and missed frames in percent of those that were due; None if none was.
    lost_percent: Figure | None
    #: Nanoseconds by percentile of PERCENTILES; the maximum is over all repeats. Empty if no frame
    #: was done.
    latency: dict[str, Figure]


@dataclass(frozen=True)
class MemoryParts:
    """Parts of a configuration's application memory, in bytes."""

    #: The runtime imported.
    imported: Figure
    #: Decoders with their library; None if nothing is decoded.
    decoding: Figure | None
    #: The remaining memory; None for the run that only decodes.
    inference: Figure | None


@dataclass(frozen=True)
class ThrottlingSummary:
    """The causes that slowed the machine down while a configuration ran."""

    names: tuple[str, ...]
    #: The largest share of readings with a cause, over causes and repeats.
    share_percent: float


@dataclass(frozen=True)
class Workload:
    """The rows of a group whose streams had the same task, with the same video."""

    #: The schedule in the plan.
    schedule: Streams
    rows: list[Row]

    @property
    def due_per_s(self) -> float:
        """Frames per second that are due, in all streams; 0 means as fast as possible."""
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
    def is_first_look(self) -> bool:
        """Whether each stream had too few frames for percentiles of its own."""
        due = [frames.due.median for row in self.rows for frames in stream_frames(row)]
        return bool(due) and max(due) < _LEAST_FRAMES

    @property
    def modes(self) -> list[Row]:
        """The rows that infer, in order."""
        return [row for row in self.rows if row.scenario != DECODE_ONLY]

    def row(self, scenario: str) -> Row | None:
        """Return the first row of a scenario that was measured; others have other models."""
        return next((row for row in self.rows if scenario in row.names and row.measured), None)


def workloads(rows: Sequence[Row]) -> list[Workload]:
    """Return the rows that have streams, by workload, the newest workload first."""
    by_key: dict[Hashable, Workload] = {}
    for row in rows:
        if row.schedule:
            workload = by_key.setdefault(workload_of(row.info), Workload(row.schedule, []))
            workload.rows.append(row)
    return sorted(by_key.values(), key=_newest_order, reverse=True)


def _newest_order(workload: Workload) -> tuple[str, int, str]:
    return max(row.file.order for row in workload.rows)


def all_frames(row: Row) -> FrameFigures | None:
    """Return the figures of all streams together, whatever the outcome; None if there are none."""
    return _frame_figures([streams.all for streams in row.frames if streams.all])


def stream_frames(row: Row) -> list[FrameFigures]:
    """Return the figures of each stream, in their order."""
    repeats = [streams.streams for streams in row.frames if streams.streams]
    figures = map(_frame_figures, zip(*repeats))
    return [frames for frames in figures if frames]


def kept_up(row: Row) -> bool | None:
    """Whether it did the frames that were due; None if it had no pace, or nothing computed."""
    frames = all_frames(row)
    if frames is None or frames.lost_percent is None:
        return None
    if row.schedule is None or not row.schedule.fps:
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
    """Whether the session ended while it ran, or has not ended yet."""
    return row.info.outcome == CUT_OFF


def memory_parts(row: Row, decode_only: Row | None) -> MemoryParts | None:
    """Return the parts of application memory; None if it was not measured.

    Import and decoding are taken from the run that only decodes: memory of its library that a first
    inference also touches would otherwise count twice. Without such a run they are read in the same
    process, before there were contexts.
    """
    whole = row.memory(APPLICATION)
    imported = (decode_only or row).memory("baseline_memory_bytes")
    if whole is None or imported is None:
        return None

    decoded = decode_only.memory(APPLICATION) if decode_only else None
    if decoded is None:
        decoding = row.memory("decoder_memory_bytes")
        return MemoryParts(imported, decoding, whole - imported - (decoding or Figure(0, 0)))

    decoding = None
    if row.schedule and row.schedule.video:
        decoding = decoded - imported
    inference = None
    if row.scenario != DECODE_ONLY:
        inference = whole - decoded
    return MemoryParts(imported, decoding, inference)


def inference_saving(row: Row, decode_only: Row | None) -> Saving | None:
    """Return the saving relative to the baseline's memory of inference.

    Import and decoding are there in every mode.
    """
    saving = row.saving(APPLICATION)
    if saving is None or row.baseline is None:
        return None
    parts = memory_parts(row.baseline, decode_only)
    if parts is None or parts.inference is None:
        return None
    return Saving(APPLICATION, parts.inference, saving.saved)


def throttling_summary(row: Row) -> ThrottlingSummary | None:
    """Return the causes of throttling, no names if there was none; None if it is not known."""
    causes = []
    is_known = False
    for streams in row.frames:
        if streams.machine and streams.machine.throttled is not None:
            is_known = True
            causes += [cause for cause in streams.machine.throttled if cause.share_percent > 0]
    if not is_known:
        return None
    names = tuple(dict.fromkeys(cause.name for cause in causes))
    share_percent = max((cause.share_percent for cause in causes), default=0.0)
    return ThrottlingSummary(names, share_percent)


def _frame_figures(repeats: Sequence[FrameCount]) -> FrameFigures | None:
    """Return the figures over the repeats; None if there are no repeats."""
    counts = {}
    for name in _COUNTED:
        figure = Figure.of(getattr(count, name) for count in repeats)
        if figure:
            counts[name] = figure
    if not counts:
        return None

    lost_percent = Figure.of(
        100 * (count.dropped + count.missed) / count.due for count in repeats if count.due
    )
    durations = [count.latency_ns for count in repeats if count.latency_ns]
    latency = {}
    for name in PERCENTILES:
        figure = Figure.of(getattr(percentiles, name) for percentiles in durations)
        if figure:
            latency[name] = figure
    if durations:
        latency["max"] = Figure(max(percentiles.max for percentiles in durations))
    return FrameFigures(**counts, lost_percent=lost_percent, latency=latency)
