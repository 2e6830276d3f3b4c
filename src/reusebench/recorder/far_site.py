"""A remote board on which a program is recorded, through the reader that runs there.

Not imported while a program of this machine is recorded: its imports would add to what is measured.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import select
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from reusebench.accounting.ledger import Ledger
from reusebench.recorder.errors import RecordError
from reusebench.recorder.marks import FarFileMarks, FarSocketMarks, Marks
from reusebench.recorder.process_tree import has_children
from reusebench.recorder.program import (
    AS_IT_IS,
    ProgramEnding,
    RecordedProgram,
    RunningProgram,
    Start,
)
from reusebench.samplers.host import own_pid
from reusebench.targets.errors import NotStarted
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.program import FarProgram

__all__ = ["FarSite"]

_STDIN = 0
_STDOUT = 1
_STDERR = 2
#: The program's socket to the reader.
_MARKER = 3
_CHUNK_BYTES = 4096
#: Most chunks of input passed on at once, so that readings are not delayed.
_MOST_CHUNKS = 16


class FarSite:
    """A remote board."""

    def __init__(self, board: FarMachine, facts: dict[str, Any]) -> None:
        """`facts` are read beforehand: the board may be gone when the program has ended."""
        self.host = board.host
        self.board = board
        self._facts = facts

    def facts(self) -> dict[str, Any]:
        """Return the facts that were read before the recording."""
        return self._facts

    def file_marks(self, path: Path) -> Marks:
        """Return marks from a file on the board; a relative path starts at the reader's folder."""
        (folder,) = self.host.links(["/proc/self/cwd"])
        if isinstance(folder, OSError):
            raise folder
        absolute = posixpath.join(folder, path)
        return FarFileMarks(absolute, self.board.watch(absolute).changed)

    def socket_marks(self, number: int) -> Marks:
        """Return marks from the one file descriptor that the reader passes on."""
        if number != _MARKER:
            raise RecordError(
                f"--marker {number}: on a remote board the descriptor is {_MARKER}. Write"
                f" --marker {_MARKER}"
            )
        return FarSocketMarks(number)

    def start(
        self, command: Sequence[str], marks: Marks, start: Start = AS_IT_IS
    ) -> RecordedProgram:
        """Start a program in the login environment, with this process's input and output."""
        return _StartedProgram(self.board, command, marks, start)

    def attach(self, pid: int) -> RecordedProgram:
        """Return a program that already runs on the board."""
        return RunningProgram(self.host, pid)

    def wait(self, descriptors: Sequence[int], limit_s: float) -> None:
        """Wait up to `limit_s` for an event from the board, unless a descriptor is readable."""
        if not select.select(descriptors, [], [], 0)[0]:
            self.board.wait_for_event(limit_s)


class _StartedProgram:
    """A program that the reader has started. All its processes stay below the reader."""

    with_root = False
    shares_terminal = False

    def __init__(
        self, board: FarMachine, command: Sequence[str], marks: Marks, start: Start
    ) -> None:
        """Raise RecordError, with the exit code that shells give, if the program cannot start."""
        self._marks = marks if isinstance(marks, FarSocketMarks) else None
        has_marks = self._marks is not None
        try:
            variables = {**start.variables, **marks.environment}
            self._process = board.start_program(command, variables, has_marks)
        except NotStarted as error:
            exit_code = 127 if error.is_missing else 126
            raise RecordError(f"{error}. Nothing was stored", exit_code) from None

        if self._marks:
            self._marks.forward = self._forward_output
            self._marks.send_answer = self._process.answer
            self._marks.ask_for_answers = self._process.are_answers_read
        self._host = board.host
        self._input = _InputForwarder(self._process)
        self._output_accepted = True
        #: Key: descriptor of the program.
        self._files: dict[int, BinaryIO] = {}
        for descriptor, path in ((_STDOUT, start.output), (_STDERR, start.errors)):
            if path is not None:
                self._files[descriptor] = path.open("wb")
        self.root = own_pid(self._host)
        self.ending = ProgramEnding()

    def has_ended(self) -> bool:
        """Pass on input and output; return whether no process of the program remains."""
        self._forward_output()
        if not self._process.has_ended():
            self._input.forward()
            return False
        if self.ending == ProgramEnding():
            self.ending = ProgramEnding.of(self._process.ending())
        if has_children(self._host, self.root):
            return False
        self._forward_output()
        return True

    def has_left_processes(self) -> bool:
        return self._process.has_ended()

    def peak_bytes(self) -> int | None:
        """Return the kernel's peak for the program and its descendants that ended before it."""
        return self._process.peak_rss_bytes or None

    def cpu_ns(self) -> int | None:
        """Return None: the reader does not ask for it."""
        return None

    def ledger(self) -> Ledger | None:
        """Return None: the board's own driver counts."""
        return None

    def send(self, number: int) -> None:
        """Send a signal to the program and its group, unless it has ended."""
        self._process.signal(number)

    def kill(self, pids: Iterable[int]) -> None:  # noqa: ARG002 the reader knows them
        self._process.kill()

    def close(self) -> None:
        """End the processes that the program has left behind."""
        self._process.close()
        for file in self._files.values():
            file.close()

    def _forward_output(self) -> None:
        for descriptor, data in self._process.written():
            if descriptor != _MARKER:
                self._print(descriptor, data)
            elif self._marks:
                self._marks.feed(data)

    def _print(self, descriptor: int, data: bytes) -> None:
        """Write the program's output; if nobody reads it, the program gets SIGPIPE as usual."""
        if descriptor in self._files:
            self._files[descriptor].write(data)
            return
        # If this process was started with the stream closed, the number may be another file's.
        stream = sys.stdout if descriptor == _STDOUT else sys.stderr
        if stream is None:
            return
        while data and self._output_accepted:
            try:
                written = os.write(descriptor, data)
            except OSError:  # its reader has gone, or its disk is full
                self._output_accepted = False
                self.send(signal.SIGPIPE)
            else:
                data = data[written:]


class _InputForwarder:
    """Passes this process's input on, as fast as the program takes it."""

    def __init__(self, process: FarProgram) -> None:
        self._process = process
        self._pending = b""
        self._is_open = True

    def forward(self) -> None:
        """Pass on the available input, up to the limit for one turn."""
        for _ in range(_MOST_CHUNKS):
            if not self._pending:
                self._read()
            if not self._pending:
                return
            accepted = self._process.write(self._pending)
            self._pending = self._pending[accepted:]
            if not accepted:
                return

    def _read(self) -> None:
        if not self._is_open or not _has_input():
            return
        if sys.stdin is not None:
            with contextlib.suppress(OSError):  # the terminal has gone
                self._pending = os.read(_STDIN, _CHUNK_BYTES)
        if not self._pending:
            self._is_open = False
            self._process.write(b"")


def _has_input() -> bool:
    """Whether stdin has data or has ended; a terminal has none for a background process."""
    if sys.stdin is None:  # this process was started without it
        return True
    if os.isatty(_STDIN) and os.tcgetpgrp(_STDIN) != os.getpgrp():
        return False
    return bool(select.select([_STDIN], [], [], 0)[0])
