"""The protocol between harness and driver, and its form for the Python driver: JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Protocol

import msgspec

from reusebench.measured.plan import Model, Plan, Step
from reusebench.targets.barriers import DriverMessage

__all__ = [
    "PYTHON",
    "PYTHON_PROTOCOL",
    "C",
    "DriverProtocol",
    "InvalidMessage",
    "PythonDriverProtocol",
]

#: Names of the drivers, as after --driver: measured.driver and native/driver.
PYTHON = "python"
C = "c"

_MESSAGES = msgspec.json.Decoder(DriverMessage)


class InvalidMessage(Exception):
    """The driver wrote a line that is not a message."""


class DriverProtocol(Protocol):
    """The form of one driver's commands and messages.

    At a barrier every driver waits for the word go, trim or stop.
    """

    #: PYTHON or C.
    driver: str

    def begin(self, plan: Plan) -> bytes:
        """Return the command that begins the walk of a plan."""

    def step(self, plan: Plan, step: Step) -> bytes:
        """Return the command that begins a step; empty if the driver knows the plan."""

    def inspect(self, runtime: str, model: str) -> bytes:
        """Return the command that asks for the interface of a model file."""

    def decode(self, line: bytes) -> DriverMessage:
        """Return the message of a line; raise InvalidMessage if it is not one."""


class PythonDriverProtocol:
    """The protocol of the Python driver: a line of JSON for each message."""

    driver = PYTHON

    def begin(self, plan: Plan) -> bytes:
        """Return the command to walk the plan, with the plan itself."""
        return _line({"command": "run", "runtime": plan.runtime, "plan": plan.to_json()})

    def step(self, _plan: Plan, _step: Step) -> bytes:
        """Return nothing: the driver knows the plan."""
        return b""

    def inspect(self, runtime: str, model: str) -> bytes:
        """Return the command that asks for the interface of a model file."""
        return _line({"command": "inspect", "runtime": runtime, "model": model})

    def prepare(self, runtime: str, models: Iterable[Model], folder: str) -> bytes:
        """Return the command to make the files in `folder` that the runtime needs of each model."""
        files = []
        for model in models:
            inputs = [asdict(tensor) for tensor in model.inputs]
            files.append({"path": model.path, "digest": model.digest, "inputs": inputs})
        return _line({"command": "prepare", "runtime": runtime, "models": files, "folder": folder})

    def estimate(self, plans: Sequence[Plan]) -> bytes:
        """Return the command that asks for the accounts of plans without making their contexts."""
        plans_in_json = [plan.to_json() for plan in plans]
        return _line({"command": "estimate", "runtime": plans[0].runtime, "plans": plans_in_json})

    def decode(self, line: bytes) -> DriverMessage:
        """Return the message of a line of JSON."""
        try:
            message: DriverMessage = _MESSAGES.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidMessage(repr(line[:200])) from None
        return message


PYTHON_PROTOCOL = PythonDriverProtocol()


def _line(command: object) -> bytes:
    return json.dumps(command).encode() + b"\n"
