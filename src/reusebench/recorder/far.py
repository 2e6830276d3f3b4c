"""Programs of a board far away: recorded through the reader that runs there."""

from __future__ import annotations

import os
import posixpath
import select
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from reusebench.recorder.errors import RecordError
from reusebench.recorder.phases import AppendedFile, FarFileMarks, FarSocketMarks, Marks
from reusebench.recorder.process_tree import has_children
from reusebench.recorder.program import Ending, RecordedProgram, RunningProgram
from reusebench.samplers.host import Host, own_pid
from reusebench.targets.errors import NotStarted

__all__ = ["FarMachine"]

#: File descriptors of a program: the last one is its socket to the reader.
_OUTPUT = 1
_MARKER = 3
_CHUNK = 4096
#: Of the input that are passed on at once: readings have their turn.
_CHUNKS = 16


class _Ending(Protocol):
    @property
    def exit_code(self) -> int: ...
    @property
    def memory_ran_out(self) -> bool: ...


class _Process(Protocol):
    """A program as the reader has it (targets.far.program)."""

    peak_rss_bytes: int

    def written(self) -> list[tuple[int, bytes]]: ...
    def write(self, data: bytes) -> int: ...
    def answer(self, data: bytes) -> None: ...
    def signal(self, number: int) -> None: ...
    def kill(self) -> None: ...
    def has_ended(self) -> bool: ...
    def ending(self) -> _Ending: ...
    def close(self) -> None: ...


class _Board(Protocol):
    """The board (targets.far.machine)."""

    name: str
    host: Host

    def start_program(
        self, command: Sequence[str], environment: Mapping[str, str], has_marks: bool
    ) -> _Process: ...
    def watch(self, path: str) -> AppendedFile: ...
    def wait_for_event(self, limit_s: float) -> None: ...


class FarMachine:
    """A board far away."""

    def __init__(self, board: _Board, facts: dict[str, Any]) -> None:
        """Take what is to be stored of the board, too: it may be away when the program has
        ended.
        """
        self.host = board.host
        self._board = board
        self._facts = facts

    def facts(self) -> dict[str, Any]:
        """Return what was read of it before."""
        return self._facts

    def file_marks(self, path: Path) -> Marks:
        """Return marks in a file there."""
        (folder,) = self.host.links(["/proc/self/cwd"])
        if isinstance(folder, OSError):
            raise folder
        absolute = posixpath.join(folder, path)
        return FarFileMarks(absolute, self._board.watch(absolute))

    def socket_marks(self, number: int) -> Marks:
        """Return marks by the one file descriptor that the reader passes on."""
        if number != _MARKER:
            raise RecordError(
                f"--marker {number}: on a board far away the descriptor is {_MARKER}. Write"
                f" --marker {_MARKER}"
            )
        return FarSocketMarks(number)

    def start(self, command: Sequence[str], marks: Marks) -> RecordedProgram:
        """Start a program, with the login's environment, and this process's input and output."""
        return _StartedProgram(self._board, command, marks)

    def attach(self, pid: int) -> RecordedProgram:
        """Return a program that runs there."""
        return RunningProgram(self.host, pid)

    def wait(self, descriptors: Sequence[int], limit_s: float) -> None:
        """Wait until something has come from the board, or so long, after which the descriptors are
        looked at.
        """
        if not select.select(descriptors, [], [], 0)[0]:
            self._board.wait_for_event(limit_s)


class _StartedProgram:
    """A program that the reader has started. All its processes stay below the reader."""

    with_root = False
    shares_terminal = False

    def __init__(self, board: _Board, command: Sequence[str], marks: Marks) -> None:
        """Raise RecordError if it cannot be started, with the exit code that shells give for
        it.
        """
        self._marks = marks if isinstance(marks, FarSocketMarks) else None
        try:
            self._process = board.start_program(
                command, marks.environment, has_marks=self._marks is not None
            )
        except NotStarted as error:
            raise RecordError(
                f"{error}. Nothing was stored", exit_code=127 if error.is_missing else 126
            ) from None
        if self._marks:
            self._marks.send_answer = self._process.answer
        self._host = board.host
        self._input = _Input(self._process)
        self._is_heard = True
        self.root = own_pid(self._host)
        self.ending = Ending()

    def has_ended(self) -> bool:
        """Pass on what has come, and return whether nothing is left."""
        self._pass_on()
        if not self._process.has_ended():
            self._input.pass_on()
            return False
        if self.ending == Ending():
            ending = self._process.ending()
            self.ending = Ending.of(ending.exit_code, ending.memory_ran_out)
        if has_children(self._host, self.root):
            return False
        self._pass_on()
        return True

    def has_left(self) -> bool:
        """Whether the program itself has ended."""
        return self._process.has_ended()

    def peak_bytes(self) -> int | None:
        """Return what the kernel counted of the program and of those that had ended before it."""
        return self._process.peak_rss_bytes or None

    def send(self, number: int) -> None:
        """Send the program and its group a signal, unless it has ended."""
        self._process.signal(number)

    def kill(self, pids: Iterable[int]) -> None:  # noqa: ARG002 the reader knows them
        """Kill it, and all its processes."""
        self._process.kill()

    def close(self) -> None:
        """End what it has left, and release what belongs to it."""
        self._process.close()

    def _pass_on(self) -> None:
        for descriptor, data in self._process.written():
            if descriptor != _MARKER:
                self._show(descriptor, data)
            elif self._marks:
                self._marks.feed(data)

    def _show(self, descriptor: int, data: bytes) -> None:
        """Write what the program has written; where nobody takes it, it gets the signal that says
        so.
        """
        # Where this process was started with one of them closed, another file may have its number.
        is_open = (sys.stdout if descriptor == _OUTPUT else sys.stderr) is not None
        while data and is_open and self._is_heard:
            try:
                data = data[os.write(descriptor, data) :]
            except OSError:  # its reader has gone, or its disk is full
                self._is_heard = False
                self.send(signal.SIGPIPE)


class _Input:
    """The input of this process, passed on as far as the program takes it."""

    def __init__(self, process: _Process) -> None:
        self._process = process
        self._rest = b""
        self._is_open = True

    def pass_on(self) -> None:
        """Pass on what is there now, or a good part of it."""
        for _ in range(_CHUNKS):
            if not self._rest:
                self._read()
            if not self._rest:
                return
            taken = self._process.write(self._rest)
            self._rest = self._rest[taken:]
            if not taken:
                return

    def _read(self) -> None:
        if self._is_open and _has_input():
            try:
                self._rest = b"" if sys.stdin is None else os.read(0, _CHUNK)
            except OSError:  # of a terminal that has gone
                self._rest = b""
            if not self._rest:
                self._is_open = False
                self._process.write(b"")


def _has_input() -> bool:
    """Whether there is something to read, or the end of it; a terminal is another's while this is
    in the background.
    """
    if sys.stdin is None:  # this process was started without
        return True
    if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp():
        return False
    return bool(select.select([0], [], [], 0)[0])
