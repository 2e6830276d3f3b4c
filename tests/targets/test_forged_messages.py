"""Forged messages, of every kind in every step: none is taken for the expected one, none ends the
harness, and none is waited for.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.harness.measuring.context_limit import limit_of
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.repeat_figures import (
    SPEED_FIGURES,
    STREAM_SPEED_FIGURES,
    memory_figures,
)
from reusebench.measured.messages import LANGUAGES
from reusebench.measured.messages import Message as Words
from reusebench.measured.plan import Conversation, Cycles, Plan, Step, Streams
from reusebench.measured.runtimes.base import Turn
from reusebench.targets import conversation
from reusebench.targets.measured_process import (
    MeasuredRun,
    estimates_of,
    interface_of,
    prepare_models,
    try_plan,
)
from reusebench.targets.outcome import PROTOCOL_BROKEN, Failure
from reusebench.targets.protocol.base import PYTHON_PROTOCOL, DriverProtocol
from reusebench.targets.protocol.c_driver import C_PROTOCOL
from tests.helpers.memory_driver import Forger, Message, encoded, memory_target, no_forger
from tests.helpers.support import make_plan, models_of, walk

_PROTOCOLS: dict[str, DriverProtocol] = {"python": PYTHON_PROTOCOL, "c": C_PROTOCOL}
_SCHEDULE = Streams(count=2, fps=0.0, queue=0, warm_up_s=0.0, duration_s=0.01, video=None)
_ROUNDS = make_plan("full_dup", "model", contexts=2)
_PLANS = {
    "rounds": _ROUNDS,
    "cycles": replace(_ROUNDS, cycles=Cycles("dups", 3)),
    "fills": replace(_ROUNDS, fills=True),
    "streams": make_plan("streams_full_dup", "model", streams=2, contexts=1, schedule=_SCHEDULE),
}
_CONVERSATION = Conversation(tokens=8, prompt=4, generated=2)
_CONVERSATIONS = make_plan("sessions_sequences", "model", conversation=_CONVERSATION)
_LATE_NS = 10**12
_FAILURE = {
    "event": "failure",
    "kind": "failed",
    "message": {"code": "text", "values": {"text": "forged"}},
}


def _failed(step: Step, **changes: Any) -> Message:
    phase = "steady" if step.phase == "trimmed" else step.phase
    return {**copy.deepcopy(_FAILURE), "phase": phase, "context": step.context, **changes}


def _changed(name: str, value: Any) -> Callable[[Step, list[Message]], list[Message]]:
    """Return a forgery of one field of the barrier."""

    def forge(_step: Step, messages: list[Message]) -> list[Message]:
        return [*messages[:-1], {**messages[-1], name: value}]

    return forge


def _moved(move: Callable[[int], object]) -> Callable[[Step, list[Message]], list[Message]]:
    """Return a forgery of the barrier's time."""

    def forge(_step: Step, messages: list[Message]) -> list[Message]:
        return [*messages[:-1], {**messages[-1], "at_ns": move(messages[-1]["at_ns"])}]

    return forge


def _with_data(**fields: Any) -> Callable[[Step, list[Message]], list[Message]]:
    """Return a forgery that adds figures of other steps."""

    def forge(_step: Step, messages: list[Message]) -> list[Message]:
        barrier = messages[-1]
        added = {name: value for name, value in fields.items() if name not in barrier["data"]}
        if not added:  # they are the step's own
            added = {"begin_ns": 5, "latency_ns": 5, "load_ns": 5, "elapsed_ns": 5}
        return [*messages[:-1], {**barrier, "data": {**barrier["data"], **added}}]

    return forge


_Forgery = Callable[[Step, list[Message]], list[Message]]
#: Forgeries that are wrong in every step.
_FORGERIES: dict[str, _Forgery] = {
    "another event": lambda _, messages: [{**messages[-1], "event": "dance"}],
    "a preparation": lambda _, __: [{"event": "preparing"}],
    "a prepared model": lambda _, __: [{"event": "prepared", "models": {}}],
    "an interface": lambda _, __: [
        {"event": "interface", "interface": {"inputs": [], "outputs": [], "metadata": {}}}
    ],
    "frames of no stream": lambda _, __: [
        {"event": "frames", "seconds": 0.0, "streams": [], "heap_bytes": 5}
    ],
    "a failure of another phase": lambda step, _: [_failed(step, phase="dance")],
    "a failure of another context": lambda step, _: [_failed(step, context=77)],
    "a failure of an unknown kind": lambda step, _: [
        _failed(step, kind="dance", errno="dance", code=None)
    ],
    "a failure that is the harness's": lambda step, _: [
        _failed(step, kind="hung", errno="x", message={"code": 5, "values": {}})
    ],
    "a barrier of the first step": lambda step, messages: [
        {**messages[-1], "phase": "imported" if step.phase != "imported" else "steady"}
    ],
    "a barrier of the last step": lambda step, messages: [
        {**messages[-1], "phase": "destroy", "context": 0 if step != ("destroy", 0) else 1}
    ],
    "a barrier of no step": _changed("phase", "dance"),
    "a barrier of an empty phase": _changed("phase", ""),
    "a barrier of a phase with a colour": _changed("phase", "\x1b[31m"),
    "a barrier of another context": _changed("context", 77),
    "a barrier of a negative context": _changed("context", -1),
    "a barrier of a context that is a text": _changed("context", "zero"),
    "a full barrier of another context": lambda _, messages: [
        {**messages[-1], "phase": "full", "context": 77}
    ],
    "a full barrier without a failure": lambda _, messages: [
        *messages[:-1],
        {**messages[-1], "phase": "full", "data": {}},
    ],
    "a time before the step": _moved(lambda at_ns: at_ns - _LATE_NS),
    "a time after now": _moved(lambda at_ns: at_ns + _LATE_NS),
    "no time": _moved(lambda _: 0),
    "a negative time": _moved(lambda at_ns: -at_ns),
    "a huge time": _moved(lambda _: 10**400),
    "a time that is a text": _moved(lambda _: "now"),
    "figures of other steps": _with_data(latencies_ns=[[5]], elapsed_ns=5, digests=["00000000"]),
    "a trimmed heap of another step": _with_data(trimmed=True, begin_ns=5),
    "a failure within a step that has none": _with_data(
        failure={"phase": "dance", "kind": "failed", "message": {"code": "text", "values": {}}}
    ),
    "a negative account": _with_data(account={"weights_bytes": -5}, begin_ns=5),
    "twice the same": lambda _, messages: [*messages, messages[-1]],
    "a barrier and a failure": lambda step, messages: [*messages, _failed(step)],
}
#: Bytes that are no message in any step.
_RUBBISH = {
    "an empty line": b"\n",
    "no text": b"\xff\xfe\x00\n",
    "a text": b"Segmentation fault\n",
    "an empty object": b"{}\n",
    "a number": b"5\n",
    "a list": b"[]\n",
    "deep lists": b"[" * 10_000 + b"\n",
    "a barrier without fields": b'{"event": "barrier"}\n',
    "fields without a kind": b"\tphase=imported\tat_ns=5\n",
    "a barrier in C without fields": b"barrier\n",
    "a barrier in C of many models": b"barrier\tphase=imported\tat_ns=5\tmodels=99999999999999\n",
    "a failure in C of a wrong call": b"failure\tphase=imported\tcall=a\tresult=b\n",
    "a failure in C of an error that is none": b"failure\tphase=imported\terrno=9999999999999999\n",
    "a failure in C with a value in a text": (
        b"failure\tphase=imported\tcode=a\ttext.b=c\ttext.b.d=e\n"
    ),
    "an interface in C of no attributes": b"interface\tinput=00\n",
    "a line without an end": b"x" * 3000,
}
#: Forged figures by phase. A function gets the step's data and returns them, or None for another
#: plan.
_Figures = Callable[[Message, Plan], Any]
_FIGURES: dict[str, dict[str, _Figures]] = {
    "context": {
        "no duration": lambda data, _: {**data, "load_ns": 0},
        "a negative duration": lambda data, _: {**data, "load_ns": -1},
        "a duration longer than the step": lambda data, _: {**data, "load_ns": _LATE_NS},
        "a huge account": lambda data, _: {**data, "account": {"weights_bytes": 1 << 63}},
        "a negative account": lambda data, _: {**data, "account": {"weights_bytes": -1}},
        "another kind of allocation": lambda data, _: _allocated(data, kind="dance"),
        "a negative allocation": lambda data, _: _allocated(data, asked_bytes=-1),
        "a negative inode": lambda data, _: _allocated(data, inode=-1),
        "a version of a book's length": lambda data, _: {**data, "runtime_version": "1" * 10**6},
    },
    "first_inference": {
        "no latency": lambda data, _: {**data, "latency_ns": 0},
        "a latency longer than the step": lambda data, _: {**data, "latency_ns": _LATE_NS},
        "no digest": lambda data, _: {**data, "digest": ""},
        "another digest": lambda data, _: {**data, "digest": "dance"},
        "no copies": lambda data, _: {key: data[key] for key in data if key != "copies"},
        "negative copies": lambda data, _: {
            **data,
            "copies": {"input_bytes": -1, "output_bytes": 0},
        },
        "many samples": lambda data, _: {**data, "samples": [[]] * 20_000},
    },
    "steady": {
        "no latencies": lambda data, plan: _rounds(plan, {**data, "latencies_ns": []}),
        "latencies of one context": lambda data, plan: _rounds(
            plan, {**data, "latencies_ns": data.get("latencies_ns", [])[:1]}
        ),
        "latencies of one more context": lambda data, plan: _rounds(
            plan, {**data, "latencies_ns": [*data.get("latencies_ns", []), [1] * plan.rounds]}
        ),
        "latencies of fewer rounds": lambda data, plan: _rounds(
            plan, {**data, "latencies_ns": [[1]] * len(plan.contexts)}
        ),
        "latencies of 0": lambda data, plan: _rounds(
            plan, {**data, "latencies_ns": [[0] * plan.rounds] * len(plan.contexts)}
        ),
        "latencies longer than the step": lambda data, plan: _rounds(
            plan, {**data, "latencies_ns": [[_LATE_NS] * plan.rounds] * len(plan.contexts)}
        ),
        "no duration": lambda data, plan: _rounds(plan, {**data, "elapsed_ns": 0}),
        "a duration longer than the step": lambda data, plan: _rounds(
            plan, {**data, "elapsed_ns": _LATE_NS}
        ),
        "no digests": lambda data, plan: _rounds(plan, {**data, "digests": []}),
        "other digests": lambda data, plan: _rounds(
            plan, {**data, "digests": ["dance"] * len(plan.contexts)}
        ),
        "more seconds than passed": lambda data, plan: _streams(plan, {**data, "seconds": 3600.0}),
        "fewer seconds than the schedule": lambda data, plan: _streams(
            plan, {**data, "seconds": 0.001}
        ),
        "negative seconds": lambda data, plan: _streams(plan, {**data, "seconds": -1.0}),
        "a begin before the step": lambda data, plan: _streams(plan, {**data, "begin_ns": 5}),
        "a begin after the step": lambda data, plan: _streams(
            plan, {**data, "begin_ns": data.get("begin_ns", 0) + _LATE_NS}
        ),
        "checksums of no model": lambda data, plan: _streams(
            plan, {**data, "frame_checksums": [], "unequal_frames": []}
        ),
        "checksums of more models": lambda data, plan: _streams(
            plan, {**data, "frame_checksums": [{}] * 9, "unequal_frames": [0] * 9}
        ),
    },
    "cycle": {
        "no digest": lambda data, _: {**data, "digest": ""},
        "no usage": lambda data, _: {key: data[key] for key in data if key != "usage"},
        "a negative usage": lambda data, _: {
            **data,
            "usage": {**data["usage"], "fds": -1},
        },
    },
}
#: Forged frames: a function changes the message of a second.
_FRAMES: dict[str, Callable[[Message], Message]] = {
    "of one stream": lambda frames: {**frames, "streams": frames["streams"][:1]},
    "of one more stream": lambda frames: {**frames, "streams": frames["streams"] * 2},
    "of more seconds than passed": lambda frames: {**frames, "seconds": 3600.0},
    "of negative seconds": lambda frames: {**frames, "seconds": -1.0},
    "with negative losses": lambda frames: _first_stream(frames, dropped=-1),
    "with huge losses": lambda frames: _first_stream(frames, missed=1 << 70),
    "with short rows": lambda frames: _first_row(frames, lambda row: row[:4]),
    "with long rows": lambda frames: _first_row(frames, lambda row: [*row, 1]),
    "with empty rows": lambda frames: _first_row(frames, lambda _: []),
    "with negative stages": lambda frames: _first_row(frames, lambda row: [*row[:-1], -1]),
    "with stages longer than the step": lambda frames: _first_row(
        frames, lambda row: [*row[:-1], _LATE_NS]
    ),
    "due before the step": lambda frames: _first_row(frames, lambda row: [5, *row[1:]]),
    "due after the step": lambda frames: _first_row(
        frames, lambda row: [row[0] + _LATE_NS, *row[1:]]
    ),
    "with a huge heap": lambda frames: {**frames, "heap_bytes": 1 << 70},
}
#: Forged turns of conversations: a function changes the first turn of the first context.
_TURNS: dict[str, Callable[[list[int]], list[list[int]]]] = {
    "none": lambda _: [],
    "one more": lambda turn: [turn] * 9,
    "without a prompt": lambda turn: [[0, *turn[1:]]],
    "with more of a prompt than there is": lambda turn: [[5, *turn[1:]]],
    "without an answer": lambda turn: [[*turn[:2], 0, turn[3]]],
    "with more tokens than there are": lambda turn: [[*turn[:2], 3, turn[3]]],
    "without a time to the first token": lambda turn: [[turn[0], 0, *turn[2:]]],
    "of a negative time": lambda turn: [[*turn[:3], -1]],
    "longer than the step": lambda turn: [[*turn[:3], _LATE_NS]],
    "of a huge time": lambda turn: [[turn[0], 1 << 70, *turn[2:]]],
}


def _placed(data: Message, **changes: Any) -> Message:
    placement = {"npu": {}, "cpu": {}, "partitions": 1, "crossing_bytes": 0, **changes}
    return {**data, "placement": placement}


def _allocated(data: Message, **changes: Any) -> Message:
    (allocation,) = data["allocations"]
    return {**data, "allocations": [{**allocation, **changes}]}


def _rounds(plan: Plan, data: Message) -> Message | None:
    return None if plan.schedule else data


def _streams(plan: Plan, data: Message) -> Message | None:
    return data if plan.schedule else None


def _first_stream(frames: Message, **changes: Any) -> Message:
    first, *others = frames["streams"]
    return {**frames, "streams": [{**first, **changes}, *others]}


def _first_row(frames: Message, change: Callable[[list[int]], list[int]]) -> Message:
    first, *others = frames["streams"][0]["rows"]
    return _first_stream(frames, rows=[change(first), *others])


def _steps_of(plan: Plan) -> list[Step]:
    steps = list(plan.steps())
    for at, step in enumerate(list(steps)):
        if step.phase == "steady":
            steps.insert(at + 1, Step("trimmed"))
    return steps


def _at(
    number: int, protocol: DriverProtocol, forge: Callable[[Step, list[Message]], bytes]
) -> Forger:
    """Return a forger of the step of this number alone."""
    taken = iter(range(1000))
    honest = no_forger(protocol)

    def choose(step: Step, messages: list[Message]) -> bytes:
        return (forge if next(taken) == number else honest)(step, messages)

    return choose


def _check_broken(failure: Failure | None) -> None:
    """Check that a failure says so, can be stored, and can be read in each language."""
    assert failure is not None
    assert (failure.kind, failure.message.code) == ("failed", PROTOCOL_BROKEN), failure
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    for language in LANGUAGES:
        assert "protocol" not in failure.sentence(language).replace("protocol message", "")


def _check_run(run: MeasuredRun, steps: list[Step], number: int) -> None:
    """Check that the run ends at the forged step, and has the figures of the steps before it."""
    _check_broken(run.failure)
    passed = [Step(barrier.phase, barrier.context) for barrier in run.barriers]
    assert passed[:number] == steps[:number]
    assert len(passed) <= number + 1
    repeat = Repeat(run.barriers, run.failure, 0.0, 0, 0.0, "", start_ns=run.start_ns)
    is_streams = any(barrier.data.begin_ns for barrier in run.barriers)
    speed = STREAM_SPEED_FIGURES if is_streams else SPEED_FIGURES
    for figure in (*memory_figures("pages").values(), *speed.values()):
        figure(repeat)
    assert limit_of(_PLANS["fills"], run, None) is None


@pytest.mark.parametrize("plan", _PLANS.values(), ids=list(_PLANS))
@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
def test_a_driver_that_forges_nothing(protocol: DriverProtocol, plan: Plan) -> None:
    """The driver of these tests walks every plan to its end."""
    run = walk(plan, memory_target(protocol, plan, no_forger(protocol)))
    assert run.failure is None
    assert [Step(barrier.phase, barrier.context) for barrier in run.barriers] == _steps_of(plan)


@pytest.mark.parametrize("plan", _PLANS.values(), ids=list(_PLANS))
@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
@pytest.mark.parametrize("name", _FORGERIES)
def test_a_forged_message(name: str, protocol: DriverProtocol, plan: Plan) -> None:
    """In whatever step it comes, the protocol is broken there."""
    for number, step in enumerate(_steps_of(plan)):

        def forge(step: Step, messages: list[Message]) -> bytes:
            forged = _FORGERIES[name](step, messages)
            return b"".join(encoded(protocol, message) for message in forged)

        run = walk(plan, memory_target(protocol, plan, _at(number, protocol, forge)))
        _check_run(run, _steps_of(plan), number)


@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
@pytest.mark.parametrize("name", _RUBBISH)
def test_rubbish(name: str, protocol: DriverProtocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no message break the protocol in every step."""
    monkeypatch.setattr(conversation, "_MOST_LINE_BYTES", 2000)
    for number in range(len(_steps_of(_ROUNDS))):
        forger = _at(number, protocol, lambda _, __: _RUBBISH[name])
        run = walk(_ROUNDS, memory_target(protocol, _ROUNDS, forger))
        _check_run(run, _steps_of(_ROUNDS), number)


class _ForgedFigures:
    """A forger of the data of a barrier."""

    def __init__(self, protocol: DriverProtocol, plan: Plan, change: _Figures) -> None:
        self._protocol = protocol
        self._plan = plan
        self._change = change
        #: Whether these figures are of another plan.
        self.is_skipped = False

    def forge(self, _step: Step, messages: list[Message]) -> bytes:
        """Return the messages with other figures."""
        data = self._change(messages[-1]["data"], self._plan)
        self.is_skipped = data is None
        forged = [*messages[:-1], {**messages[-1], "data": data or {}}]
        return b"".join(encoded(self._protocol, message) for message in forged)


@pytest.mark.parametrize(
    "changes",
    [
        {"npu": {"CONV_2D": 0}},
        {"cpu": {str(name): 1 for name in range(2000)}},
        {"cpu": {"x" * 10_000: 1}},
        {"partitions": -1},
    ],
)
def test_forged_placements(changes: Message) -> None:
    """A placement that no model can have breaks the protocol of the driver in Python."""
    steps = _steps_of(_ROUNDS)
    number = next(index for index, step in enumerate(steps) if step.phase == "first_inference")
    python = _PROTOCOLS["python"]
    forged = _ForgedFigures(python, _ROUNDS, lambda data, _: _placed(data, **changes))
    run = walk(_ROUNDS, memory_target(python, _ROUNDS, _at(number, python, forged.forge)))
    _check_run(run, steps, number)


@pytest.mark.parametrize("plan", _PLANS.values(), ids=list(_PLANS))
@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
@pytest.mark.parametrize("phase", _FIGURES)
def test_forged_figures(phase: str, protocol: DriverProtocol, plan: Plan) -> None:
    """Figures that the step cannot have break the protocol, and enter no result."""
    steps = _steps_of(plan)
    numbers = [number for number, step in enumerate(steps) if step.phase == phase]
    for name, change in _FIGURES[phase].items():
        for number in numbers:
            forged = _ForgedFigures(protocol, plan, change)
            run = walk(plan, memory_target(protocol, plan, _at(number, protocol, forged.forge)))
            if not forged.is_skipped:
                assert run.failure is not None, name
                _check_run(run, steps, number)


def test_a_driver_of_conversations_that_forges_nothing() -> None:
    """Each inference of a language model has a turn."""
    run = walk(
        _CONVERSATIONS, memory_target(PYTHON_PROTOCOL, _CONVERSATIONS, no_forger(PYTHON_PROTOCOL))
    )
    assert run.failure is None
    turns = {barrier.phase: barrier.data.turns for barrier in run.barriers}
    assert turns["first_inference"] == ((Turn(4, 1, 2, 0),),)
    assert turns["steady"] == ((Turn(4, 1, 2, 0),) * _CONVERSATIONS.rounds,) * 2


@pytest.mark.parametrize("phase", ["context", "first_inference", "steady"])
def test_turns_without_a_conversation(phase: str) -> None:
    """Only inferences of language models are turns."""
    steps = _steps_of(_ROUNDS)
    number = [step.phase for step in steps].index(phase)
    turns = [[[1, 1, 1, 0]]]
    forged = _ForgedFigures(PYTHON_PROTOCOL, _ROUNDS, lambda data, _: {**data, "turns": turns})
    forger = _at(number, PYTHON_PROTOCOL, forged.forge)
    _check_run(walk(_ROUNDS, memory_target(PYTHON_PROTOCOL, _ROUNDS, forger)), steps, number)


@pytest.mark.parametrize("phase", ["first_inference", "steady"])
@pytest.mark.parametrize("name", _TURNS)
def test_forged_turns(name: str, phase: str) -> None:
    """Turns that the conversation cannot have had break the protocol."""
    steps = _steps_of(_CONVERSATIONS)
    number = [step.phase for step in steps].index(phase)

    def change(data: Message, _plan: Plan) -> Message:
        first, *others = data["turns"]
        return {**data, "turns": [[*_TURNS[name](first[0]), *first[1:]], *others]}

    forged = _ForgedFigures(PYTHON_PROTOCOL, _CONVERSATIONS, change)
    forger = _at(number, PYTHON_PROTOCOL, forged.forge)
    run = walk(_CONVERSATIONS, memory_target(PYTHON_PROTOCOL, _CONVERSATIONS, forger))
    assert run.failure is not None
    _check_run(run, steps, number)


@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
@pytest.mark.parametrize("name", _FRAMES)
def test_forged_frames(name: str, protocol: DriverProtocol) -> None:
    """Frames that the streams cannot have had break the protocol."""
    plan = _PLANS["streams"]
    number = _steps_of(plan).index(Step("steady"))

    def forge(_: Step, messages: list[Message]) -> bytes:
        forged = [_FRAMES[name](messages[0]), messages[1]]
        return b"".join(encoded(protocol, message) for message in forged)

    run = walk(plan, memory_target(protocol, plan, _at(number, protocol, forge)))
    _check_run(run, _steps_of(plan), number)


@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
def test_frames_without_end(protocol: DriverProtocol) -> None:
    """A process may not go on to send frames for longer than its streams run."""
    plan = _PLANS["streams"]
    number = _steps_of(plan).index(Step("steady"))

    def forge(_: Step, messages: list[Message]) -> bytes:
        empty = _first_stream(messages[0], rows=[])
        empty["streams"] = [{**stream, "rows": []} for stream in empty["streams"]]
        return encoded(protocol, empty) * 1000

    run = walk(plan, memory_target(protocol, plan, _at(number, protocol, forge)))
    _check_run(run, _steps_of(plan), number)


@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
@pytest.mark.parametrize("begin", [b"", b'{"event": "barr', b"barrier\tphase="])
def test_a_process_that_says_no_more(protocol: DriverProtocol, begin: bytes) -> None:
    """Silence, also in the middle of a message, is a hang."""
    run = walk(
        _ROUNDS,
        memory_target(protocol, _ROUNDS, _at(3, protocol, lambda _, __: begin)),
        time_limit_s=0.05,
    )
    assert run.failure is not None
    assert run.failure.kind == "hung"


@pytest.mark.parametrize("kind", ["failed", "not_supported", "out_of_memory"])
def test_a_failure_of_its_own_is_believed(kind: str) -> None:
    """The kinds that a driver reports are results."""
    for number in range(len(_steps_of(_ROUNDS))):
        forger = _at(
            number,
            PYTHON_PROTOCOL,
            lambda step, _: encoded(PYTHON_PROTOCOL, _failed(step, kind=kind)),
        )
        run = walk(_ROUNDS, memory_target(PYTHON_PROTOCOL, _ROUNDS, forger))
        assert run.failure is not None
        assert (run.failure.kind, run.failure.message) == (kind, Words("text", {"text": "forged"}))


@pytest.mark.parametrize("levels", [1, 3, 50, 400])
@pytest.mark.parametrize("code", ["exception", "text", "dance"])
def test_a_failure_with_any_message(code: str, levels: int) -> None:
    """A message without its values can be shown; one of many levels is none."""
    message: Message = {"code": code, "values": {}}
    for _ in range(levels - 1):
        message = {"code": code, "values": {"text": message}}
    forger = _at(
        1,
        PYTHON_PROTOCOL,
        lambda step, _: encoded(PYTHON_PROTOCOL, _failed(step, message=message)),
    )
    failure = walk(_ROUNDS, memory_target(PYTHON_PROTOCOL, _ROUNDS, forger)).failure
    assert failure is not None
    assert failure.kind == "failed"
    assert failure.message.code == (code if levels <= 3 else PROTOCOL_BROKEN)
    assert str(failure)


def test_a_trial_of_a_plan_is_walked() -> None:
    """Models are tried by the same messages, which are not measured."""
    target = memory_target(PYTHON_PROTOCOL, _ROUNDS, no_forger(PYTHON_PROTOCOL))
    barriers = try_plan(target, _ROUNDS, 1.0)
    assert not isinstance(barriers, Failure)
    assert [barrier.phase for barrier in barriers] == [step.phase for step in _ROUNDS.steps()]


@pytest.mark.parametrize("name", _FORGERIES)
def test_a_forged_message_in_a_trial(name: str) -> None:
    """It is the failure of the trial."""

    def forge(step: Step, messages: list[Message]) -> bytes:
        forged = _FORGERIES[name](step, messages)
        return b"".join(encoded(PYTHON_PROTOCOL, message) for message in forged)

    target = memory_target(PYTHON_PROTOCOL, _ROUNDS, _at(2, PYTHON_PROTOCOL, forge))
    failure = try_plan(target, _ROUNDS, 1.0)
    assert isinstance(failure, Failure)
    _check_broken(failure)


_OTHER_MESSAGES: dict[str, Message | bytes] = {
    **{name: rubbish for name, rubbish in _RUBBISH.items() if rubbish.endswith(b"\n")},
    "a barrier": {"event": "barrier", "phase": "inspect", "context": None, "at_ns": 5, "data": {}},
    "frames": {"event": "frames", "seconds": 0.0, "streams": [], "heap_bytes": None},
    "a failure of a step": _failed(Step("imported")),
    "a failure of an unknown kind": _failed(Step("inspect"), kind="dance"),
    "no prepared model": {"event": "prepared", "models": {}},
    "another prepared model": {"event": "prepared", "models": {"digest": {"path": "/folder/x"}}},
}
_DIGEST = models_of("/model")[0].digest


def _once(message: Message | bytes) -> Forger:
    line = message if isinstance(message, bytes) else encoded(PYTHON_PROTOCOL, message)
    return lambda _, __: line


@pytest.mark.parametrize(
    "message",
    [
        *_OTHER_MESSAGES.values(),
        {"event": "preparing"},
        _failed(Step("prepare")),
        {
            "event": "interface",
            "interface": {
                "inputs": [{"name": "a", "type": "float32", "dimensions": [-1]}],
                "outputs": [],
                "metadata": {},
            },
        },
        {
            "event": "interface",
            "interface": {
                "inputs": [{"name": "a", "type": "float32", "dimensions": [1 << 70]}],
                "outputs": [],
                "metadata": {},
            },
        },
        {
            "event": "interface",
            "interface": {
                "inputs": [{"name": "a", "type": "float32", "dimensions": [1]}],
                "outputs": [],
                "metadata": {},
                "shapes": [[[1], [2]]],
            },
        },
    ],
    ids=str,
)
def test_forged_messages_while_a_model_is_inspected(message: Message | bytes) -> None:
    """Each is a failure like any other."""
    target = memory_target(PYTHON_PROTOCOL, _ROUNDS, _once(message))
    failure = interface_of(target, "scripted", "/model", 1.0)
    assert isinstance(failure, Failure)
    _check_broken(failure)
    assert (failure.phase, failure.context) == ("inspect", None)


@pytest.mark.parametrize(
    "message",
    [
        *_OTHER_MESSAGES.values(),
        {"event": "interface", "interface": {"inputs": [], "outputs": [], "metadata": {}}},
        {"event": "estimated", "accounts": []},
        {"event": "estimated", "accounts": [[{}]]},
        {"event": "estimated", "accounts": [[{"Weights!": 1}, {}]]},
        {"event": "estimated", "accounts": [[{"weights_bytes": -1}, {}]]},
        {"event": "estimated", "accounts": [[{"weights_bytes": 1 << 63}, {}]]},
    ],
    ids=str,
)
def test_forged_messages_while_accounts_are_estimated(message: Message | bytes) -> None:
    """Each is a failure like any other."""
    target = memory_target(PYTHON_PROTOCOL, _ROUNDS, _once(message))
    failure = estimates_of(target, [_ROUNDS], 1.0)
    assert isinstance(failure, Failure)
    _check_broken(failure)
    assert (failure.phase, failure.context) == ("estimate", None)


def _prepared(digest: str = _DIGEST, **preparation: Any) -> Message:
    return {"event": "prepared", "models": {digest: preparation}}


@pytest.mark.parametrize(
    "message",
    [
        *_OTHER_MESSAGES.values(),
        {"event": "interface", "interface": {"inputs": [], "outputs": [], "metadata": {}}},
        _failed(Step("inspect")),
        _prepared("other", path="/model"),
        _prepared(path="/etc/shadow"),
        _prepared(path="/folder/../etc/shadow"),
        _prepared(path="relative"),
        _prepared(path="/folder/\0"),
        _prepared(path="/model", node_order={"tried": -1}),
        _prepared(path="/model", node_order={"saved_bytes": 1 << 70}),
    ],
    ids=str,
)
def test_forged_messages_while_a_model_is_prepared(message: Message | bytes) -> None:
    """Each is a failure like any other; no path outside the folder is taken."""
    target = memory_target(PYTHON_PROTOCOL, _ROUNDS, _once(message))
    failure = prepare_models(target, "scripted", models_of("/model"), Path("/folder"), 1.0)
    assert isinstance(failure, Failure)
    _check_broken(failure)
    assert failure.phase == "prepare"


def test_signs_of_progress_without_end() -> None:
    """A preparation that only says that it goes on is no preparation."""
    target = memory_target(
        PYTHON_PROTOCOL, _ROUNDS, lambda _, __: b'{"event": "preparing"}\n' * 200_000
    )
    failure = prepare_models(target, "scripted", models_of("/model"), Path("/folder"), 8.0)
    assert isinstance(failure, Failure)
    _check_broken(failure)


@pytest.mark.parametrize("plan", _PLANS.values(), ids=list(_PLANS))
@pytest.mark.parametrize("protocol", _PROTOCOLS.values(), ids=list(_PROTOCOLS))
def test_damaged_messages(protocol: DriverProtocol, plan: Plan) -> None:
    """Random bytes in the place of others end in a result, whatever they mean."""
    source = random.Random(0)
    steps = _steps_of(plan)
    for _ in range(60):

        def forge(_step: Step, messages: list[Message]) -> bytes:
            line = bytearray(encoded(protocol, messages[-1]))
            for _ in range(source.randint(1, 4)):
                line[source.randrange(len(line))] = source.choice(b'0123456789-.,"{}[]=\t\n\\e\xff')
            before = [encoded(protocol, message) for message in messages[:-1]]
            return b"".join([*before, bytes(line)])

        number = source.randrange(len(steps))
        target = memory_target(protocol, plan, _at(number, protocol, forge))
        run = walk(plan, target, time_limit_s=0.05)
        if run.failure is not None:
            assert json.loads(msgspec.json.encode(run.failure))
            assert str(run.failure)


def test_a_message_before_it_is_due() -> None:
    """A barrier that was sent before the process was told to go on is none of the next step."""
    plan = _PLANS["cycles"]
    first = _steps_of(plan).index(Step("cycle"))

    def forge(_: Step, messages: list[Message]) -> bytes:
        later = {**messages[-1], "at_ns": time.monotonic_ns() + 1000}
        return encoded(PYTHON_PROTOCOL, messages[-1]) + encoded(PYTHON_PROTOCOL, later)

    run = walk(plan, memory_target(PYTHON_PROTOCOL, plan, _at(first, PYTHON_PROTOCOL, forge)))
    _check_run(run, _steps_of(plan), first)
