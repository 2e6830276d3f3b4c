"""The frames of traces: readings over time, and the ledger of NPU buffers."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Optional, TypeVar

import pandas as pd

from reusebench.accounting.attribution import attribute, owners
from reusebench.storage.frames.columns import (
    FIELDS,
    HELD,
    LEDGER_KEYS,
    NPU_LIVE,
    SYSTEM,
    TRACE_KEYS,
)
from reusebench.storage.frames.configurations import Configurations, typed_frame
from reusebench.storage.frames.frame_rows import NONE, Rows
from reusebench.storage.recorded_program import ProgramRepeat
from reusebench.storage.result import Result, StoredRepeat
from reusebench.storage.run_file import StoredRun
from reusebench.storage.trace import PhaseTime, ProgramTrace, Trace, read_trace
from reusebench.system.files import printable

__all__ = ["Lost", "ledgers_frame", "traces_frame"]

_Trace = TypeVar("_Trace", Trace, ProgramTrace)
#: Context, component and size of a buffer, or of a part of one.
_Part = tuple[Optional[int], Optional[str], int]
#: Key: path of a run; value: paths of its traces that cannot be read.
Lost = dict[Path, list[str]]


def traces_frame(
    files: Iterable[StoredRun], metrics: Sequence[str], wide: bool, lost: Lost
) -> pd.DataFrame:
    """Return the frame of all readings over time, with these metrics.

    `lost` gets the traces that cannot be read.
    """
    configurations = Configurations()
    at_barriers = tuple(field.name for field in FIELDS)
    kinds_of_programs = (("rss_bytes",), ("pss_bytes",), (SYSTEM,), (HELD,))
    rows = Rows(
        TRACE_KEYS,
        metrics,
        at_barriers,
        ("rss_bytes", SYSTEM),
        (NPU_LIVE,),
        *kinds_of_programs,
    )
    for file in files:
        for number, info in configurations.results_of(file):
            for repeat, trace in _traces_of(file, info.repeats, Trace, lost):
                _add_trace(rows, number, repeat, trace)
        for number, program in configurations.programs_of(file):
            for repeat, recorded in _traces_of(file, program.repeats, ProgramTrace, lost):
                _add_program(rows, number, repeat, recorded)
        rows.pack()
    return rows.frame(configurations.frame(), wide, order=("configuration", "repeat", "time_ns"))


def ledgers_frame(files: Iterable[StoredRun], lost: Lost) -> pd.DataFrame:
    """Return the frame of all NPU buffers in ledgers; `lost` gets traces that cannot be read."""
    configurations = Configurations()
    numbers: list[int] = []
    rows: list[tuple[object, ...]] = []
    for file in files:
        for number, info in configurations.results_of(file):
            for repeat, trace in _traces_of(file, info.repeats, Trace, lost):
                for row in _buffers(info, trace):
                    numbers.append(number)
                    rows.append((repeat, *row))
    common = configurations.frame().take(numbers).reset_index(drop=True)
    frame: pd.DataFrame = pd.concat([common, typed_frame(LEDGER_KEYS, rows)], axis="columns")
    return frame


def _traces_of(
    file: StoredRun, repeats: Sequence[StoredRepeat | ProgramRepeat], kind: type[_Trace], lost: Lost
) -> Iterator[tuple[int, _Trace]]:
    """Yield the traces of the repeats with the repeats' numbers; skip those never written."""
    storage = file.path.parent.parent
    for number, repeat in enumerate(repeats, start=1):
        if not repeat.trace:
            continue
        trace = read_trace(storage, repeat.trace, kind)
        if trace is None:
            lost.setdefault(file.path, []).append(printable(repeat.trace))
        else:
            yield number, trace


def _start_ns(trace: Trace) -> int:
    """Return the start of the process; in older traces, the time of the first reading."""
    if trace.start_ns is not None:
        return trace.start_ns
    times_ns = [barrier.at_ns for barrier in trace.barriers] + trace.timeline.times_ns
    return min(times_ns, default=0)


class _Steps:
    """The steps of a process, each up to its barrier."""

    def __init__(self, rows: Rows, trace: Trace) -> None:
        self._ends_ns = [barrier.at_ns for barrier in trace.barriers]
        self._keys = [
            (rows.phase(barrier.phase), NONE if barrier.context is None else barrier.context + 1)
            for barrier in trace.barriers
        ]

    def at(self, at_ns: int) -> tuple[int, int]:
        """Return phase and context of the step under way at that time; NONE after all barriers."""
        index = bisect.bisect_left(self._ends_ns, at_ns)
        return self._keys[index] if index < len(self._keys) else (NONE, NONE)


def _add_trace(rows: Rows, number: int, repeat: int, trace: Trace) -> None:
    at_barrier, between, npu, *_ = rows.kinds
    start_ns = _start_ns(trace)
    steps = _Steps(rows, trace)
    for barrier in trace.barriers:
        context = NONE if barrier.context is None else barrier.context + 1
        keys = (number, repeat, barrier.at_ns - start_ns, rows.phase(barrier.phase), context, True)
        rows.add(at_barrier, keys, tuple(field.of(barrier) for field in FIELDS))
    timeline = trace.timeline
    readings = zip(timeline.times_ns, timeline.rss_bytes, timeline.system_memory_bytes)
    for at_ns, rss, system in readings:
        keys = (number, repeat, at_ns - start_ns, *steps.at(at_ns), False)
        rows.add(between, keys, (rss, system))
    if trace.npu:
        for at_ns, live in zip(trace.npu.times_ns, trace.npu.live_bytes):
            keys = (number, repeat, at_ns - start_ns, *steps.at(at_ns), False)
            rows.add(npu, keys, (live,))


def _add_program(rows: Rows, number: int, repeat: int, trace: ProgramTrace) -> None:
    phases = sorted(trace.phases, key=lambda phase: phase.begin_ns)
    begins_ns = [phase.begin_ns for phase in phases]
    series = (
        (trace.timeline.times_ns, trace.timeline.rss_bytes),
        (trace.pss.times_ns, trace.pss.pss_bytes),
        (trace.system.times_ns, trace.system.system_memory_bytes),
        (trace.npu_held.times_ns, trace.npu_held.npu_memory_bytes),
    )
    for kind, (times_ns, sizes) in zip(rows.kinds[3:], series):
        for at_ns, size in zip(times_ns, sizes):
            name = _phase_at(phases, begins_ns, at_ns)
            phase = NONE if name is None else rows.phase(name)
            rows.add(kind, (number, repeat, at_ns, phase, NONE, False), (size,))


def _phase_at(phases: Sequence[PhaseTime], begins_ns: Sequence[int], at_ns: int) -> str | None:
    """Return the program's phase at that time; the later one if two phases meet at it."""
    index = bisect.bisect_right(begins_ns, at_ns) - 1
    return phases[index].name if index >= 0 and at_ns <= phases[index].end_ns else None


def _buffers(info: Result, trace: Trace) -> Iterator[tuple[object, ...]]:
    """Yield the values of LEDGER_KEYS after the repeat, for each buffer or part of one."""
    if trace.npu is None:
        return
    ledger = trace.npu.ledger
    start_ns = _start_ns(trace)
    makers = owners(trace.barriers, ledger)
    steady = next((barrier for barrier in trace.barriers if barrier.phase == "steady"), None)
    parts: dict[int, list[_Part]] = {}
    if steady:
        for part in attribute(info.plan, trace.barriers, ledger, steady.at_ns):
            values = (part.context, part.component, part.size_bytes)
            parts.setdefault(part.buffer, []).append(values)

    for number, buffer in ledger.buffers.items():
        maker = makers[number]
        phase = maker.phase if maker else None
        whole: _Part = (maker.context if maker else None, None, buffer.size_bytes)
        died_ns = None if buffer.died_ns is None else buffer.died_ns - start_ns
        lifetime = (buffer.born_ns - start_ns, died_ns)
        for index, component, size_bytes in parts.get(number, [whole]):
            context = None if index is None else index + 1
            values_of_part = (phase, context, component, size_bytes)
            yield number, buffer.source, *values_of_part, buffer.asked_bytes, *lifetime
