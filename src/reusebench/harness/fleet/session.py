"""The session of several boards: pytest-xdist runs all tests on each, in a worker a board.

This process measures nothing: it writes the one run, shows the lines of all boards, and judges.
"""

from __future__ import annotations

import functools
import os
import queue
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from reusebench.harness.benchmark_plugin import (
    enable_beside_workers,
    saves_runs,
    storage_folder,
    writable,
)
from reusebench.harness.board_worker.link import KEY, Task
from reusebench.harness.board_worker.messages import (
    Begun,
    Ended,
    Kept,
    Live,
    Note,
    Reached,
    Shown,
    Unusable,
    message_of,
)
from reusebench.harness.fleet.boards import FleetBoard
from reusebench.harness.fleet.missing import Entry, Lacking, missing_entries, text_of
from reusebench.harness.memory_gate import Verdict
from reusebench.harness.progress import TerminalOutput
from reusebench.harness.session import checked_gate
from reusebench.harness.session_run import SessionRun
from reusebench.storage.board_storage import far_board_name
from reusebench.system.files import printable
from reusebench.system.interrupts import uninterrupted
from reusebench.targets.far.pushed_files import holder_name

__all__ = ["FleetSession"]

#: Name of our event in xdist's queue.
_EVENT = "reusebench"
#: Share of the time that may go into writing the growing run.
_WRITING_SHARE = 0.05
#: Time for the workers to keep what they have measured when the session ends early.
_END_S = 60.0
_LOST = "its worker ended without notice, as if it was killed"


@dataclass
class _Board:
    """What is known of a board."""

    board: FleetBoard
    #: As results have it: a labgrid tag has become a place.
    target: str
    #: Name in results.
    name: str
    channel: Any = None
    #: The worker's; None before it has begun.
    pid: int | None = None
    #: Name that the board gives itself.
    node: str = ""
    machine: msgspec.Raw | None = None
    #: Reason why results are missing; empty if there is none.
    problem: str = ""
    #: The last message of its session.
    end: Ended | None = None
    has_ended: bool = False
    #: Its results by the full name of their test.
    entries: dict[str, Entry] = field(default_factory=dict)


class FleetSession:
    """The session, which is also the plug-in for the hooks of pytest-xdist."""

    def __init__(self, config: pytest.Config, boards: Sequence[FleetBoard]) -> None:
        """Check what can be checked without the boards; UserError."""
        enable_beside_workers(config)
        self.storage = writable(storage_folder(config))
        self._gate = checked_gate(config, self.storage)
        self._saves = saves_runs(config)
        self._run = SessionRun(config, self.storage)
        self._terminal = TerminalOutput(config)
        self._boards: dict[str, _Board] = {}
        for board in boards:
            name = far_board_name(board.target)
            self._boards[board.label] = _Board(board, board.target, name)
        self._width = max(len(board.target) for board in boards) + 1
        self._identity = uuid.uuid4().hex[:12]
        #: Lines of several boards that were shown once.
        self._notes: set[str] = set()
        self._without_dot: set[str] = set()
        #: Boards that wait until their newest result is stored.
        self._waiting: list[_Board] = []
        self._next_write_s = 0.0
        self._has_timer = False
        self._turns = tempfile.NamedTemporaryFile(prefix="reusebench-turns-")  # noqa: SIM115
        self._xdist: Any = config.pluginmanager.getplugin("dsession")
        # xdist has no hook for messages of workers: it calls this method for our events.
        self._xdist.worker_reusebench = self._take

    # Hooks of pytest-xdist

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker its board, and a channel for its messages."""
        label = node.gateway.id
        board = self._boards[label]
        turns = self._turns.name if board.board.is_local else ""
        task = Task(board.target, label, str(self.storage.resolve()), self._identity, turns)
        board.channel = node.gateway.newchannel()
        node.workerinput[KEY] = (*task, board.channel)
        board.channel.setcallback(functools.partial(self._post, label), endmarker=b"")

    @pytest.hookimpl
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note that a worker has ended without notice."""
        board = self._boards[node.gateway.id]
        board.has_ended = True
        if error and not board.end and not board.problem:
            board.problem = _LOST

    # Messages of the boards

    def _post(self, label: str, data: bytes) -> None:
        """Hand a message, or the end of the channel, to the main thread."""
        self._xdist.queue.put((_EVENT, {"label": label, "data": data}))

    def _take(self, label: str, data: bytes) -> None:
        """Take a message of a worker; no data is the end of its channel."""
        with uninterrupted():
            board = self._boards.get(label)
            if board is None:
                self._has_timer = False
            elif data:
                self._take_message(board, data)
            else:
                board.has_ended = True
            self._write_if_due()

    def _take_message(self, board: _Board, data: bytes) -> None:
        message = message_of(data)
        if isinstance(message, Begun):
            board.pid = message.pid
        elif isinstance(message, Reached):
            self._reach(board, message)
        elif isinstance(message, Kept):
            self._keep(board, message)
        elif isinstance(message, Shown):
            self._show(board, message)
        elif isinstance(message, Live):
            self._terminal.live(message.line and f"{board.target:<{self._width}}{message.line}")
        elif isinstance(message, Note):
            self._note(board, message.line)
        elif isinstance(message, Unusable):
            self._give_up(board, message.reason)
        else:
            board.end = message
            board.has_ended = True

    def _reach(self, board: _Board, message: Reached) -> None:
        board.target = message.target
        self._width = max(self._width, len(board.target) + 1)
        twins = [
            other for other in self._boards.values() if message.node and other.node == message.node
        ]
        if twins:
            error = self._same_board(board, twins[0])
            self._answer(board, str(error))
            raise error
        board.node = message.node
        board.name = message.board
        board.machine = message.machine
        self._run.boards[board.name] = message.machine
        self._answer(board)

    def _give_up(self, board: _Board, reason: str) -> None:
        """Measure the other boards alone, unless one of them is this board by another name."""
        for other in self._boards.values():
            if other is not board and other.pid and f"{holder_name(other.pid)}," in reason:
                raise self._same_board(board, other)
        board.problem = reason.removeprefix(f"{board.target}: ")
        self._note(board, board.problem.splitlines()[0])

    def _same_board(self, board: _Board, other: _Board) -> pytest.UsageError:
        return pytest.UsageError(
            f"--target {other.target} and --target {board.target} are one board: leave one out"
        )

    def _keep(self, board: _Board, message: Kept) -> None:
        """Store a result: the answer comes when it is on the disk."""
        entry = msgspec.json.decode(message.entry, type=Entry)
        test = text_of(entry, "fullname")
        board.entries[test] = entry
        self._run.put(test, entry)
        self._waiting.append(board)

    def _write_if_due(self) -> None:
        """Write the growing run if boards wait for it, and writing has not taken too much time."""
        if not self._waiting:
            return
        now_s = time.monotonic()
        if now_s < self._next_write_s:
            if not self._has_timer:
                self._has_timer = True
                timer = threading.Timer(self._next_write_s - now_s, self._post, ("", b""))
                timer.daemon = True
                timer.start()
            return
        self._run.write_unfinished()
        taken_s = time.monotonic() - now_s
        self._next_write_s = time.monotonic() + taken_s / _WRITING_SHARE
        for board in self._waiting:
            self._answer(board)
        self._waiting.clear()

    def _answer(self, board: _Board, refusal: str = "") -> None:
        with suppress(OSError):  # its worker is gone
            board.channel.send(refusal)

    def _show(self, board: _Board, message: Shown) -> None:
        if self._terminal.replaces_dots:
            self._without_dot.add(message.test)
        if message.text:
            self._terminal.live("")
            self._terminal.result(f"{board.target:<{self._width}}{message.title}", message.text)

    def _note(self, board: _Board, line: str) -> None:
        """Show a line, once if several boards have the same."""
        if line in self._notes:
            return
        self._notes.add(line)
        self._terminal.live("")
        self._terminal.note(f"{board.target:<{self._width}}{line}")

    # The end of the session

    def finish(self, interrupted: bool) -> None:
        """Wait until all boards are given back; save the run, with the results that are missing."""
        self._end_workers()
        if not interrupted and self._saves:
            self._add_missing()
        self._run.save_alone()
        self._turns.close()

    def _end_workers(self) -> None:
        """Ask the workers that still measure to end, and take what they have measured."""
        for board in self._running():
            if board.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(board.pid, signal.SIGINT)
        until_s = time.monotonic() + _END_S
        while self._running() and time.monotonic() < until_s:
            with suppress(queue.Empty, pytest.UsageError):
                name, values = self._xdist.queue.get(timeout=1.0)
                if name == _EVENT:
                    self._take(**values)
                elif name in ("errordown", "workerfinished"):
                    self._boards[values["node"].gateway.id].has_ended = True

    def _running(self) -> list[_Board]:
        """Return the boards whose workers were started and have not ended."""
        return [board for board in self._boards.values() if board.channel and not board.has_ended]

    def _add_missing(self) -> None:
        measured = {
            label: list(board.entries.values())
            for label, board in self._boards.items()
            if board.entries
        }
        for label, board in self._boards.items():
            if not board.problem or not measured:
                continue
            self._run.boards.setdefault(board.name, None)
            lacking = Lacking(label, board.target, board.name, board.problem)
            for entry in missing_entries(measured, lacking):
                self._run.put(text_of(entry, "fullname"), entry)

    def take_dot(self, test: str) -> bool:
        """Return whether the terminal shows no dot for this test, as it has a line; True once."""
        is_without = test in self._without_dot
        self._without_dot.discard(test)
        return is_without

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Do nothing: pytest-benchmark writes no run here."""

    @property
    def remarks(self) -> list[str]:
        """Lines to show before anything is measured: those of the boards come as they begin."""
        return []

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """Outcome of the comparison with the baseline; None without --baseline."""
        return self._gate.judge(self._run.saved) if self._gate else None

    @property
    def equal(self) -> str:
        """Names of scenarios that have no line since they are equal to others; may be empty."""
        texts = [board.end.equal for board in self._boards.values() if board.end]
        return "\n".join(filter(None, dict.fromkeys(texts)))

    @property
    def problem(self) -> str:
        """Reasons why the run has failed although its tests may have been skipped; may be empty."""
        lines = []
        for board in self._boards.values():
            reason = board.end.problem if board.end else ""
            if board.problem:
                reason = f"not measured: {board.problem}"
            if reason:
                lines.append(printable(f"{board.target}: {reason}", keep="\n"))
        return "\n".join(lines)

    @property
    def is_failed(self) -> bool:
        """Whether the run as a whole has failed, even if no test did."""
        if self._run.is_misplaced or self.problem:
            return True
        return self.verdict is not None and not self.verdict.passed
