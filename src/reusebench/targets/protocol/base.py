"""What the harness writes to a driver, and what it makes of the lines that come back."""

from __future__ import annotations

import json
from collections.abc import Iterable
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

#: The drivers: scenarios.driver, and the one of targets/native.
PYTHON = "python"
C = "c"

_MESSAGES = msgspec.json.Decoder(DriverMessage)


class InvalidMessage(Exception):
    """The driver wrote what is no message."""


class DriverProtocol(Protocol):
    """The form of one driver's commands and messages; at a barrier every driver waits for go, trim
    or stop.
    """

    #: "python" or "c", as after --driver.
    driver: str

    def begin(self, plan: Plan) -> bytes:
        """Return what begins the walk of a plan."""

    def step(self, plan: Plan, step: Step) -> bytes:
        """Return what begins a step; empty if the driver knows the plan."""

    def inspect(self, runtime: str, model: str) -> bytes:
        """Return what asks for the interface of a model file."""

    def decode(self, line: bytes) -> DriverMessage:
        """Return the message of a line; raise InvalidMessage where it is none."""


class PythonDriverProtocol:
    """That of the driver in Python: a line of JSON for each message."""

    driver = PYTHON

    def begin(self, plan: Plan) -> bytes:
        """Return the plan."""
        return _line({"command": "run", "runtime": plan.runtime, "plan": plan.to_json()})

    def step(self, _plan: Plan, _step: Step) -> bytes:
        """Return nothing: the driver walks the plan by itself."""
        return b""

    def inspect(self, runtime: str, model: str) -> bytes:
        """Return the command."""
        return _line({"command": "inspect", "runtime": runtime, "model": model})

    def prepare(self, runtime: str, models: Iterable[Model], folder: str) -> bytes:
        """Return the command that has the runtime make what it needs of each model, in the
        folder.
        """
        files = []
        for model in models:
            files.append(
                {
                    "path": model.path,
                    "digest": model.digest,
                    "inputs": list(map(asdict, model.inputs)),
                }
            )
        return _line({"command": "prepare", "runtime": runtime, "models": files, "folder": folder})

    def decode(self, line: bytes) -> DriverMessage:
        """Return the message."""
        try:
            message: DriverMessage = _MESSAGES.decode(line)
        except msgspec.DecodeError:
            raise InvalidMessage(repr(line[:200])) from None
        return message


PYTHON_PROTOCOL = PythonDriverProtocol()


def _line(command: object) -> bytes:
    return json.dumps(command).encode() + b"\n"
