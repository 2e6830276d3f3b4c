from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.measured.streams.threads import STAGES
from reusebench.reports.compare.trace_events import trace_events, without_trace
from reusebench.reports.errors import ReportError
from reusebench.storage.runs import Run, run_of
from reusebench.storage.trace import Trace
from reusebench.targets.outcome import Failure
from tests.helpers.support import known
from tests.reports.compare.stored_traces import (
    FRAMES_S,
    READING_NS,
    START_UP_NS,
    change_trace,
    frames_result,
    npu_result,
    trace_of,
)
from tests.reports.stored import (
    FAILED,
    KILLED,
    NOT_SUPPORTED,
    changed,
    even,
    result,
    runs_of,
    write_run,
)
from tests.reports.stored_programs import Repeat, program, trace, write_programs

Event = dict[str, Any]


def short_runs_of(storage: Path) -> list[Run]:
    return [run_of(file) for file in runs_of(storage)]


def events_of(storage: Path) -> list[Event]:
    events: list[Event] = json.loads(trace_events(short_runs_of(storage)))["traceEvents"]
    return events


def spans(events: Sequence[Event], category: str | None = None) -> list[Event]:
    """Return the spans of the phases, or of a category with their parts, each with its length."""
    if category is None:
        return [event for event in events if event["ph"] == "X"]
    open_spans: dict[Any, list[Event]] = {}
    closed = []
    for event in events:
        if event["ph"] in "be" and event["cat"] == category:
            of_id = open_spans.setdefault((event["pid"], event["id2"]["local"]), [])
            if event["ph"] == "b":
                of_id.append(event)
                continue
            begun = of_id.pop()
            assert begun["name"] == event["name"]
            closed.append({**begun, "dur": event["ts"] - begun["ts"]})
    assert not any(open_spans.values())
    return sorted(closed, key=lambda span: (span["ts"], -span["dur"]))


def counter(events: Sequence[Event], name: str) -> list[tuple[int, float]]:
    """Return the readings of a counter, which has one unit."""
    readings = [event for event in events if event["ph"] == "C" and event["name"] == name]
    assert len({tuple(event["args"]) for event in readings}) <= 1
    return [(event["ts"], value) for event in readings for value in event["args"].values()]


def value_at(readings: Iterable[tuple[int, float]], at_us: int) -> float:
    """Return the value of the counter at that time."""
    return [value for ts, value in readings if ts <= at_us][-1]


def since_start(trace: Trace, at_ns: int | None) -> int:
    """Return a time of the trace in whole microseconds."""
    return (known(at_ns) - known(trace.start_ns)) // 1000


@pytest.fixture(scope="module")
def npu(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], Trace]:
    """Return the export of a run on an NPU, and its trace."""
    folder = tmp_path_factory.mktemp("npu")
    info = npu_result(folder)
    write_run(folder, [info])
    return events_of(folder), trace_of(folder, info)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], Trace]:
    """Return the export of a run of streams, and its trace."""
    folder = tmp_path_factory.mktemp("frames")
    info = frames_result(folder)
    write_run(folder, [info])
    return events_of(folder), trace_of(folder, info)


def test_a_step_lasts_from_going_on_to_its_barrier(npu: tuple[list[Event], Trace]) -> None:
    """The first step begins with the process; the process is read between steps."""
    events, trace = npu
    steps = [span for span in spans(events) if span["name"] != "reading"]
    assert [span["args"]["phase"] for span in steps] == [
        barrier.phase for barrier in trace.barriers
    ]
    assert [span["ts"] + span["dur"] for span in steps] == [
        since_start(trace, row.at_ns) for row in trace.barriers
    ]
    assert [span["ts"] for span in steps] == [
        0,
        *(since_start(trace, row.left_ns) for row in trace.barriers[:-1]),
    ]
    assert steps[0]["dur"] == START_UP_NS // 1000
    readings = [span for span in spans(events) if span["name"] == "reading"]
    assert {span["dur"] for span in readings} == {READING_NS // 1000}
    assert len(readings) == len(steps)


def test_steps_of_contexts_have_their_numbers(npu: tuple[list[Event], Trace]) -> None:
    """Contexts count from 1, and each step has the reading at its end."""
    events, trace = npu
    named = {span["name"]: span["args"] for span in spans(events)}
    assert {
        "imported",
        "context 1",
        "context 2",
        "first_inference 2",
        "steady",
        "destroy 1",
    } < named.keys()
    (steady,) = (barrier for barrier in trace.barriers if barrier.phase == "steady")
    assert named["steady"]["pss_bytes"] == steady.process.pss_bytes


def test_counters_are_what_was_read(npu: tuple[list[Event], Trace]) -> None:
    """Each reading has its value at its time; a process that has ended has zero."""
    events, trace = npu
    timeline = trace.timeline
    ledger = known(trace.npu)
    read = {
        "RSS": zip(timeline.times_ns, timeline.rss_bytes),
        "system memory": zip(timeline.times_ns, timeline.system_memory_bytes),
        "PSS": ((barrier.at_ns, barrier.process.pss_bytes) for barrier in trace.barriers),
    }
    for name, readings in read.items():
        counted = counter(events, name)
        assert counted == sorted(counted)
        for at_ns, value in dict(readings).items():
            assert value_at(counted, since_start(trace, at_ns)) == value, name
    npu_memory = counter(events, "NPU memory")
    for barrier in trace.barriers:
        assert value_at(npu_memory, since_start(trace, barrier.at_ns)) == ledger.ledger.live_bytes(
            barrier.at_ns
        )
    for name in ("RSS", "PSS", "NPU memory"):
        assert counter(events, name)[-1] == (1_000_000, 0), name


def test_each_buffer_is_a_span(npu: tuple[list[Event], Trace]) -> None:
    """A buffer is named by its components; one that was never freed lasts to the end."""
    events, trace = npu
    buffers = {span["args"]["size_bytes"]: span for span in spans(events, "NPU buffer")}
    ledger = known(trace.npu).ledger
    assert Counter(span["name"] for span in spans(events, "NPU buffer")) == Counter(
        {"weights": 1, "task list": 2, "buffer": 1, "other": 1}
    )
    for buffer in ledger.buffers.values():
        (span,) = (
            span
            for span in spans(events, "NPU buffer")
            if (span["ts"], span["args"]["size_bytes"])
            == (since_start(trace, buffer.born_ns), buffer.size_bytes)
        )
        end_us = since_start(trace, buffer.died_ns) if buffer.died_ns else 1_000_000
        assert span["ts"] + span["dur"] == end_us
        assert span["args"]["asked_bytes"] == buffer.asked_bytes
    assert buffers[8 * 4096]["args"]["made_in"] == "context 1"
    for barrier in trace.barriers:
        at_us = since_start(trace, barrier.at_ns)
        live = [
            span["args"]["size_bytes"]
            for span in spans(events, "NPU buffer")
            if span["ts"] <= at_us < span["ts"] + span["dur"]
        ]
        assert sum(live) == ledger.live_bytes(barrier.at_ns)


def test_a_frame_has_its_stages(frames: tuple[list[Event], Trace]) -> None:
    """A frame lasts from when it is due until its output is read; its stages fill that time."""
    events, trace = frames
    stored = known(trace.frames)
    whole = [span for span in spans(events, "frame") if span["name"].startswith("stream ")]
    kept = [*stored.first, *stored.last]
    assert [span["name"] for span in whole] == [f"stream {frame.stream + 1}" for frame in kept]
    assert [span["ts"] for span in whole] == [since_start(trace, frame.due_ns) for frame in kept]
    assert [span["dur"] for span in whole] == [sum(frame.stages_ns) // 1000 for frame in kept]
    for span in whole:
        parts = [
            part
            for part in spans(events, "frame")
            if part["id2"] == span["id2"] and part["name"] in STAGES
        ]
        assert [part["name"] for part in parts] == list(STAGES)
        ends = [part["ts"] + part["dur"] for part in parts]
        assert [part["ts"] for part in parts] == [span["ts"], *ends[:-1]]
        assert ends[-1] == span["ts"] + span["dur"]


def test_frames_that_are_not_stored_are_told(frames: tuple[list[Event], Trace]) -> None:
    """A span has the number of frames that are not stored."""
    events, trace = frames
    stored = known(trace.frames)
    (gap,) = (span for span in spans(events, "frame") if "not stored" in span["name"])
    assert gap["name"] == "3 frames that are not stored"
    assert since_start(trace, stored.first[-1].due_ns) <= gap["ts"]
    assert gap["ts"] + gap["dur"] <= since_start(trace, stored.last[0].due_ns)


def test_what_streams_did_is_counted(frames: tuple[list[Event], Trace]) -> None:
    """Rates of a second start at its beginning, and end with the steady state."""
    events, trace = frames
    (steady,) = (barrier for barrier in trace.barriers if barrier.phase == "steady")
    begin_us = since_start(trace, steady.data.begin_ns)
    end_us = begin_us + round(FRAMES_S * 1e6)
    assert counter(events, "frames done") == [(begin_us, 2.0), (end_us, 0.0)]
    assert [ts for ts, value in counter(events, "frames lost") if value] == [begin_us]
    (warm_up,) = (span for span in spans(events) if span["name"] == "warm-up")
    (whole,) = (span for span in spans(events) if span["name"] == "steady")
    assert (warm_up["ts"], warm_up["ts"] + warm_up["dur"]) == (whole["ts"], begin_us)


def test_every_event_has_the_form(
    npu: tuple[list[Event], Trace], frames: tuple[list[Event], Trace]
) -> None:
    """Events have whole microseconds since the start, one process and thread, and numbers."""
    for events, _ in (npu, frames):
        assert Counter(event["ph"] for event in events)["M"] == 2
        for event in events:
            assert event["pid"] == event["tid"] == 1
            assert type(event["ts"]) is int
            assert event["ts"] >= 0
            assert event.get("dur", 0) >= 0
            if event["ph"] == "C":
                assert all(isinstance(value, (int, float)) for value in event["args"].values())


def test_the_step_that_failed_lasts_until_the_process_ended(tmp_path: Path) -> None:
    """A failed step is in the export with its failure, and is not reported as missing."""
    info = npu_result(tmp_path)
    barriers = trace_of(tmp_path, info).barriers[:2]
    change_trace(tmp_path, info, barriers=barriers)
    failure = Failure("crashed", "context", 1, KILLED)
    (repeat,) = info.repeats
    repeats = (msgspec.structs.replace(repeat, failure=failure),)
    write_run(tmp_path, [changed(info, repeats=repeats, outcome="crashed", failure=failure)])
    last = spans(events_of(tmp_path))[-1]
    assert last["name"] == "context 2"
    assert last["ts"] + last["dur"] == 1_000_000
    assert "SIGSEGV" in last["args"]["failure"]
    assert without_trace(short_runs_of(tmp_path)) == []


def test_older_traces(tmp_path: Path) -> None:
    """Times of older traces count from the first reading, and steps have no gaps."""
    info = result(tmp_path, "no_reuse", even(10, repeats=1))
    write_run(tmp_path, [info])
    trace = trace_of(tmp_path, info)
    assert (trace.start_ns, trace.frames, trace.barriers[0].left_ns) == (None, None, None)
    steps = spans(events_of(tmp_path))
    assert [span["name"] for span in steps][:2] == ["imported", "context 1"]
    ends = [span["ts"] + span["dur"] for span in steps]
    assert [span["ts"] for span in steps] == [0, *ends[:-1]]


def test_each_process_stands_once(tmp_path: Path) -> None:
    """Each repeat is a process; a copy, or an unsupported configuration, has none."""
    infos = [
        result(tmp_path, "no_reuse", even(10, repeats=2)),
        changed(result(tmp_path, "partial_dup", even(10, repeats=2)), measured_as="no_reuse"),
        result(tmp_path, "shared_context", [], failure=NOT_SUPPORTED),
    ]
    write_run(tmp_path, infos)
    names = {
        event["pid"]: event["args"]["name"]
        for event in events_of(tmp_path)
        if event["name"] == "process_name"
    }
    assert [name.partition(" (")[0] for name in names.values()] == ["onnxruntime no_reuse"] * 2
    assert [name[-9:] for name in names.values()] == [" repeat 1", " repeat 2"]
    assert without_trace(short_runs_of(tmp_path)) == []


def test_several_runs_are_told_apart(tmp_path: Path) -> None:
    """With several runs, every process has its run's name, and the file describes the runs."""
    for number in (1, 2):
        write_run(
            tmp_path,
            [result(tmp_path, "no_reuse", even(10, repeats=1), run=f"run{number}")],
            number,
        )
    document = json.loads(trace_events(short_runs_of(tmp_path)))
    names = [
        event["args"]["name"]
        for event in document["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert [name.partition(":")[0] for name in names] == ["0001_run", "0002_run"]
    assert [run["run"] for run in document["otherData"]["runs"]] == ["0001_run", "0002_run"]


def test_a_recorded_program(tmp_path: Path) -> None:
    """Phases, memory and processes of a program have times since its start."""
    path = trace(tmp_path, "camera", npu=True)
    write_programs(
        tmp_path, [program("camera", [Repeat({"load": 10, "steady": 20}, path, npu=True)])]
    )
    events = events_of(tmp_path)
    assert events[0]["args"]["name"] == "program camera repeat 1"
    assert [(span["name"], span["ts"], span["dur"]) for span in spans(events)] == [
        ("load", 0, 1_000_000),
        ("steady", 1_000_000, 1_000_000),
    ]
    for name in ("RSS", "PSS", "system memory", "NPU memory"):
        assert value_at(counter(events, name), 500_000) < value_at(
            counter(events, name), 1_500_000
        ), name


def test_what_has_no_trace_is_named(tmp_path: Path) -> None:
    """Lost or damaged traces, and failures before any process, are reported."""
    infos = [
        result(tmp_path, "no_reuse", even(10, repeats=3)),
        result(tmp_path, "partial_dup", [], failure=FAILED),
    ]
    write_run(tmp_path, infos)
    lost, damaged, _ = (tmp_path / repeat.trace for repeat in infos[0].repeats)
    lost.unlink()
    damaged.write_bytes(damaged.read_bytes()[:50])
    runs = short_runs_of(tmp_path)
    names = [str(measured.configuration) for measured in runs[0].measured]
    assert without_trace(runs) == [
        f"0001_run: {names[0]} repeat 1: its trace is lost or damaged",
        f"0001_run: {names[0]} repeat 2: its trace is lost or damaged",
        f"0001_run: {names[1]}: crashed",
    ]
    assert len({event["pid"] for event in events_of(tmp_path)}) == 1


def test_a_process_that_was_cut_off(tmp_path: Path) -> None:
    """A process that was cut off has no trace yet, which is no damage."""
    whole = result(tmp_path, "no_reuse", even(10))
    cut_off = result(tmp_path, "partial_dup", even(10, repeats=1))
    (repeat,) = cut_off.repeats
    repeats = (msgspec.structs.replace(repeat, trace=""),)
    write_run(
        tmp_path, [whole, changed(cut_off, repeats=repeats, outcome="cut_off")], is_finished=False
    )
    runs = short_runs_of(tmp_path)
    assert without_trace(runs) == [
        f"0001_run: {runs[0].measured[1].configuration} repeat 1: cut_off"
    ]


def test_no_trace_at_all(tmp_path: Path) -> None:
    """Without any trace the error says what to copy."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(10))])
    for path in tmp_path.glob("traces/*/*"):
        path.unlink()
    with pytest.raises(ReportError, match=r"0001_run: no trace can be read\..* folder `traces`"):
        trace_events(short_runs_of(tmp_path))
