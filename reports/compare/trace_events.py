"""Traces of stored runs as Chrome's trace events: the JSON that Perfetto and chrome://tracing show.

A process there is one measured process, or one repeat of a recorded program. Its times are whole
microseconds since it was started. docs/ci.md says what stands in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Union

import msgspec

from reusebench.accounting.attribution import BufferPart, attribute, owners
from reusebench.accounting.ledger import Ledger
from reusebench.measured.plan import Plan
from reusebench.measured.streams.threads import STAGES
from reusebench.reports.errors import ReportError
from reusebench.storage.result import Result, Series
from reusebench.storage.run_file import BadFile, read_run_file
from reusebench.storage.runs import Run
from reusebench.storage.trace import FrameTimes, ProgramTrace, Trace, read_trace
from reusebench.targets.barriers import BarrierReading

__all__ = ["trace_events", "without_trace"]

#: No measurement was to be had there, so nothing is missing.
_NOT_SUPPORTED = "not_supported"
_LOST = "its trace is lost or damaged"
_NS_PER_S = 10**9

#: Times in ns, and the value from each on.
_Readings = Iterable[tuple[int, Union[int, float]]]
#: Name, begin and end in ns.
_Span = tuple[str, int, int]
_NONE: Mapping[str, object] = {}
_Details = dict[str, Any]


@dataclass(frozen=True)
class _Measured:
    """One process of a configuration."""

    result: Result
    #: Of the repeat.
    index: int
    trace: Trace

    @property
    def start_ns(self) -> int:
        """When it was started; of older traces the first reading, which was taken at once."""
        readings_ns = (
            *self.trace.timeline.times_ns,
            *(barrier.at_ns for barrier in self.trace.barriers),
        )
        return self.trace.start_ns or min(readings_ns, default=0)

    @property
    def end_ns(self) -> int:
        """When it had ended."""
        return self.start_ns + round(self.result.repeats[self.index].elapsed_s * _NS_PER_S)


def trace_events(runs: Sequence[Run]) -> str:
    """Return the processes of the runs as the text of one file; raise ReportError if no trace
    can be read.
    """
    numbers = count(1)
    lines: list[str] = []
    for run, name, content in _processes(runs):
        if isinstance(content, str):
            continue
        number = next(numbers)
        title = name if len(runs) == 1 else f"{run}: {name}"
        if isinstance(content, ProgramTrace):
            track = _Track(number, title, start_ns=0)
            _add_recorded(track, content)
        else:
            track = _Track(number, title, content.start_ns)
            _add_measured(track, content)
        lines += [msgspec.json.encode(event).decode() for event in track.events]
    if not lines:
        raise ReportError(
            f"{', '.join(map(str, runs))}: no trace can be read. Traces are in the folder `traces`"
            " of the storage: copy it with the runs, or name another run"
        )
    described = [
        {"run": str(run), "recorded_at": run.recorded_at, "board": run.board} for run in runs
    ]
    head = msgspec.json.encode({"displayTimeUnit": "ms", "otherData": {"runs": described}}).decode()
    events = ",\n".join(lines)
    return f'{head[:-1]},"traceEvents":[\n{events}\n]}}\n'


def without_trace(runs: Sequence[Run]) -> list[str]:
    """Return what should have been in the export and is not, and why."""
    return [
        f"{run}: {name}: {content}"
        for run, name, content in _processes(runs)
        if isinstance(content, str)
    ]


def _processes(runs: Sequence[Run]) -> Iterator[tuple[Run, str, _Measured | ProgramTrace | str]]:
    """Yield every process of the runs once, with its name; where it cannot be exported a string
    says why.

    Configurations that were `measured_as` another one have no processes of their own.
    """
    for run in runs:
        file = read_run_file(run.path)
        storage = run.path.parent.parent
        if file is None or isinstance(file, BadFile):
            raise ReportError(f"{run.path} was changed while it was exported. Export it again")
        for in_short, stored in zip(run.measured, file.results):
            result = stored.info
            name = str(in_short.configuration)
            if result.measured_as is not None or result.outcome == _NOT_SUPPORTED:
                continue
            if not result.repeats:
                yield run, name, result.outcome
            for index, repeat in enumerate(result.repeats):
                trace = read_trace(storage, repeat.trace, Trace)
                # One that was cut off has not come to writing it.
                problem = _LOST if repeat.trace else result.outcome
                yield (
                    run,
                    f"{name} repeat {index + 1}",
                    _Measured(result, index, trace) if trace else problem,
                )
        for program in file.programs:
            for number, recording in enumerate(program.repeats, start=1):
                recorded = read_trace(storage, recording.trace, ProgramTrace)
                yield (
                    run,
                    f"program {program.name} repeat {number}",
                    _LOST if recorded is None else recorded,
                )


class _Track:
    """The events of one process; the clock of all times that are added shows start_ns when it is
    started.
    """

    def __init__(self, number: int, name: str, start_ns: int) -> None:
        self._number = number
        self._start_ns = start_ns
        self._ids = count(1)
        self.events: list[dict[str, Any]] = []
        for kind, value in (("process_name", name), ("thread_name", "phases")):
            self._add("M", kind, start_ns, args={"name": value})

    def span(
        self, name: str, begin_ns: int, end_ns: int, details: Mapping[str, object] = _NONE
    ) -> None:
        """Add a span of the phases: it lies within another one, or apart from it."""
        self._add("X", name, begin_ns, dur=self._us(end_ns) - self._us(begin_ns), args=details)

    def overlapping(
        self,
        category: str,
        whole: _Span,
        parts: Sequence[_Span] = (),
        details: Mapping[str, object] = _NONE,
    ) -> None:
        """Add a span that may overlap others of its kind, and the parts that lie within it one
        after the other.
        """
        identity = {"cat": category, "id2": {"local": hex(next(self._ids))}}
        name, begin_ns, end_ns = whole
        self._add("b", name, begin_ns, **identity, args=details)
        for part, part_begin_ns, part_end_ns in parts:
            self._add("b", part, part_begin_ns, **identity)
            self._add("e", part, part_end_ns, **identity)
        self._add("e", name, end_ns, **identity)

    def counter(self, name: str, unit: str, readings: _Readings) -> None:
        """Add the readings of a figure, each of which stands until the next one: those that change
        it, and the last.
        """
        steps = dict(readings)
        before: float | None = None
        for number, (at_ns, value) in enumerate(steps.items(), start=1):
            if value != before or number == len(steps):
                self._add("C", name, at_ns, args={unit: value})
            before = value

    def _add(self, kind: str, name: str, at_ns: int, **members: Any) -> None:
        place = {"pid": self._number, "tid": self._number, "ts": self._us(at_ns)}
        self.events.append({"ph": kind, "name": name, **place, **members})

    def _us(self, at_ns: int) -> int:
        return (at_ns - self._start_ns) // 1000


# A recorded program


def _add_recorded(track: _Track, trace: ProgramTrace) -> None:
    """Add one repeat, whose times count from its start."""
    for phase in trace.phases:
        track.span(phase.name, phase.begin_ns, phase.end_ns)
    for process in trace.processes:
        whole = (f"{process.name} ({process.pid})", process.first_seen_ns, process.last_seen_ns)
        track.overlapping("process", whole, details={"peak_rss_bytes": process.peak_rss_bytes})
    track.counter("RSS", "bytes", zip(trace.timeline.times_ns, trace.timeline.rss_bytes))
    track.counter("PSS", "bytes", zip(trace.pss.times_ns, trace.pss.pss_bytes))
    track.counter(
        "system memory", "bytes", zip(trace.system.times_ns, trace.system.system_memory_bytes)
    )
    track.counter(
        "NPU memory", "bytes", zip(trace.npu_held.times_ns, trace.npu_held.npu_memory_bytes)
    )


# A measured process


def _add_measured(track: _Track, measured: _Measured) -> None:
    """Add its phases, its memory, and its NPU buffers and its frames where there are any."""
    trace = measured.trace
    end_ns = measured.end_ns
    barriers = trace.barriers
    timeline = trace.timeline
    _add_phases(track, measured)
    # A process that has ended has no memory.
    track.counter("RSS", "bytes", [*zip(timeline.times_ns, timeline.rss_bytes), (end_ns, 0)])
    track.counter(
        "PSS",
        "bytes",
        [*((barrier.at_ns, barrier.process.pss_bytes) for barrier in barriers), (end_ns, 0)],
    )
    track.counter("system memory", "bytes", zip(timeline.times_ns, timeline.system_memory_bytes))
    npu = _npu_memory(trace)
    if npu:
        track.counter("NPU memory", "bytes", [*npu, (end_ns, 0)])
    if trace.npu:
        _add_buffers(track, measured.result.plan, barriers, trace.npu.ledger, end_ns)
    if trace.frames:
        _add_frames(track, trace.frames)
    streams = measured.result.frames[measured.index] if measured.result.frames else None
    steady = next((barrier for barrier in barriers if barrier.data.begin_ns), None)
    if streams and streams.series and steady:
        _add_rates(track, streams.series, steady.data.begin_ns)


def _add_phases(track: _Track, measured: _Measured) -> None:
    """Add a span for each step, with what was read of the process at its end, and one for the time
    of reading.
    """
    begin_ns = measured.start_ns
    for barrier in measured.trace.barriers:
        memory = {
            name: size
            for name, size in msgspec.structs.asdict(barrier.process).items()
            if size is not None
        }
        details = {"phase": barrier.phase, **memory}
        track.span(_name(barrier.phase, barrier.context), begin_ns, barrier.at_ns, details)
        if barrier.data.begin_ns:
            track.span("warm-up", begin_ns, barrier.data.begin_ns)
        if barrier.left_ns:
            track.span("reading", barrier.at_ns, barrier.left_ns)
        begin_ns = barrier.left_ns or barrier.at_ns
    failure = measured.result.repeats[measured.index].failure
    if failure:
        details = {"phase": failure.phase, "failure": str(failure)}
        track.span(_name(failure.phase, failure.context), begin_ns, measured.end_ns, details)


def _name(phase: str, context: int | None) -> str:
    """Return what a step is called; contexts are numbered from 1, as in reports."""
    return phase if context is None else f"{phase} {context + 1}"


def _npu_memory(trace: Trace) -> list[tuple[int, int]]:
    """Return what NPU buffers took, from each change of it by the ledger, else from each barrier
    that tells.
    """
    if trace.npu:
        return list(zip(trace.npu.times_ns, trace.npu.live_bytes))
    held = [(barrier.at_ns, barrier.npu_held_bytes) for barrier in trace.barriers]
    return [(at_ns, size) for at_ns, size in held if size is not None]


def _add_buffers(
    track: _Track, plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger, end_ns: int
) -> None:
    """Add a span for each buffer, from when it was made to when it was given back, or the process
    ended.
    """
    parts = _parts_of_buffers(plan, barriers, ledger)
    makers = owners(barriers, ledger)
    for number, buffer in ledger.buffers.items():
        components = {part.component: part.size_bytes for part in parts.get(number, ())}
        name = " + ".join(components).replace("_", " ") or "buffer"
        details: dict[str, object] = {
            "size_bytes": buffer.size_bytes,
            "asked_bytes": buffer.asked_bytes,
        }
        if len(components) > 1:
            details.update({f"{component}_bytes": size for component, size in components.items()})
        maker = makers[number]
        if maker:
            details["made_in"] = _name(maker.phase, maker.context)
        died_ns = end_ns if buffer.died_ns is None else buffer.died_ns
        track.overlapping("NPU buffer", (name, buffer.born_ns, died_ns), details=details)


def _parts_of_buffers(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger
) -> dict[int, list[BufferPart]]:
    """Return what is in each buffer as it is known in the steady phase, else at the first barrier
    that it lives at.
    """
    parts: dict[int, list[BufferPart]] = {}
    for barrier in sorted(barriers, key=lambda barrier: barrier.phase != "steady"):
        if any(buffer.number not in parts for buffer in ledger.live(barrier.at_ns)):
            known = set(parts)
            for part in attribute(plan, barriers, ledger, barrier.at_ns):
                if part.buffer not in known:
                    parts.setdefault(part.buffer, []).append(part)
    return parts


def _add_frames(track: _Track, frames: FrameTimes) -> None:
    """Add a span for each frame that is stored, with its stages in it, and one for those that are
    not.
    """
    for frame in (*frames.first, *frames.last):
        end_ns = frame.due_ns
        stages = []
        for stage, duration_ns in zip(STAGES, frame.stages_ns):
            stages.append((stage, end_ns, end_ns + duration_ns))
            end_ns += duration_ns
        track.overlapping("frame", (f"stream {frame.stream + 1}", frame.due_ns, end_ns), stages)
    if frames.left_out:
        ends_ns = frames.first[-1].due_ns, frames.last[0].due_ns
        track.overlapping("frame", (f"{frames.left_out} frames that are not stored", *ends_ns))


def _add_rates(track: _Track, series: Series, begin_ns: int) -> None:
    """Add what the streams did in each part of the steady state, which began then."""
    times_ns = [begin_ns + round(seconds * _NS_PER_S) for seconds in (0.0, *series.seconds)]
    for name, rates in (("frames done", series.done_per_s), ("frames lost", series.lost_per_s)):
        if rates:
            known = [(time_ns, rate) for time_ns, rate in zip(times_ns, rates) if rate is not None]
            track.counter(name, "per_s", [*known, (times_ns[-1], 0.0)])
