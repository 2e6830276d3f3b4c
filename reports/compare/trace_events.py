"""Traces of stored runs as Chrome's trace events: the JSON that Perfetto and chrome://tracing show.

Each process of the JSON is a measured process, or a repeat of a recorded program. Times are whole
microseconds since its start. docs/reference/exports.md describes the content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
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

#: Outcome of a configuration that cannot be measured, so nothing is missing.
_NOT_SUPPORTED = "not_supported"
_LOST = "its trace is lost or damaged"
_NS_PER_S = 10**9

#: Times in ns, each with the value from then on.
_Readings = Iterable[tuple[int, Union[int, float]]]
#: Name, beginning and end in ns.
_Span = tuple[str, int, int]
_NONE: Mapping[str, object] = {}
_Details = dict[str, Any]


@dataclass(frozen=True)
class _Measured:
    """One process of a configuration."""

    result: Result
    #: Index of the repeat.
    index: int
    trace: Trace

    @property
    def start_ns(self) -> int:
        """The start; in older traces the time of the first reading, which followed at once."""
        if self.trace.start_ns:
            return self.trace.start_ns
        barriers_ns = [barrier.at_ns for barrier in self.trace.barriers]
        return min([*self.trace.timeline.times_ns, *barriers_ns], default=0)

    @property
    def end_ns(self) -> int:
        """The end of the process."""
        return self.start_ns + round(self.result.repeats[self.index].elapsed_s * _NS_PER_S)


def trace_events(runs: Sequence[Run]) -> str:
    """Return the text of a file with the runs' processes; raise ReportError without any trace."""
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
    """Return a line for each process that is missing in the export, with the reason."""
    return [
        f"{run}: {name}: {content}"
        for run, name, content in _processes(runs)
        if isinstance(content, str)
    ]


def _processes(runs: Sequence[Run]) -> Iterator[tuple[Run, str, _Measured | ProgramTrace | str]]:
    """Yield every process of the runs with its name; a string is the reason why it is missing."""
    for run in runs:
        file = read_run_file(run.path)
        if file is None or isinstance(file, BadFile):
            raise ReportError(f"{run.path} was changed while it was exported. Export it again")
        storage = run.path.parent.parent
        for measured, stored in zip(run.measured, file.results):
            name = str(measured.configuration)
            for process, content in _measured_processes(storage, name, stored.info):
                yield run, process, content
        for program in file.programs:
            for number, repeat in enumerate(program.repeats, start=1):
                trace = read_trace(storage, repeat.trace, ProgramTrace)
                yield run, f"program {program.name} repeat {number}", trace or _LOST


def _measured_processes(
    storage: Path, name: str, result: Result
) -> Iterator[tuple[str, _Measured | str]]:
    if result.measured_as is not None or result.outcome == _NOT_SUPPORTED:
        return  # it has no processes of its own
    if not result.repeats:
        yield name, result.outcome
    for index, repeat in enumerate(result.repeats):
        trace = read_trace(storage, repeat.trace, Trace)
        content: _Measured | str
        if trace:
            content = _Measured(result, index, trace)
        elif repeat.trace:
            content = _LOST
        else:  # the session was cut off before it wrote the trace
            content = result.outcome
        yield f"{name} repeat {index + 1}", content


class _Track:
    """The events of one process, which started at `start_ns` of the clock of all times."""

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
        """Add a span of the phases, which lies within another one, or apart from it."""
        self._add("X", name, begin_ns, dur=self._us(end_ns) - self._us(begin_ns), args=details)

    def overlapping(
        self,
        category: str,
        whole: _Span,
        parts: Sequence[_Span] = (),
        details: Mapping[str, object] = _NONE,
    ) -> None:
        """Add a span that may overlap others of its kind, with consecutive parts inside it."""
        identity = {"cat": category, "id2": {"local": hex(next(self._ids))}}
        name, begin_ns, end_ns = whole
        self._add("b", name, begin_ns, **identity, args=details)
        for part, part_begin_ns, part_end_ns in parts:
            self._add("b", part, part_begin_ns, **identity)
            self._add("e", part, part_end_ns, **identity)
        self._add("e", name, end_ns, **identity)

    def counter(self, name: str, unit: str, readings: _Readings) -> None:
        """Add the readings of a figure that change it, and the last one.

        A reading holds until the next one.
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
    """Add a repeat of a recorded program, whose times count from its start."""
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
    """Add a measured process: phases, memory, NPU buffers and frames."""
    trace = measured.trace
    barriers = trace.barriers
    timeline = trace.timeline
    _add_phases(track, measured)

    # A process that has ended has no memory.
    end_ns = measured.end_ns
    end = (end_ns, 0)
    pss = [(barrier.at_ns, barrier.process.pss_bytes) for barrier in barriers]
    npu = _npu_memory(trace)
    track.counter("RSS", "bytes", [*zip(timeline.times_ns, timeline.rss_bytes), end])
    track.counter("PSS", "bytes", [*pss, end])
    track.counter("system memory", "bytes", zip(timeline.times_ns, timeline.system_memory_bytes))
    if npu:
        track.counter("NPU memory", "bytes", [*npu, end])

    if trace.npu:
        _add_buffers(track, measured.result.plan, barriers, trace.npu.ledger, end_ns)
    if trace.frames:
        _add_frames(track, trace.frames)
    streams = measured.result.frames[measured.index] if measured.result.frames else None
    steady = next((barrier for barrier in barriers if barrier.data.begin_ns), None)
    if streams and streams.series and steady:
        _add_rates(track, streams.series, steady.data.begin_ns)


def _add_phases(track: _Track, measured: _Measured) -> None:
    """Add spans for each step, with the reading at its end, and for the time of reading."""
    begin_ns = measured.start_ns
    for barrier in measured.trace.barriers:
        details: dict[str, object] = {"phase": barrier.phase}
        for name, size in msgspec.structs.asdict(barrier.process).items():
            if size is not None:
                details[name] = size
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
    """Return the name of a step; contexts are numbered from 1, as in reports."""
    return phase if context is None else f"{phase} {context + 1}"


def _npu_memory(trace: Trace) -> list[tuple[int, int]]:
    """Return the size of NPU buffers at each change in the ledger, or without one at barriers."""
    if trace.npu:
        return list(zip(trace.npu.times_ns, trace.npu.live_bytes))
    sizes = []
    for barrier in trace.barriers:
        if barrier.npu_held_bytes is not None:
            sizes.append((barrier.at_ns, barrier.npu_held_bytes))
    return sizes


def _add_buffers(
    track: _Track, plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger, end_ns: int
) -> None:
    """Add a span for the lifetime of each buffer."""
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
    """Return the parts of each buffer in the steady phase, or at the first barrier of its life."""
    parts: dict[int, list[BufferPart]] = {}
    for barrier in sorted(barriers, key=lambda barrier: barrier.phase != "steady"):
        if all(buffer.number in parts for buffer in ledger.live(barrier.at_ns)):
            continue
        known = set(parts)
        for part in attribute(plan, barriers, ledger, barrier.at_ns):
            if part.buffer not in known:
                parts.setdefault(part.buffer, []).append(part)
    return parts


def _add_frames(track: _Track, frames: FrameTimes) -> None:
    """Add a span for each stored frame, with its stages, and one for all other frames."""
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
    """Add the rates of the streams over the steady state, which began at `begin_ns`."""
    times_ns = [begin_ns + round(seconds * _NS_PER_S) for seconds in (0.0, *series.seconds)]
    for name, rates in (("frames done", series.done_per_s), ("frames lost", series.lost_per_s)):
        if rates:
            known = [(time_ns, rate) for time_ns, rate in zip(times_ns, rates) if rate is not None]
            track.counter(name, "per_s", [*known, (times_ns[-1], 0.0)])
