"""Clients under the preload library, and their ledgers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any, Protocol

from tests.helpers.support import CHECKOUT

_HEAD = "import os, sys, json, errno, threading\nfrom tests.targets.npu_client import *\n"
_TIME_LIMIT_S = 60


@dataclass(frozen=True)
class Ended:
    """A client that has ended."""

    code: int
    output: str
    errors: str
    #: All events except those about inodes and addresses of buffers.
    events: list[dict[str, Any]]
    inodes: dict[int, int]
    #: The events "map" and "unmap".
    addresses: list[dict[str, Any]] = field(default_factory=list)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name."""
        return [event for event in self.events if event["event"] == name]

    def buffers(self) -> list[tuple[str, int]]:
        """Return the name and the buffer of every event after the first."""
        return [(event["event"], event["buffer"]) for event in self.events[1:]]


def run_client(script: str, preload: str | Path, ledger: Path | None, **variables: str) -> Ended:
    """Run the script with npu_client's names; `variables` are added to the environment."""
    environment = {**os.environ, "LD_PRELOAD": str(preload), **variables}
    if ledger is not None:
        environment["REUSEBENCH_LEDGER"] = str(ledger)
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", _HEAD + dedent(script)],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIME_LIMIT_S,
    )
    events = read_ledger(ledger)
    inodes = {}
    addresses = []
    others = []
    for event in events:
        if event["event"] == "inode":
            inodes[event["buffer"]] = event["inode"]
        elif event["event"] in ("map", "unmap"):
            addresses.append(event)
        else:
            others.append(event)
    return Ended(done.returncode, done.stdout, done.stderr, others, inodes, addresses)


class RunOnBoard(Protocol):
    """A function that runs a script on the virtual board (tests/targets/conftest.py)."""

    def __call__(self, script: str, chip: str = ..., faults: str = ..., memory: str = ...) -> Ended:
        """Run the script, and return its end."""


def read_ledger(path: Path | None) -> list[dict[str, Any]]:
    """Return the events of a ledger; every line must be complete."""
    if path is None or not path.exists():
        return []
    text = path.read_text(encoding="ascii")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def live_bytes(events: list[dict[str, Any]]) -> int:
    """Return the size of all live buffers after these events."""
    alive: dict[int, int] = {}
    for event in events:
        if event["event"] == "create":
            assert event["buffer"] not in alive
            alive[event["buffer"]] = event["bytes"]
        elif event["event"] == "destroy":
            del alive[event["buffer"]]
    return sum(alive.values())
