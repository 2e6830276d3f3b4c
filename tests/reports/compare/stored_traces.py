"""Stored traces with everything that a measured process can leave.

That is a ledger, times of waiting, and frames of streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reusebench.accounting.ledger import Buffer, Ledger
from reusebench.measured.plan import DUP, Context, Plan
from reusebench.measured.streams.threads import STAGES
from reusebench.storage.result import Result
from reusebench.storage.trace import (
    FrameTime,
    FrameTimes,
    NpuTimeline,
    Trace,
    read_trace,
    write_trace,
)
from reusebench.targets.barriers import BarrierReading
from tests.accounting.hand_made import (
    PAGE,
    make_buffer,
    make_ledger,
    make_plan,
    make_submit,
    weights_in,
)
from tests.helpers.support import known
from tests.reports.stored import even, npu_account, result
from tests.reports.stored_streams import Frames, streams_result

MS = 1_000_000
#: Time from the start of the process to its first barrier, and of reading at each barrier.
START_UP_NS = 300 * MS
READING_NS = 2 * MS
FRAMES_S = 5.0


def trace_of(storage: Path, info: Result, index: int = 0) -> Trace:
    """Return the trace of a repeat."""
    return known(read_trace(storage, info.repeats[index].trace, Trace))


def change_trace(storage: Path, info: Result, index: int = 0, **changes: Any) -> Trace:
    """Write the trace of a repeat anew with other values in these fields, and return it."""
    path = Path(info.repeats[index].trace)
    trace = msgspec.structs.replace(trace_of(storage, info, index), **changes)
    write_trace(storage, path.parent.name, path.name[: -len(".json.gz")], trace)
    return trace


def waiting(barriers: Sequence[BarrierReading], steady_ns: int = 0) -> list[BarrierReading]:
    """Return the barriers with a wait after each, and a longer steady phase."""
    told = []
    later_ns = 0
    for barrier in barriers:
        later_ns += {"steady": steady_ns, "trimmed": 2 * READING_NS}.get(barrier.phase, 0)
        at_ns = barrier.at_ns + later_ns
        told.append(msgspec.structs.replace(barrier, at_ns=at_ns, left_ns=at_ns + READING_NS))
    return told


def npu_result(storage: Path, **options: Any) -> Result:
    """Return the result of a context and its dup on an NPU, with their buffers in the trace."""
    plan = make_plan(Context(None, 0), Context(None, 0, DUP, 0))
    info = result(
        storage,
        "mine",
        even(10, repeats=1),
        plan=plan,
        npu=npu_account,
        models=plan.models,
        **options,
    )
    barriers = waiting(trace_of(storage, info).barriers)
    ledger = _ledger(plan, barriers)
    changes = ledger.timeline()
    npu = NpuTimeline([at_ns for at_ns, _ in changes], [size for _, size in changes], ledger)
    start_ns = barriers[0].at_ns - START_UP_NS
    change_trace(storage, info, barriers=barriers, npu=npu, start_ns=start_ns)
    return info


def _ledger(plan: Plan, barriers: Sequence[BarrierReading]) -> Ledger:
    """Return a ledger of weights, register commands, task lists, and a buffer of no context."""
    made = [barrier.at_ns - MS for barrier in barriers if barrier.phase == "context"]
    destroyed = {
        barrier.context: barrier.at_ns - MS for barrier in barriers if barrier.phase == "destroy"
    }
    first, dup = (index for index in range(len(plan.contexts)))
    buffers: list[Buffer] = [
        make_buffer(1, 8 * PAGE, made[first], died_ns=destroyed[first]),
        make_buffer(2, PAGE, made[first], died_ns=destroyed[first]),
        make_buffer(3, 100, made[dup], died_ns=destroyed[dup]),
        # Within one step, so that it lives at no barrier; and one that is never given back.
        make_buffer(4, PAGE, made[dup] + 1000, died_ns=made[dup] + 9000),
        make_buffer(5, 3 * PAGE, barriers[0].at_ns - MS),
    ]
    submits = [make_submit(2, 6, weights_in(1)), make_submit(3, 6, weights_in(1))]
    return make_ledger(*buffers, submits=submits)


def frames_result(storage: Path, **options: Any) -> Result:
    """Return a result of streams with the times of the first four and last three of ten frames."""
    stored = Frames(per_s=2.0, seconds=FRAMES_S)
    info = streams_result(storage, "streams_full_dup", [stored], **options)
    barriers = waiting(trace_of(storage, info).barriers, steady_ns=round((FRAMES_S + 3) * 1e9))
    (steady,) = (barrier for barrier in barriers if barrier.phase == "steady")
    begin_ns = steady.at_ns - round((FRAMES_S + 0.1) * 1e9)
    steady.data = msgspec.structs.replace(steady.data, begin_ns=begin_ns)
    frames = [_frame(number, begin_ns + number * 400 * MS) for number in range(10)]
    times = FrameTimes(frames[:4], frames[7:], left_out=3)
    timeline = msgspec.structs.replace(
        trace_of(storage, info).timeline, times_ns=[barrier.at_ns for barrier in barriers]
    )
    start_ns = barriers[0].at_ns - START_UP_NS
    change_trace(
        storage, info, barriers=barriers, timeline=timeline, start_ns=start_ns, frames=times
    )
    (repeat,) = info.repeats
    repeat = msgspec.structs.replace(repeat, elapsed_s=(barriers[-1].at_ns - start_ns) / 1e9 + 0.1)
    return msgspec.structs.replace(info, repeats=(repeat,))


def _frame(number: int, due_ns: int) -> FrameTime:
    """Return a frame that takes longer than the next one takes to come."""
    return FrameTime(
        number % 2, due_ns, tuple((stage + 1) * 50 * MS for stage in range(len(STAGES)))
    )
