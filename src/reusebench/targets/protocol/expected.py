"""The messages that each step may send, and the figures that they may have.

The measured process runs a vendor's library, which can write to any of its descriptors and change
any of its memory. So each message is checked against the plan, the step in progress and the clock
of its machine. Everything that the harness does with a message later relies on these checks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from reusebench.measured.messages import Message
from reusebench.measured.plan import INFERENCES, Model, Plan, Step, Streams
from reusebench.measured.runtimes.base import Interface, Preparation, Turn
from reusebench.measured.streams.threads import STAGES
from reusebench.targets.barriers import (
    Barrier,
    DriverFailure,
    Frames,
    StepData,
    StepFailure,
    StreamCount,
)

__all__ = [
    "MOST_PREPARING",
    "FramesCheck",
    "Span",
    "UnexpectedMessage",
    "check_barrier",
    "check_estimated",
    "check_failure",
    "check_interface",
    "check_prepared",
    "unexpected_kind",
]

#: Signs of progress of one preparation: more than any runtime sends.
MOST_PREPARING = 100_000
#: Kinds of failure that a process may report; the other ones are the harness's own findings.
_REPORTED_KINDS = ("failed", "not_supported", "out_of_memory")
_ALLOCATION_KINDS = ("weights", "internal", "input", "output")
#: Numbers are stored with 64 bits.
_MOST = (1 << 63) - 1
_CRC_END = 1 << 32
_NS_PER_S = 10**9
_DIGEST = re.compile(r"[0-9a-f]{8}")
_NAME = re.compile(r"[a-z0-9_]{1,64}")
_MOST_VERSION_CHARACTERS = 500
#: Characters of an unexpected value that are shown.
_SHOWN_CHARACTERS = 100
#: Sizes of a failure's message: values, levels of messages in messages, characters in all.
_MOST_VALUES = 100
_MOST_LEVELS = 5
_MOST_CHARACTERS = 1 << 16
#: Allocations of one context, components of its account, and samples of one output.
_MOST_ALLOCATIONS = 10_000
_MOST_COMPONENTS = 100
_MOST_SAMPLES = 32
#: Names of operators of one model, and the length of one: a model may have operators of its own.
_MOST_OPERATORS = 1000
_LONGEST_OPERATOR = 256
_MOST_OUTPUTS = 10_000
#: Messages of streams come about once a second; a process that was stopped may send fewer.
_SPARE_FRAMES = 10
#: Due times are rounded; so a stream may have one more frame than fits.
_SPARE_DUE = 1
_ROUNDING_S = 1e-3
#: Numbers of a frame that no context takes: its due time, and the stages up to decoding.
_DECODED_ROW = 3
#: Dimensions of a tensor, and tensors of a model.
_MOST_DIMENSIONS = 64
_MOST_TENSORS = 100_000

#: Phase to the fields that its data may have.
_FIELDS: Mapping[str, frozenset[str]] = {
    "imported": frozenset({"python_version", "runtime_version", "driver_version"}),
    "decoders": frozenset(),
    "context": frozenset(
        {"load_ns", "runtime_version", "driver_version", "account", "allocations"}
    ),
    "internal_memory": frozenset({"allocations"}),
    "first_inference": frozenset(
        {
            "latency_ns",
            "digest",
            "copies",
            "samples",
            "placement",
            "account",
            "allocations",
            "turns",
        }
    ),
    "steady": frozenset({"elapsed_ns", "latencies_ns", "digests", "turns"}),
    "cycle": frozenset({"digest"}),
    "trimmed": frozenset({"trimmed"}),
    "decoders_closed": frozenset(),
    "destroy": frozenset(),
    "full": frozenset({"failure"}),
}
_STREAM_FIELDS = frozenset({"begin_ns", "seconds", "frame_checksums", "unequal_frames"})
_NO_DATA = StepData()


class UnexpectedMessage(Exception):
    """A message that the step in progress cannot have sent."""

    def __init__(self, problem: Message) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Span(NamedTuple):
    """The time in which a message must have been written, by the clock of its machine."""

    begin_ns: int
    end_ns: int

    def check(self, field: str, at_ns: int) -> None:
        """Raise UnexpectedMessage if the time is outside."""
        if not self.begin_ns <= at_ns <= self.end_ns:
            message = Message(
                "protocol_other_time",
                {"field": field, "value": at_ns, "begin": self.begin_ns, "end": self.end_ns},
            )
            raise UnexpectedMessage(message)

    def check_duration(self, field: str, duration_ns: int) -> None:
        """Raise UnexpectedMessage unless the duration fits; everything takes some time."""
        if not 0 < duration_ns <= self.end_ns - self.begin_ns:
            raise _impossible(field, duration_ns)


def unexpected_kind(message: msgspec.Struct, expected: str) -> UnexpectedMessage:
    """Return the error for a message of another kind."""
    kind = str(message.__struct_config__.tag)
    return UnexpectedMessage(Message("protocol_other_kind", {"kind": kind, "expected": expected}))


def _impossible(field: str, value: object) -> UnexpectedMessage:
    shown = repr(value)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "..."
    return UnexpectedMessage(Message("protocol_impossible", {"field": field, "value": shown}))


def _require(condition: bool, field: str, value: object) -> None:
    if not condition:
        raise _impossible(field, value)


def _check_step(phase: str, context: int | None, step: Step) -> None:
    if (phase, context) != step:
        steps = {"step": _words_of(phase, context), "expected": _words_of(*step)}
        raise UnexpectedMessage(Message("protocol_other_step", steps))


def _words_of(phase: str, context: int | None) -> str:
    phase = phase[:_SHOWN_CHARACTERS]
    return phase if context is None else f"{phase} {context}"


# Failures


def check_failure(message: DriverFailure, step: Step) -> None:
    """Raise UnexpectedMessage unless the step may fail so."""
    if step.phase == "trimmed":  # the process still stands at the barrier of the steady phase
        step = Step("steady")
    _check_step(message.phase, message.context, step)
    _check_reason(message.kind, message.message)


def _check_reason(kind: str, message: Message) -> None:
    _require(kind in _REPORTED_KINDS, "kind", kind)
    _require(_characters(message) <= _MOST_CHARACTERS, "message", message.code)


def _characters(message: Message, level: int = 1) -> int:
    """Return the length of all texts of a message; raise UnexpectedMessage if it is no message."""
    _require(level <= _MOST_LEVELS, "message", message.code)
    _require(len(message.values) <= _MOST_VALUES, "message", message.code)
    characters = len(message.code)
    for name, value in message.values.items():
        characters += len(name)
        if isinstance(value, Message):
            characters += _characters(value, level + 1)
        elif isinstance(value, str):
            characters += len(value)
        else:
            _require(abs(value) <= _MOST, "message", message.code)
    return characters


# Barriers


def check_barrier(barrier: Barrier, plan: Plan, step: Step, contexts: int, span: Span) -> None:
    """Raise UnexpectedMessage unless the barrier may end the step.

    `contexts` is the number of contexts that have run; `span` is from when the step was begun to
    now.
    """
    data = barrier.data
    if barrier.phase == "full" and plan.may_be_full_at(step):
        _check_step(barrier.phase, barrier.context, Step("full", step.context))
        _check_step_failure(data.failure, step)
    else:
        _check_step(barrier.phase, barrier.context, step)
    span.check("at_ns", barrier.at_ns)
    _check_fields(data, barrier.phase, plan)
    _check_numbers(data)
    _check_versions(data)
    _check_memory(data)

    step_span = Span(span.begin_ns, barrier.at_ns)
    if barrier.phase == "context":
        step_span.check_duration("load_ns", data.load_ns)
    elif barrier.phase == "first_inference":
        _check_first_inference(data, plan, step, step_span)
    elif barrier.phase == "steady" and plan.schedule is None:
        _check_rounds(data, plan, contexts, step_span)
    elif barrier.phase == "steady" and plan.schedule is not None:
        _check_streams(data, plan, plan.schedule, step_span)
    elif barrier.phase == "cycle" and plan.cycles is not None:
        is_inference = plan.cycles.kind == INFERENCES
        _require(bool(_DIGEST.fullmatch(data.digest)) != is_inference, "digest", data.digest)


def _check_step_failure(failure: StepFailure | None, step: Step) -> None:
    if failure is None:
        raise _impossible("failure", failure)
    _require(failure.phase == step.phase, "failure.phase", failure.phase)
    _require(failure.kind != "not_supported", "failure.kind", failure.kind)
    _check_reason(failure.kind, failure.message)


def _check_fields(data: StepData, phase: str, plan: Plan) -> None:
    """Check that the step has no figures of another one."""
    allowed = _FIELDS[phase]
    if phase == "steady" and plan.schedule is not None:
        allowed = _STREAM_FIELDS
    for name in data.__struct_fields__:
        value = getattr(data, name)
        if name == "usage":
            has_usage = plan.cycles is not None and phase != "trimmed"
            _require((value is not None) == has_usage, name, value)
        elif value != getattr(_NO_DATA, name):
            _require(name in allowed, name, value)


def _check_numbers(data: StepData) -> None:
    """Check that all numbers can be stored, and none is negative."""
    figures = msgspec.structs.replace(data, failure=None, samples=())
    for name, value in msgspec.to_builtins(figures).items():
        for number in _numbers_of(value):
            _require(0 <= number <= _MOST, name, number)  # false if it is not a number


def _numbers_of(value: Any) -> Iterable[float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _numbers_of(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _numbers_of(inner)


def _check_versions(data: StepData) -> None:
    for name in ("python_version", "runtime_version", "driver_version"):
        version = getattr(data, name) or ""
        _require(len(version) <= _MOST_VERSION_CHARACTERS, name, version)


def _check_account(account: Mapping[str, int]) -> None:
    _require(len(account) <= _MOST_COMPONENTS, "account", account)
    for name in account:
        _require(bool(_NAME.fullmatch(name)), "account", name)


def _check_memory(data: StepData) -> None:
    _check_account(data.account)
    _require(len(data.allocations) <= _MOST_ALLOCATIONS, "allocations", len(data.allocations))
    for allocation in data.allocations:
        _require(allocation.kind in _ALLOCATION_KINDS, "allocations", allocation.kind)


def _check_first_inference(data: StepData, plan: Plan, step: Step, span: Span) -> None:
    span.check_duration("latency_ns", data.latency_ns)
    _check_digest("digest", data.digest)
    _require(data.copies is not None, "copies", data.copies)
    has_samples = step.context is not None and plan.is_first_of_model(step.context)
    most_outputs = _MOST_OUTPUTS if has_samples else 0
    _require(len(data.samples) <= most_outputs, "samples", len(data.samples))
    for values in data.samples:
        _require(len(values) <= _MOST_SAMPLES, "samples", len(values))
        is_finite = all(value is None or math.isfinite(value) for value in values)
        _require(is_finite, "samples", values)
    _require(has_samples or data.placement is None, "placement", data.placement)
    if data.placement is not None:
        _check_operators("placement.npu", data.placement.npu)
        _check_operators("placement.cpu", data.placement.cpu)
    _check_turns(data.turns, plan, [[data.latency_ns]])


def _check_operators(field: str, counts: Mapping[str, int]) -> None:
    _require(len(counts) <= _MOST_OPERATORS, field, len(counts))
    for name, count in counts.items():
        _require(len(name) <= _LONGEST_OPERATOR, field, name)
        _require(count > 0, field, count)


def _check_turns(
    turns: Sequence[Sequence[Turn]], plan: Plan, longest_ns: Sequence[Sequence[int]]
) -> None:
    """Check that each inference of a language model is one turn, with the longest time of each."""
    conversation = plan.conversation
    if conversation is None:
        _require(not turns, "turns", turns)
        return
    _require(len(turns) == len(longest_ns), "turns", len(turns))
    for of_context, limits_ns in zip(turns, longest_ns):
        _require(len(of_context) == len(limits_ns), "turns", len(of_context))
        for turn, limit_ns in zip(of_context, limits_ns):
            _require(1 <= turn.prompt_tokens <= conversation.prompt, "turns", turn)
            _require(1 <= turn.generated_tokens <= conversation.generated, "turns", turn)
            _require(turn.first_token_ns > 0, "turns", turn)
            _require(turn.first_token_ns + turn.generation_ns <= limit_ns, "turns", turn)


def _check_digest(field: str, digest: str) -> None:
    _require(bool(_DIGEST.fullmatch(digest)), field, digest)


def _check_rounds(data: StepData, plan: Plan, contexts: int, span: Span) -> None:
    """Check that each context has run every round; inferences of one context never overlap."""
    span.check_duration("elapsed_ns", data.elapsed_ns)
    _require(len(data.latencies_ns) == contexts, "latencies_ns", data.latencies_ns)
    for latencies_ns in data.latencies_ns:
        _require(len(latencies_ns) == plan.rounds, "latencies_ns", latencies_ns)
        _require(min(latencies_ns) > 0, "latencies_ns", min(latencies_ns))
        _require(sum(latencies_ns) <= data.elapsed_ns, "latencies_ns", sum(latencies_ns))
    _require(len(data.digests) == contexts, "digests", data.digests)
    for digest in data.digests:
        _check_digest("digests", digest)
    _check_turns(data.turns, plan, data.latencies_ns)


def _check_streams(data: StepData, plan: Plan, schedule: Streams, span: Span) -> None:
    # The steady state begins after the warm-up, which Ctrl-C may have cut short.
    warm_up_ns = round(schedule.warm_up_s * _NS_PER_S)
    span.check("begin_ns", data.begin_ns - warm_up_ns)
    passed_s = max(0.0, (span.end_ns - data.begin_ns) / _NS_PER_S)
    most_s = min(schedule.duration_s, passed_s) + _ROUNDING_S
    _require(0.0 <= data.seconds <= most_s, "seconds", data.seconds)
    models = len(plan.models)
    _require(len(data.frame_checksums) == models, "frame_checksums", len(data.frame_checksums))
    _require(len(data.unequal_frames) == models, "unequal_frames", data.unequal_frames)
    for checksums in data.frame_checksums:
        for frame, checksum in checksums.items():
            _require(frame.isdecimal() and frame.isascii(), "frame_checksums", frame)
            _require(checksum < _CRC_END, "frame_checksums", checksum)


# Frames


class FramesCheck:
    """Checks the messages of one steady phase of streams."""

    def __init__(self, plan: Plan, schedule: Streams) -> None:
        self._schedule = schedule
        #: Without contexts a frame is done when it is decoded.
        self._row_length = 1 + len(STAGES) if plan.contexts else _DECODED_ROW
        self._most_messages = schedule.warm_up_s + schedule.duration_s + _SPARE_FRAMES
        self._most_due = math.inf
        if schedule.fps:
            self._most_due = schedule.fps * schedule.duration_s + _SPARE_DUE
        self._messages = 0
        self._seconds = 0.0
        self._lost = [(0, 0)] * schedule.count
        self._done = [0] * schedule.count
        self._first_due_ns = _MOST
        self._last_due_ns = 0

    def check(self, frames: Frames, span: Span) -> None:
        """Raise UnexpectedMessage unless the message may come after those before it."""
        self._messages += 1
        _require(self._messages <= self._most_messages, "frames", self._messages)
        passed_s = (span.end_ns - span.begin_ns) / _NS_PER_S
        most_s = min(self._schedule.duration_s, passed_s) + _ROUNDING_S
        _require(self._seconds <= frames.seconds <= most_s, "seconds", frames.seconds)
        self._seconds = frames.seconds
        heap_bytes = frames.heap_bytes or 0
        _require(0 <= heap_bytes <= _MOST, "heap_bytes", heap_bytes)
        _require(len(frames.streams) == self._schedule.count, "streams", len(frames.streams))
        for stream, count in enumerate(frames.streams):
            self._check_count(stream, count, span)

    def check_end(self, data: StepData, interrupted: bool) -> None:
        """Raise UnexpectedMessage unless the barrier is the end of these messages."""
        is_whole = data.seconds >= self._schedule.duration_s - _ROUNDING_S
        is_same = self._messages > 0 and abs(data.seconds - self._seconds) <= _ROUNDING_S
        _require(is_same and (interrupted or is_whole), "seconds", data.seconds)
        if self._last_due_ns:
            end_ns = data.begin_ns + round(self._schedule.duration_s * _NS_PER_S)
            due_ns = [self._first_due_ns, self._last_due_ns]
            _require(data.begin_ns <= due_ns[0] and due_ns[1] <= end_ns, "rows", due_ns)

    def _check_count(self, stream: int, count: StreamCount, span: Span) -> None:
        dropped, missed = self._lost[stream]
        _require(dropped <= count.dropped <= _MOST, "dropped", count.dropped)
        _require(missed <= count.missed <= _MOST, "missed", count.missed)
        self._lost[stream] = (count.dropped, count.missed)
        self._done[stream] += len(count.rows)
        due = self._done[stream] + count.dropped + count.missed
        _require(due <= self._most_due, "rows", due)
        for row in count.rows:
            _require(len(row) == self._row_length and min(row) >= 0, "rows", row)
            span.check("rows", row[0])
            span.check("rows", sum(row))
            self._first_due_ns = min(self._first_due_ns, row[0])
            self._last_due_ns = max(self._last_due_ns, row[0])


# Conversations that are not measured


def check_prepared(
    prepared: Mapping[str, Preparation | None], models: Sequence[Model], folder: str
) -> None:
    """Raise UnexpectedMessage unless every model is prepared, by itself or by a file in `folder`.

    The sandbox lets later processes read these files, so no other path may be named.
    """
    paths = {model.digest: model.path for model in models}
    _require(prepared.keys() == paths.keys(), "models", sorted(prepared))
    for digest, preparation in prepared.items():
        if preparation is None:
            continue
        path = preparation.path
        is_inside = path.startswith(folder + "/") and ".." not in path.split("/")
        _require("\0" not in path, "path", path)
        _require(path == paths[digest] or is_inside, "path", path)
        order = preparation.node_order
        if order is None:
            continue
        for number in (order.tried, order.saved_bytes or 0, order.chosen_bytes or 0):
            _require(0 <= number <= _MOST, "node_order", number)
        if order.reason is not None:
            _check_reason("failed", order.reason)


def check_estimated(accounts: Sequence[Sequence[Mapping[str, int]]], plans: Sequence[Plan]) -> None:
    """Raise UnexpectedMessage unless each context of the plans has an account."""
    _require(len(accounts) == len(plans), "accounts", len(accounts))
    for of_plan, plan in zip(accounts, plans):
        _require(len(of_plan) == len(plan.contexts), "accounts", len(of_plan))
        for account in of_plan:
            _check_account(account)
            _require(all(0 <= size <= _MOST for size in account.values()), "accounts", account)


def check_interface(interface: Interface) -> None:
    """Raise UnexpectedMessage unless it may be the interface of a model."""
    tensors = (*interface.inputs, *interface.outputs)
    _require(len(tensors) <= _MOST_TENSORS, "interface", len(tensors))
    for tensor in tensors:
        dimensions = tensor.dimensions
        _require(len(dimensions) <= _MOST_DIMENSIONS, tensor.name, len(dimensions))
        sizes = [size for size in dimensions if isinstance(size, int)]
        _require(all(0 <= size <= _MOST for size in sizes), tensor.name, dimensions)
    for shapes in interface.shapes:
        _require(len(shapes) == len(interface.inputs), "shapes", shapes)
        for shape, tensor in zip(shapes, interface.inputs):
            _require(len(shape) == len(tensor.dimensions), "shapes", shape)
            _require(all(0 <= size <= _MOST for size in shape), "shapes", shape)
