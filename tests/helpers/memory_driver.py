"""A driver without a process: it answers each step with a message in which all is well, unless a
forger changes the bytes that it sends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reusebench.measured.plan import Plan, Step
from reusebench.targets.machine import LocalMachine, Reach
from reusebench.targets.outcome import Ending
from reusebench.targets.process import DriverProcess
from reusebench.targets.protocol.base import PYTHON_PROTOCOL, DriverProtocol
from reusebench.targets.protocol.fields import write_line
from reusebench.targets.target import Target

__all__ = ["Forger", "MemoryDriver", "Message", "encoded", "memory_target", "no_forger"]

Message = dict[str, Any]
#: Returns the bytes to send, given the step and its messages in order.
Forger = Callable[[Step, list[Message]], bytes]

_DIGEST = "0123abcd"
#: Frames of each stream in the steady state of streams.
FRAMES = 2
_NS_PER_S = 10**9


def memory_target(protocol: DriverProtocol, plan: Plan, forge: Forger) -> Target:
    """Return a target whose driver knows the plan."""
    return Target("memory", ("none",), machine=_Machine(protocol, plan, forge), protocol=protocol)


class _Machine(LocalMachine):
    """This machine, on which no process is started."""

    def __init__(self, protocol: DriverProtocol, plan: Plan, forge: Forger) -> None:
        self._driver = (protocol, plan, forge)

    def start(
        self,
        command: tuple[str, ...],  # noqa: ARG002
        folder: Path,  # noqa: ARG002
        environment: Mapping[str, str],  # noqa: ARG002
        keeps_ledger: bool,  # noqa: ARG002
        reach: Reach,  # noqa: ARG002
    ) -> DriverProcess:
        """Return a new driver."""
        return MemoryDriver(*self._driver)


class MemoryDriver:
    """The driver: it answers when it is asked for output."""

    pid = 1

    def __init__(self, protocol: DriverProtocol, plan: Plan, forge: Forger) -> None:
        self._protocol = protocol
        self._plan = plan
        self._forge = forge
        self._steps = plan.steps()
        self.started_ns = time.monotonic_ns()
        #: The step that it has been told to begin.
        self._begun: Step | None = None
        self._has_ended = False

    def send(self, data: bytes, _limit_s: float = 0.0) -> int:
        """Take a command or a word."""
        word = data.rstrip(b"\n")
        is_c = self._protocol is not PYTHON_PROTOCOL
        if word == b"trim":
            self._begun = Step("trimmed")
        # The driver in C is told each step, the one in Python goes on by itself.
        elif not is_c or word not in (b"go", b"stop"):
            self._begun = next(self._steps, None)
            self._has_ended = self._begun is None
        return time.monotonic_ns()

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the messages of the step that it was told to begin."""
        if self._has_ended:
            return b""
        if self._begun is None:
            time.sleep(min(timeout_s, 0.01))
            return None
        step, self._begun = self._begun, None
        return self._forge(step, list(self._messages(step))) or None

    def ending(self) -> Ending:
        """Return an end without an error."""
        return Ending(0, False)

    def last_words(self) -> str:
        """Return nothing."""
        return ""

    def ledger(self) -> bytes | None:
        """Return None: none is kept."""
        return None

    def close(self) -> None:
        """Do nothing."""

    def _messages(self, step: Step) -> Iterator[Message]:
        data = dict(self._data(step))
        if step.phase == "steady" and self._plan.schedule is not None:
            schedule = self._plan.schedule
            begin_ns = time.monotonic_ns()
            time.sleep(schedule.duration_s)
            rows = [[begin_ns + number, *[1] * 6] for number in range(FRAMES)]
            streams = [{"dropped": 0, "missed": 0, "rows": rows} for _ in range(schedule.count)]
            yield {
                "event": "frames",
                "seconds": schedule.duration_s,
                "streams": streams,
                "heap_bytes": 1000,
            }
            data.update(begin_ns=begin_ns, seconds=schedule.duration_s)
        yield {
            "event": "barrier",
            "phase": step.phase,
            "context": step.context,
            "at_ns": time.monotonic_ns(),
            "data": data,
        }

    def _data(self, step: Step) -> Message:
        plan = self._plan
        data = dict(_PLAIN_DATA.get(step.phase, {}))
        if step.phase == "first_inference" and plan.is_first_of_model(step.context or 0):
            data["samples"] = [[]]
        if step.phase == "steady":
            data = _streams_data(plan) if plan.schedule else _rounds_data(plan)
        if plan.conversation is not None and step.phase in ("first_inference", "steady"):
            turn = [plan.conversation.prompt, 1, plan.conversation.generated, 0]
            rounds = data.get("latencies_ns", [[1]])
            data["turns"] = [[turn] * len(latencies_ns) for latencies_ns in rounds]
        if plan.cycles is not None:
            numbers = dict.fromkeys(("allocated_bytes", "heap_bytes", "fds"), 1000)
            data["usage"] = {**numbers, "mappings": 10, "threads": 2}
        return data


def _rounds_data(plan: Plan) -> Message:
    contexts = len(plan.contexts)
    latencies_ns = [[1] * plan.rounds for _ in range(contexts)]
    digests = [_DIGEST] * contexts
    return {"elapsed_ns": plan.rounds, "latencies_ns": latencies_ns, "digests": digests}


def _streams_data(plan: Plan) -> Message:
    models = len(plan.models)
    return {"frame_checksums": [{}] * models, "unequal_frames": [0] * models}


_ALLOCATIONS = [{"kind": "input", "asked_bytes": 600, "inode": 7}]
_MEMORY = {"account": {"weights_bytes": 1000}, "allocations": _ALLOCATIONS}
_COPIES = {"input_bytes": 600, "output_bytes": 40}
#: Figures of the steps that have the same in every plan.
_PLAIN_DATA: dict[str, Message] = {
    "imported": {"runtime_version": "1.2.3"},
    "context": {"load_ns": 1, **_MEMORY},
    "internal_memory": {"allocations": _ALLOCATIONS},
    "first_inference": {"latency_ns": 1, "digest": _DIGEST, "copies": _COPIES, **_MEMORY},
    "cycle": {"digest": _DIGEST},
    "trimmed": {"trimmed": True},
}


def encoded(protocol: DriverProtocol, message: Message) -> bytes:
    """Return the line of a message in the form of the protocol."""
    if protocol is PYTHON_PROTOCOL:
        return json.dumps(message).encode() + b"\n"
    return write_line(str(message.get("event")), _pairs(message))


def no_forger(protocol: DriverProtocol) -> Forger:
    """Return a forger that changes nothing."""
    return lambda _, messages: b"".join(encoded(protocol, message) for message in messages)


def _pairs(message: Message) -> list[tuple[str, object]]:
    """Return the fields of a line of the driver in C."""
    pairs: list[tuple[str, object]] = []
    for name, value in message.items():
        if name == "event" or value is None:
            continue
        if name == "data":
            pairs += _data_pairs(value)
        elif name == "message":
            pairs.append(("code", value["code"]))
            pairs += [(f"text.{key}", text) for key, text in value["values"].items()]
        elif name == "seconds":
            pairs.append(("seconds_ns", _ns(value)))
        elif name == "streams":
            for stream in value:
                pairs.append(("stream", f"{stream['dropped']},{stream['missed']}"))
                pairs += [("row", _joined(row)) for row in stream["rows"]]
        else:
            pairs.append((name, value))
    return pairs


def _data_pairs(data: Any) -> Iterator[tuple[str, object]]:
    for name, value in data.items() if isinstance(data, dict) else ():
        if name in _DATA_PAIRS:
            yield from _DATA_PAIRS[name](value)
        else:
            yield name, value


_Pairs = Iterable[tuple[str, object]]
#: Fields of data that the driver in C writes in another form.
_DATA_PAIRS: dict[str, Callable[[Any], _Pairs]] = {
    "account": lambda value: value.items(),
    "usage": lambda value: value.items(),
    "allocations": lambda value: [("allocation", _joined(one.values())) for one in value],
    "copies": lambda value: [("copies", _joined(value.values()))],
    "latencies_ns": lambda value: [("latencies_ns", _joined(row)) for row in value],
    "digests": lambda value: [("digests", digest) for digest in value],
    "samples": lambda value: [("samples", len(value))],
    "frame_checksums": lambda value: [("models", len(value))],
    "unequal_frames": lambda _: [],
    "seconds": lambda value: [("seconds_ns", _ns(value))],
    "trimmed": lambda value: [("trimmed", int(value))],
    "failure": lambda value: [
        ("failed_phase", value["phase"]),
        ("code", value["message"]["code"]),
    ],
}


def _ns(seconds: Any) -> object:
    return round(seconds * _NS_PER_S) if isinstance(seconds, (int, float)) else seconds


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
