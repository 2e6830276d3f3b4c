"""The protocol of the C driver: the lines of steps, and the messages of its answers."""

from __future__ import annotations

from typing import Any

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import (
    DUP,
    SHARED_WEIGHTS,
    Context,
    Cycles,
    Model,
    Plan,
    Step,
    Streams,
)
from reusebench.measured.runtimes.base import InputData
from reusebench.targets.barriers import DriverFailure, Frames, StreamCount
from reusebench.targets.protocol.base import InvalidMessage
from reusebench.targets.protocol.c_driver import C_PROTOCOL
from reusebench.targets.protocol.fields import read_line, write_line

_MODEL = Model("model", "/models/a\tb.rknn", "0", weightless="/models/small.rknn")
_MEMINFO = (
    "MemTotal:        8000000 kB\\nMemAvailable:    2048000 kB\\nCmaFree:           10240 kB\\n"
)


def _plan(*contexts: Context, **fields: Any) -> Plan:
    return Plan(
        "mine", None, "rknn", (_MODEL,), contexts, fields.pop("cores", 2), rounds=3, **fields
    )


def _told(plan: Plan, phase: str, context: int | None = None) -> list[tuple[str, str]]:
    line = C_PROTOCOL.step(plan, Step(phase, context))
    assert line.endswith(b"\n")
    kind, fields = read_line(line[:-1])
    assert kind == phase
    return list(fields)


def test_any_text_is_a_value() -> None:
    """Tab, newline and backslash are escaped; invalid UTF-8 does not end the protocol."""
    text = "a\tb\nc\\d\\t\\ e=f"
    kind, fields = read_line(
        write_line("kind", [("name", text), ("name", ""), ("number", 7)]).rstrip(b"\n")
    )
    assert (kind, fields.all("name"), fields.number("number")) == ("kind", [text, ""], 7)
    assert read_line(b"kind\tname=\xff")[1].get("name") == "\N{REPLACEMENT CHARACTER}"


def test_a_context_is_told_what_it_is() -> None:
    """File, memory, thread of its chain, and each input before its data."""
    feeding = Model(
        "fed",
        "/m",
        "1",
        inputs=(
            InputData("in", "uint8", (1, 2), value=3),
            InputData("", "float32", (1,), file="/f"),
        ),
    )
    contexts = (
        Context(None, 0),
        Context(None, 0, DUP, 0, core=None),
        Context(None, 1, zero_copy=("input", "output")),
    )
    plan = Plan("mine", None, "rknn", (_MODEL, feeding), contexts, 1, 1, chains=((1, 0),))
    first, dup, fed = (dict(_told(plan, "context", index)) for index in range(3))
    assert first["path"] == _MODEL.path
    assert (dup["mechanism"], dup["source"], dup["worker"]) == ("dup", "0", "0")
    assert "worker" not in first
    assert fed["zero_copy"] == "input,output"
    inputs = _told(plan, "context", 2)[-8:]
    assert inputs[:4] == [("input", "in"), ("type", "uint8"), ("shape", "1,2"), ("value", "3")]
    assert inputs[4:] == [("input", ""), ("type", "float32"), ("shape", "1"), ("file", "/f")]


def test_a_slave_is_made_of_the_file_without_weights() -> None:
    """The Python driver uses the same file."""
    plan = _plan(Context(0, 0), Context(0, 0, SHARED_WEIGHTS, 0))
    assert ("path", "/models/small.rknn") in _told(plan, "context", 1)


def test_the_gates_of_rounds() -> None:
    """The first gate lets as many infer as there are cores; then each core has its own gate."""
    turns = [
        value
        for name, value in _told(_plan(Context(0, 0), Context(0, 0)), "steady")
        if name == "turn"
    ]
    assert turns == ["0:0", "1:0"]
    told = _told(_plan(Context(0, 0, core=1), Context(0, 0, core=0)), "steady")
    assert [value for name, value in told if name == "gate"] == ["2", "1", "1"]
    assert [value for name, value in told if name == "turn"] == ["0:2", "1:1"]


def test_streams_have_a_pool_each_or_one_for_all() -> None:
    """Contexts of one internal memory hold one gate, other contexts none."""
    schedule = Streams(2, 25.0, 1, 1.0, 2.0, None)
    contexts = tuple(
        Context(index % 2, 0, internal=index % 2 or None, core=index % 2) for index in range(4)
    )
    told = _told(_plan(*contexts, schedule=schedule), "steady")
    assert ("pools", "2") in told
    assert ("interval_ps", "40000000000") in told
    assert [value for name, value in told if name == "chain"] == ["0", "1", "0", "1"]
    assert [value for name, value in told if name == "turn"] == ["0", "1:0", "2", "3:0"]
    assert ("pools", "1") in _told(_plan(Context(None, 0), schedule=schedule), "steady")


def test_internal_memory_of_a_plan_that_fills() -> None:
    """The first context gets it alone, and each additional one joins."""
    contexts = (Context(0, 0, internal=0, core=0),) * 3
    filling = _plan(*contexts, fills=True)
    assert _told(filling, "internal_memory", 0)[-1:] == [("member", "0")]
    assert _told(filling, "internal_memory", 2)[-1:] == [("join", "0")]
    assert ("may_be_full", "1") in _told(filling, "internal_memory", 2)
    members = [
        value for name, value in _told(_plan(*contexts), "internal_memory", 0) if name == "member"
    ]
    assert members == ["0", "1", "2"]


def test_cycles_ask_for_usage_at_every_step() -> None:
    """They also have the number of inferences, or the context to make."""
    inferring = _plan(Context(0, 0), cycles=Cycles("inferences", 2, 70))
    assert ("usage", "1") in _told(inferring, "imported")
    assert dict(_told(inferring, "cycle"))["inferences"] == "70"
    replacing = _plan(Context(0, 0), Context(0, 0), cycles=Cycles("replaced", 2))
    assert {("mechanism", "load"), ("destroy_first", "1")} <= set(_told(replacing, "cycle"))


def test_frames_are_by_stream() -> None:
    """A row belongs to the stream before it; an unknown heap size is None."""
    line = (
        b"frames\tseconds_ns=1500000000\theap_bytes=-1"
        b"\tstream=1,2\trow=5,6,7\trow=8,9,10\tstream=0,0"
    )
    assert C_PROTOCOL.decode(line) == Frames(
        1.5, (StreamCount(1, 2, ((5, 6, 7), (8, 9, 10))), StreamCount(0, 0, ())), None
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"barrier",
        b"barrier\tphase=imported\tat_ns=soon",
        b"barrier\tphase=context\tat_ns=1\tallocation=input",
        b"frames\tseconds_ns=1\theap_bytes=1\tstream=1",
        b"interface\tinput=zz",
        b"failure\tphase=context",
        b"failure\tphase=context\tcall=rknn_init\tresult=-1\twritten=E RKNN: failed to submit",
    ],
)
def test_a_line_that_is_none(line: bytes) -> None:
    """It is quoted, and does not crash the harness."""
    with pytest.raises(InvalidMessage):
        C_PROTOCOL.decode(line)


def _failure(fields: str) -> DriverFailure:
    failure = C_PROTOCOL.decode(f"failure\tphase=context\tcontext=3\tat_ns=1\t{fields}".encode())
    assert isinstance(failure, DriverFailure)
    assert (failure.phase, failure.context) == ("context", 3)
    return failure


def _call(words: str, *facts: str) -> DriverFailure:
    return _failure("\t".join(("call=rknn_init", "result=-1", f"written=E RKNN: {words}", *facts)))


def test_a_message_with_values_and_a_message_inside() -> None:
    """Texts, numbers, and the values of the inner message."""
    values = (
        "number.code=-3\ttext.one=a\tmessage.reason=no_rknn_version\ttext.reason.architecture=armhf"
    )
    failure = _failure(f"kind=not_supported\tcode=rknn_no_mmz_library\t{values}")
    assert failure.kind == "not_supported"
    reason = Message("no_rknn_version", {"architecture": "armhf"})
    assert failure.message == Message(
        "rknn_no_mmz_library", {"code": -3, "one": "a", "reason": reason}
    )


def test_errors_of_the_system() -> None:
    """They are the exceptions that Python would have raised, such as MemoryError."""
    missing = _failure("errno=2\tpath=/no/model")
    assert missing.kind == "failed"
    assert missing.message.values["type"] == "FileNotFoundError"
    assert _failure("errno=12").kind == "out_of_memory"


def test_a_cause_by_what_the_board_has() -> None:
    """Memory, driver and nodes are the board's, not this machine's."""
    facts = (
        f"meminfo={_MEMINFO}",
        "compatible=rockchip,rk3568\\n",
        "has_driver=1",
        "node=/dev/rknpu",
        "error=2",
    )
    full = _call("failed to malloc npu memory, size: 4096", *facts)
    assert full.kind == "out_of_memory"
    cause = Message("rknn_out_of_memory", {"size": "4096", "cma": 10, "available": 2000})
    assert full.message.values["cause"] == cause
    assert _call("failed to submit", *facts).message.values["cause"] == Message("rknn_beyond_4_gib")
    no_node = _call("failed to open rknpu module, need to insmod", *facts)
    assert no_node.message.values["cause"] == Message("rknn_no_node")
    used_up = _call("failed to malloc npu memory, size: 4096", "descriptors=used up")
    assert used_up.message.values["cause"] == Message("rknn_descriptors_used_up")


def test_nodes_that_the_board_keeps_from_the_user() -> None:
    """Their groups are the board's."""
    render = ("node=/dev/dri/renderD129", "error=13", "allowed=0", "group=render")
    card = ("node=/dev/dri/card1", "error=13", "allowed=0", "group=video")
    nodes = (*render, *card, "node=/dev/rknpu", "error=2")
    failure = _call("failed to open rknpu module, need to insmod", "has_driver=1", *nodes)
    join = Message("rknn_join_group", {"groups": "render,video"})
    paths = "/dev/dri/card1, /dev/dri/renderD129"
    assert failure.message.values["cause"] == Message(
        "rknn_no_permission", {"nodes": paths, "remedy": join}
    )
    words = "Failed to open DMA heap: /dev/dma_heap/system"
    heap = _call(words, "heap=/dev/dma_heap/system", "error=13", "allowed=1")
    remedy = Message("rknn_pass_device", {"node": "/dev/dma_heap/system"})
    assert heap.message.values["cause"] == Message(
        "rknn_no_permission", {"nodes": "/dev/dma_heap/system", "remedy": remedy}
    )
