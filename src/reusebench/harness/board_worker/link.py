"""The link of a board's worker to the session of all boards, which gets results and lines.

The worker measures as a session of that board. Its storage is that of all boards, to which it
writes traces alone: the session of all boards writes the run.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from reusebench.harness.benchmark_plugin import benchmark_plugin, saves_runs
from reusebench.harness.board_worker.messages import (
    Begun,
    Ended,
    Kept,
    Live,
    Message,
    Note,
    Reached,
    Shown,
    Unusable,
)
from reusebench.harness.errors import UserError
from reusebench.harness.machine_info import describe_machine, this_machine
from reusebench.harness.session_run import entry_of
from reusebench.storage.board_storage import board_name
from reusebench.storage.result import Result
from reusebench.storage.run_file import encoded
from reusebench.system.interrupts import Interrupted, uninterrupted
from reusebench.targets.resolve import far_machine, is_far, is_virtual, release_boards

__all__ = ["KEY", "BoardRun", "Link", "LinkOutput", "Task", "begin_worker"]

#: Key of xdist's input of a worker.
KEY = "reusebench"


class Task(NamedTuple):
    """What the fleet's session tells a worker at its start."""

    target: str
    label: str
    storage: str
    #: Identity of the session in results.
    run: str
    #: File that is locked while something is measured on this machine; empty on a remote board.
    turns: str


class Link:
    """The connection to the fleet's session."""

    def __init__(self, channel: Any, task: Task) -> None:
        self.task = task
        #: Name of the board in results; empty before it was reached.
        self.board = ""
        self._channel = channel
        self.tell(Begun(os.getpid()))

    def tell(self, message: Message) -> None:
        """Send a message."""
        try:
            self._channel.send(msgspec.json.encode(message))
        except OSError:  # the fleet's session has ended without notice
            raise Interrupted(signal.SIGTERM) from None

    def ask(self, message: Message) -> str:
        """Send a message, and return its answer."""
        with uninterrupted():
            self.tell(message)
            try:
                answer: str = self._channel.receive()
            except EOFError:
                raise Interrupted(signal.SIGTERM) from None
        return answer

    def reached(self) -> None:
        """Tell that the board is there; raise UserError if it must not be measured."""
        target = self.task.target
        machine = this_machine()
        describe_machine(target, machine)
        self.board = machine["reusebench"]["board"]
        node = "" if is_virtual(target) else board_name()
        if is_far(target):
            far = far_machine(target)
            target = far.name
            node = board_name(far.host)
        refusal = self.ask(Reached(target, self.board, node, _raw(machine)))
        if refusal:
            raise UserError(refusal)

    def unusable(self, error: UserError) -> None:
        """Tell that nothing is measured on this board."""
        self.tell(Unusable(str(error)))

    def shown(self, test: str, title: str, text: str) -> None:
        """Have the fleet's session show the line of a configuration."""
        self.tell(Shown(test, title, text))

    def end(self, problem: str, equal: str) -> None:
        """Give the board back, and tell the end."""
        release_boards()
        self.tell(Ended(problem, equal))

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until nothing else is measured on this machine; remote boards never wait."""
        if not self.task.turns:
            yield
            return
        with Path(self.task.turns).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class LinkOutput:
    """The lines of the session of a board, which the fleet's session shows."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def live(self, line: str) -> None:
        """Have the present step shown."""
        self._link.tell(Live(line))

    def result(self, title: str, text: str) -> None:
        """Do nothing: the line is sent together with the name of its test."""

    def note(self, line: str) -> None:
        """Have a line of its own shown."""
        self._link.tell(Note(line))


class BoardRun:
    """The results of a board, which go to the run of the fleet's session."""

    #: The run is the fleet's.
    saved: Path | None = None
    is_misplaced = False

    def __init__(self, config: pytest.Config, link: Link) -> None:
        """Have pytest-benchmark save nothing here."""
        self._link = link
        self._benchmarks = benchmark_plugin(config)
        self._saves = saves_runs(config)
        self._benchmarks.save = None
        self._benchmarks.autosave = None

    def keep(self, benchmark: Any, result: Result) -> None:
        """Store a result without statistics of latencies."""
        self._keep(entry_of(benchmark, result))

    def keep_newest_benchmark(self) -> None:
        """Store the result whose latencies pytest-benchmark has got last."""
        if self._saves:
            self._keep(self._benchmarks.benchmarks[-1].as_dict(include_data=False))

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Do nothing: pytest-benchmark writes no run here."""

    def save_alone(self) -> None:
        """Do nothing: the fleet's session saves."""

    def _keep(self, entry: Mapping[str, Any]) -> None:
        if self._saves:
            self._link.ask(Kept(msgspec.Raw(encoded(entry))))


def begin_worker(config: pytest.Config) -> Link | None:
    """Return the link of a worker, whose options become those of one board; None elsewhere."""
    given = getattr(config, "workerinput", {})
    if KEY not in given:
        return None
    *values, channel = given[KEY]
    task = Task(*values)
    option: argparse.Namespace = config.option
    option.target = [task.target]
    option.storage = None
    option.benchmark_storage = f"file://{task.storage}"
    option.baseline = None
    option.fail = None
    option.across = None
    option.strict_gate = False
    return Link(channel, task)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(encoded(value))
