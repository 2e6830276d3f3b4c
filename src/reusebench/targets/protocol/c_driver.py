"""The protocol of the C driver: a line of fields for each step, and one for each answer.

The driver knows neither plans nor texts. The line of a step has all that the step needs, and the
line of a failure has the parts of its message, so nothing outside this module depends on the driver
that ran.
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
    IO_MEMORY,
    REPLACED,
    SHARED_WEIGHTS,
    Context,
    Model,
    Plan,
    Step,
    Streams,
)
from reusebench.measured.runtimes.base import (
    AdapterError,
    Allocation,
    Copies,
    InputData,
    NotSupported,
)
from reusebench.measured.runtimes.device_nodes import Node
from reusebench.measured.runtimes.rknn.abi import TensorAttr
from reusebench.measured.runtimes.rknn.attributes import declared_interface
from reusebench.measured.runtimes.rknn.binding import call_failed, error_lines
from reusebench.measured.runtimes.rknn.device import heap_not_opened, not_opened
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
_MOST_COUNTED = 10_000

_Pairs = list[tuple[str, object]]


class CDriverProtocol:
    """The protocol of the C driver."""

    driver = C

    def begin(self, _plan: Plan) -> bytes:
        """Return nothing: the line of the first step begins the walk."""
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
        except (LookupError, ValueError, TypeError, ArithmeticError):
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
    """Return the file and inputs of a context, and the context whose thread it shares."""
    spec = plan.contexts[index]
    model = plan.models[spec.model]
    pairs: _Pairs = [
        ("mechanism", spec.mechanism),
        ("path", _path(spec, model)),
        ("allocator", spec.allocator),
        ("outside", ",".join(spec.outside)),
        ("zero_copy", ",".join(spec.zero_copy)),
    ]
    optional = {
        "source": spec.source,
        "internal": spec.internal,
        "io": spec.io,
        "device": spec.device,
        # There is no choice if there is only one core.
        "core": spec.core if plan.cores > 1 else None,
    }
    pairs += [(name, value) for name, value in optional.items() if value is not None]
    if spec.device_io:
        pairs.append(("device_io", 1))
    pairs += [("option", option) for option in plan.options_of(index)]

    earlier = [other for other in plan.chain_of(index) if other < index]
    if earlier:
        pairs.append(("worker", earlier[0]))
    for tensor in model.inputs:
        pairs += _input(tensor)
    return pairs


def _input(tensor: InputData) -> _Pairs:
    pairs: _Pairs = [
        ("input", tensor.name),
        ("type", tensor.type),
        ("shape", ",".join(map(str, tensor.shape))),
    ]
    if tensor.file is not None:
        pairs.append(("file", tensor.file))
    if tensor.value is not None:
        pairs.append(("value", tensor.value))
    return pairs


def _path(spec: Context, model: Model) -> str:
    """Return the file of the context, the one that the Python driver's adapter would open."""
    if spec.mechanism == SHARED_WEIGHTS:
        return model.prepared or model.weightless or model.path
    return model.path


def _internal_memory(plan: Plan, step: Step) -> _Pairs:
    """Return the contexts that get one internal memory, or the context whose memory is joined.

    In plans that add contexts until one fails, each additional context joins the first.
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
    """Return the chains, each context with its gate.

    The first gate is for contexts that may run on any core; then there is one for each core.
    """
    pairs: _Pairs = [("rounds", plan.rounds), ("gate", plan.cores), *[("gate", 1)] * plan.cores]
    for chain in plan.all_chains():
        pairs.append(("chain", 0))
        for index in chain:
            core = plan.contexts[index].core
            gate = 0 if core is None else core + 1
            pairs.append(("turn", f"{index}:{gate}"))
    return pairs


def _streams(plan: Plan, schedule: Streams) -> _Pairs:
    """Return the schedule, and the chains with the stream that each serves.

    Contexts with one internal memory have one gate.
    """
    gates = {}
    for gate, members in enumerate(plan.internal_memories().values()):
        gates.update(dict.fromkeys(members, gate))
    serves_all = bool(plan.contexts) and plan.contexts[0].stream is None
    interval_ps = round(_PS_PER_S / schedule.fps) if schedule.fps else 0
    apart_s = min(BEGIN_WITHIN_S, schedule.warm_up_s) / schedule.count
    pairs: _Pairs = [
        ("streams", schedule.count),
        ("interval_ps", interval_ps),
        ("apart_ns", round(apart_s * _NS_PER_S)),
        ("queue", schedule.queue),
        ("warm_up_ns", round(schedule.warm_up_s * _NS_PER_S)),
        ("duration_ns", round(schedule.duration_s * _NS_PER_S)),
        ("models", len(plan.models)),
        ("pools", 1 if serves_all else schedule.count),
        *[("gate", 1)] * len(plan.internal_memories()),
    ]
    for chain in plan.all_chains():
        pairs.append(("chain", plan.contexts[chain[0]].stream or 0))
        for index in chain:
            pairs.append(("turn", f"{index}:{gates[index]}" if index in gates else index))
    return pairs


def _cycle(plan: Plan, _step: Step) -> _Pairs:
    assert plan.cycles is not None
    if plan.cycles.kind == INFERENCES:
        return [("inferences", plan.cycles.inferences)]
    if plan.cycles.kind == IO_MEMORY:
        return []
    pairs = _description(plan, len(plan.contexts) - 1)
    if plan.cycles.kind == REPLACED:
        pairs.append(("destroy_first", 1))
    return pairs


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
        # Rockchip's runtime gives the application no outputs of floats.
        samples=((),) * _count(fields, "samples"),
        copies=Copies(*_numbers(fields.text("copies"))) if fields.get("copies") else None,
        elapsed_ns=fields.number("elapsed_ns", 0),
        latencies_ns=tuple(map(_numbers, fields.all("latencies_ns"))),
        digests=tuple(fields.all("digests")),
        begin_ns=fields.number("begin_ns", 0),
        seconds=fields.number("seconds_ns", 0) / _NS_PER_S,
        # This driver decodes no video, so frames have no numbers in a clip.
        frame_checksums=({},) * _count(fields, "models"),
        unequal_frames=(0,) * _count(fields, "models"),
        trimmed=bool(fields.number("trimmed", 0)),
        usage=_usage(fields) if fields.get("fds") else None,
        failure=_step_failure(fields) if fields.get("failed_phase") else None,
    )


_ACCOUNT = ("weights_bytes", "internal_bytes", "dma_bytes")


def _count(fields: Fields, name: str) -> int:
    """Return the number of outputs or models, of which no plan has more than _MOST_COUNTED."""
    count = fields.number(name, 0)
    if not 0 <= count <= _MOST_COUNTED:
        raise ValueError(f"{name} is {count}")
    return count


def _allocation(text: str) -> Allocation:
    kind, asked_bytes, inode = text.split(",")
    return Allocation(kind, int(asked_bytes), int(inode))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _usage(fields: Fields) -> Usage:
    return Usage(
        fields.number("allocated_bytes"),
        _heap_bytes(fields),
        fields.number("fds"),
        fields.number("mappings"),
        fields.number("threads"),
    )


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
    inputs = _attributes(fields.all("input"))
    outputs = _attributes(fields.all("output"))
    shapes_by_input = [list(map(_numbers, text.split(";"))) for text in fields.all("shapes")]
    return Described(declared_interface(inputs, outputs, tuple(zip(*shapes_by_input))))


def _attributes(values: list[str]) -> list[TensorAttr]:
    return [TensorAttr.from_buffer_copy(bytes.fromhex(digits)) for digits in values]


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
    """Return the exception that the Python driver would have raised."""
    if fields.get("errno"):
        code = fields.number("errno")
        if code == errno.ENOMEM:
            return MemoryError()
        return OSError(code, os.strerror(code), fields.get("path"))

    if fields.get("call"):
        error = _call_error(fields)
    else:
        error = AdapterError(fields.text("code"), **_values(fields))
    if fields.get("kind") == "not_supported":
        return NotSupported(error.message.code, **error.message.values)
    return error


def _call_error(fields: Fields) -> AdapterError:
    lines = error_lines(fields.get("written") or "")
    cause: Callable[[str], Message | None] = partial(cause_of, machine=_ReportedMachine(fields))
    if fields.get("descriptors"):
        cause = _descriptors_used_up
    return call_failed(fields.text("call"), fields.number("result"), lines, cause)


def _descriptors_used_up(_words: str) -> Message:
    return Message("rknn_descriptors_used_up")


def _values(fields: Fields) -> dict[str, Value]:
    """Return the values of a message; values of an inner message are prefixed by its name."""
    values: dict[str, Value] = {}
    for name, text in fields:
        kind, _, path = name.partition(".")
        name, _, inner = path.partition(".")
        if kind == "message":
            values[name] = Message(text)
        elif inner and kind == "text":
            outer = values[name]
            if not isinstance(outer, Message):
                raise TypeError(f"{name} is no message")
            values[name] = Message(outer.code, {**outer.values, inner: text})
        elif kind in ("text", "number"):
            values[name] = text if kind == "text" else int(text)
    return values


class _ReportedMachine(MachineFacts):
    """The driver's machine as it reported itself when a call failed."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def memory_mib(self) -> dict[str, int]:
        """Return the figures of /proc/meminfo."""
        return memory_mib_of(self._fields.text("meminfo"))

    def is_rk356x(self) -> bool:
        """Whether it is an RK3566 or RK3568."""
        return names_rk356x(self._fields.text("compatible").encode())

    def device_not_opened(self) -> Message:
        """Return the reason why the library cannot open the NPU."""
        nodes = [node for node in self._nodes("node") if node.error != errno.ENOENT]
        return not_opened(sorted(nodes, key=_order), self._fields.number("has_driver") == 1)

    def heap_not_opened(self, path: str) -> Message:
        """Return the reason why the library cannot open a heap that it allocates from."""
        (heap,) = self._nodes("heap")
        return heap_not_opened(heap._replace(path=path))

    def _nodes(self, kind: str) -> Iterable[Node]:
        for group in self._fields.groups(kind):
            allowed = bool(group.number("allowed", 0))
            yield Node(group.text(kind), group.number("error"), allowed, group.get("group") or "")


def _order(node: Node) -> tuple[bool, str]:
    """Sort the node of the driver itself before the nodes of DRM."""
    return "/dri/" in node.path, node.path


_MESSAGES: dict[str, Callable[[Fields], DriverMessage]] = {
    "barrier": _barrier,
    "failure": _driver_failure,
    "frames": _frames,
    "interface": _interface,
}
