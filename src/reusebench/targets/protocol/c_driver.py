"""What the driver in C is told, a line for each step, and what it answers.

A line is fields between tabs: its kind, then NAME=VALUE each. In a value tab, newline and backslash
are escaped. The driver knows neither plans nor texts: a step's line has all that the step needs,
and a failure's line what a message is made of, so that nothing behind this module knows which
driver ran.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from functools import partial

from reusebench.measured.failures import kind_of, message_of
from reusebench.measured.messages import Message, Value
from reusebench.measured.plan import (
    INFERENCES,
    INFERENCES_PER_CYCLE,
    IO_MEMORY,
    REPLACED,
    SHARED_WEIGHTS,
    Context,
    Model,
    Plan,
    Step,
    Streams,
)
from reusebench.measured.runtimes.base import AdapterError, Allocation, Copies, NotSupported
from reusebench.measured.runtimes.rknn.abi import TensorAttr
from reusebench.measured.runtimes.rknn.attributes import declared_interface
from reusebench.measured.runtimes.rknn.binding import call_failed, error_lines
from reusebench.measured.runtimes.rknn.device import Node, heap_not_opened, not_opened
from reusebench.measured.runtimes.rknn.diagnosis import (
    MachineFacts,
    cause_of,
    memory_mib_of,
    names_rk356x,
)
from reusebench.measured.streams.threads import BEGIN_WITHIN_S
from reusebench.targets.barriers import (
    Barrier,
    Described,
    DriverFailure,
    DriverMessage,
    Frames,
    StepData,
    StepFailure,
    StreamCount,
    Usage,
)
from reusebench.targets.protocol.base import C, InvalidMessage
from reusebench.targets.protocol.fields import Fields, read_line, write_line

__all__ = ["C_PROTOCOL", "CDriverProtocol"]

_PS_PER_S = 10**12
_NS_PER_S = 10**9
_ERROR_TEXT_CHARACTERS = 200

_Pairs = list[tuple[str, object]]


class CDriverProtocol:
    """The protocol with the driver in C."""

    driver = C

    def begin(self, _plan: Plan) -> bytes:
        """Return nothing: the first step's line begins the walk."""
        return b""

    def step(self, plan: Plan, step: Step) -> bytes:
        """Return the line of a step."""
        pairs: _Pairs = []
        if step.context is not None:
            pairs.append(("context", step.context))
        if plan.cycles is not None:
            pairs.append(("usage", 1))
        if plan.may_be_full_at(step):
            pairs.append(("may_be_full", 1))
        if step.phase in _STEPS:
            pairs += _STEPS[step.phase](plan, step)
        return write_line(step.phase, pairs)

    def inspect(self, _runtime: str, model: str) -> bytes:
        """Return the line that asks for the interface of a model file."""
        return write_line("inspect", [("path", model)])

    def decode(self, line: bytes) -> DriverMessage:
        """Return the message of a line."""
        kind, fields = read_line(line)
        try:
            return _MESSAGES[kind](fields)
        except (KeyError, ValueError):
            raise InvalidMessage(repr(line[:_ERROR_TEXT_CHARACTERS])) from None


C_PROTOCOL = CDriverProtocol()


# Steps


def _imported(plan: Plan, _step: Step) -> _Pairs:
    pairs: _Pairs = []
    if plan.fills:
        pairs.append(("small_stacks", 1))
    if plan.cycles is not None:
        pairs.append(("cycles", 1))
    return pairs


def _context(plan: Plan, step: Step) -> _Pairs:
    assert step.context is not None
    return _description(plan, step.context)


def _description(plan: Plan, index: int) -> _Pairs:
    """Return what a context is made from, what it is fed with, and the context whose thread it
    shares.
    """
    spec = plan.contexts[index]
    model = plan.models[spec.model]
    pairs: _Pairs = [
        ("mechanism", spec.mechanism),
        ("path", _path(spec, model)),
        ("allocator", spec.allocator),
    ]
    pairs += [("outside", ",".join(spec.outside)), ("zero_copy", ",".join(spec.zero_copy))]
    # On one core there is none to choose.
    core = spec.core if plan.cores > 1 else None
    optional = {
        "source": spec.source,
        "internal": spec.internal,
        "io": spec.io,
        "device": spec.device,
        "core": core,
    }
    pairs += [(name, value) for name, value in optional.items() if value is not None]
    if spec.device_io:
        pairs.append(("device_io", 1))
    pairs += [("option", option) for option in plan.options_of(index)]
    pairs += [("worker", other) for other in plan.chain_of(index) if other < index][:1]
    for tensor in model.inputs:
        pairs += [
            ("input", tensor.name),
            ("type", tensor.type),
            ("shape", ",".join(map(str, tensor.shape))),
        ]
        pairs += [("file", tensor.file)] if tensor.file is not None else []
        pairs += [("value", tensor.value)] if tensor.value is not None else []
    return pairs


def _path(spec: Context, model: Model) -> str:
    """Return the file that the context is made from, as scenarios.driver and the adapter choose
    it.
    """
    if spec.mechanism == SHARED_WEIGHTS:
        return model.prepared or model.weightless or model.path
    return model.path


def _internal_memory(plan: Plan, step: Step) -> _Pairs:
    """Return the contexts that get one memory, or the one whose memory a further context of a plan
    that fills joins.
    """
    for first, *others in plan.internal_memories().values():
        if step.context in others:
            return [("join", first)]
        if step.context == first:
            members = [first] if plan.fills else [first, *others]
            return [("member", member) for member in members]
    return []


def _first_inference(plan: Plan, step: Step) -> _Pairs:
    assert step.context is not None
    return [("samples", 1)] if plan.is_first_of_model(step.context) else []


def _steady(plan: Plan, _step: Step) -> _Pairs:
    return _rounds(plan) if plan.schedule is None else _streams(plan, plan.schedule)


def _rounds(plan: Plan) -> _Pairs:
    """Return the chains, each context with its gate: the first is that of any core, then one for
    each core.
    """
    pairs: _Pairs = [("rounds", plan.rounds), ("gate", plan.cores), *[("gate", 1)] * plan.cores]
    for chain in plan.all_chains():
        pairs.append(("chain", 0))
        for index in chain:
            core = plan.contexts[index].core
            pairs.append(("turn", f"{index}:{0 if core is None else core + 1}"))
    return pairs


def _streams(plan: Plan, schedule: Streams) -> _Pairs:
    """Return the schedule, and the chains with the stream that each serves; contexts of one memory
    have one gate.
    """
    gates = {}
    for gate, members in enumerate(plan.internal_memories().values()):
        gates.update(dict.fromkeys(members, gate))
    serves_all = bool(plan.contexts) and plan.contexts[0].stream is None
    pairs: _Pairs = [
        ("streams", schedule.count),
        ("interval_ps", round(_PS_PER_S / schedule.fps) if schedule.fps else 0),
        ("apart_ns", round(min(BEGIN_WITHIN_S, schedule.warm_up_s) / schedule.count * _NS_PER_S)),
        ("queue", schedule.queue),
        ("warm_up_ns", round(schedule.warm_up_s * _NS_PER_S)),
        ("duration_ns", round(schedule.duration_s * _NS_PER_S)),
        ("models", len(plan.models)),
        ("pools", 1 if serves_all else schedule.count),
        *[("gate", 1)] * len(plan.internal_memories()),
    ]
    for chain in plan.all_chains():
        pairs.append(("chain", plan.contexts[chain[0]].stream or 0))
        pairs += [
            ("turn", f"{index}:{gates[index]}" if index in gates else index) for index in chain
        ]
    return pairs


def _cycle(plan: Plan, _step: Step) -> _Pairs:
    assert plan.cycles is not None
    if plan.cycles.kind == INFERENCES:
        return [("inferences", INFERENCES_PER_CYCLE)]
    if plan.cycles.kind == IO_MEMORY:
        return []
    pairs = _description(plan, len(plan.contexts) - 1)
    return [*pairs, ("destroy_first", 1)] if plan.cycles.kind == REPLACED else pairs


_STEPS: dict[str, Callable[[Plan, Step], _Pairs]] = {
    "imported": _imported,
    "context": _context,
    "internal_memory": _internal_memory,
    "first_inference": _first_inference,
    "steady": _steady,
    "cycle": _cycle,
}


# Messages


def _barrier(fields: Fields) -> Barrier:
    phase = fields.text("phase")
    context = fields.optional_number("context")
    return Barrier(phase, context, fields.number("at_ns"), _step_data(fields))


def _step_data(fields: Fields) -> StepData:
    return StepData(
        runtime_version=fields.get("runtime_version"),
        driver_version=fields.get("driver_version"),
        load_ns=fields.number("load_ns", 0),
        account={name: fields.number(name) for name in _ACCOUNT if fields.get(name) is not None},
        allocations=tuple(map(_allocation, fields.all("allocation"))),
        latency_ns=fields.number("latency_ns", 0),
        digest=fields.get("digest") or "",
        # No output of Rockchip's runtime is of floats to the application.
        samples=((),) * fields.number("samples", 0),
        copies=(
            Copies(*map(int, fields.text("copies").split(","))) if fields.get("copies") else None
        ),
        elapsed_ns=fields.number("elapsed_ns", 0),
        latencies_ns=tuple(map(_numbers, fields.all("latencies_ns"))),
        digests=tuple(fields.all("digests")),
        begin_ns=fields.number("begin_ns", 0),
        seconds=fields.number("seconds_ns", 0) / _NS_PER_S,
        # Nothing is decoded, so no frame of a clip is known.
        frame_checksums=({},) * fields.number("models", 0),
        unequal_frames=(0,) * fields.number("models", 0),
        trimmed=bool(fields.number("trimmed", 0)),
        usage=_usage(fields) if fields.get("fds") else None,
        failure=_step_failure(fields) if fields.get("failed_phase") else None,
    )


_ACCOUNT = ("weights_bytes", "internal_bytes", "dma_bytes")


def _allocation(text: str) -> Allocation:
    kind, asked_bytes, inode = text.split(",")
    return Allocation(kind, int(asked_bytes), int(inode))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _usage(fields: Fields) -> Usage:
    counts = (fields.number(name) for name in ("fds", "mappings", "threads"))
    return Usage(fields.number("allocated_bytes"), _heap_bytes(fields), *counts)


def _heap_bytes(fields: Fields) -> int | None:
    heap_bytes = fields.number("heap_bytes")
    return heap_bytes if heap_bytes >= 0 else None


def _frames(fields: Fields) -> Frames:
    counts = []
    for group in fields.groups("stream"):
        dropped, missed = _numbers(group.text("stream"))
        counts.append(StreamCount(dropped, missed, tuple(map(_numbers, group.all("row")))))
    return Frames(fields.number("seconds_ns") / _NS_PER_S, tuple(counts), _heap_bytes(fields))


def _interface(fields: Fields) -> Described:
    inputs, outputs = (list(map(_attribute, fields.all(name))) for name in ("input", "output"))
    of_inputs = [[_numbers(shape) for shape in text.split(";")] for text in fields.all("shapes")]
    return Described(declared_interface(inputs, outputs, tuple(zip(*of_inputs))))


def _attribute(digits: str) -> TensorAttr:
    return TensorAttr.from_buffer_copy(bytes.fromhex(digits))


# Failures


def _driver_failure(fields: Fields) -> DriverFailure:
    kind, message = _kind_and_message(fields)
    return DriverFailure(fields.text("phase"), fields.optional_number("context"), kind, message)


def _step_failure(fields: Fields) -> StepFailure:
    return StepFailure(fields.text("failed_phase"), *_kind_and_message(fields))


def _kind_and_message(fields: Fields) -> tuple[str, Message]:
    error = _error(fields)
    return kind_of(error), message_of(error)


def _error(fields: Fields) -> Exception:
    """Return what the driver in Python would have raised."""
    if fields.get("errno"):
        code = fields.number("errno")
        return (
            MemoryError()
            if code == errno.ENOMEM
            else OSError(code, os.strerror(code), fields.get("path"))
        )
    error = (
        _call_error(fields)
        if fields.get("call")
        else AdapterError(fields.text("code"), **_values(fields))
    )
    if fields.get("kind") == "not_supported":
        return NotSupported(error.message.code, **error.message.values)
    return error


def _call_error(fields: Fields) -> AdapterError:
    lines = error_lines(fields.get("written") or "")
    cause = (
        _descriptors_used_up
        if fields.get("descriptors")
        else partial(cause_of, machine=_Told(fields))
    )
    return call_failed(fields.text("call"), fields.number("result"), lines, cause)


def _descriptors_used_up(_words: str) -> Message:
    return Message("rknn_descriptors_used_up")


def _values(fields: Fields) -> dict[str, Value]:
    """Return the values of a message: those of a message inside it have its name before theirs."""
    values: dict[str, Value] = {}
    for name, text in fields:
        kind, _, path = name.partition(".")
        name, _, inner = path.partition(".")
        if kind == "message":
            values[name] = Message(text)
        elif inner and kind == "text":
            outer = values[name]
            assert isinstance(outer, Message)
            values[name] = Message(outer.code, {**outer.values, inner: text})
        elif kind in ("text", "number"):
            values[name] = text if kind == "text" else int(text)
    return values


class _Told(MachineFacts):
    """The driver's machine, as it was when a call failed there."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def memory_mib(self) -> dict[str, int]:
        """Return the figures of /proc/meminfo."""
        return memory_mib_of(self._fields.text("meminfo"))

    def is_rk356x(self) -> bool:
        """Whether it is an RK3566 or RK3568."""
        return names_rk356x(self._fields.text("compatible").encode())

    def device_not_opened(self) -> Message:
        """Return why the library cannot open the NPU."""
        nodes = [node for node in self._nodes("node") if node.error != errno.ENOENT]
        return not_opened(sorted(nodes, key=_order), self._fields.number("has_driver") == 1)

    def heap_not_opened(self, path: str) -> Message:
        """Return why the library cannot open a heap that it allocates from."""
        (heap,) = self._nodes("heap")
        return heap_not_opened(heap._replace(path=path))

    def _nodes(self, kind: str) -> Iterable[Node]:
        for group in self._fields.groups(kind):
            allowed = bool(group.number("allowed", 0))
            yield Node(group.text(kind), group.number("error"), allowed, group.get("group") or "")


def _order(node: Node) -> tuple[bool, str]:
    """Put the node of the driver itself before those of DRM."""
    return "/dri/" in node.path, node.path


_MESSAGES: dict[str, Callable[[Fields], DriverMessage]] = {
    "barrier": _barrier,
    "failure": _driver_failure,
    "frames": _frames,
    "interface": _interface,
}
