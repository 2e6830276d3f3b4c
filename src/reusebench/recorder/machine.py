"""The machine on which a program is recorded: how it is started there, marks its phases, and is
waited for.
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from reusebench.recorder.phases import FileMarks, Marks, SocketMarks
from reusebench.recorder.program import RecordedProgram, RunningProgram, StartedProgram
from reusebench.samplers.environment import environment, machine_facts
from reusebench.samplers.host import LOCAL_HOST, Host
from reusebench.storage.board_storage import board_name

__all__ = ["LOCAL", "LocalMachine", "Machine"]


class Machine(Protocol):
    """Of a board far away every method, and every one of what they return, may raise
    ConnectionLost.
    """

    #: What is read.
    host: Host

    def facts(self) -> dict[str, Any]:
        """Return what is stored of it."""

    def file_marks(self, path: Path) -> Marks:
        """Return marks in a file there; raise OSError if it cannot be made."""

    def socket_marks(self, number: int) -> Marks:
        """Return marks by a file descriptor of the program; raise RecordError if it cannot have
        this number.
        """

    def start(self, command: Sequence[str], marks: Marks) -> RecordedProgram:
        """Start a program; raise RecordError."""

    def attach(self, pid: int) -> RecordedProgram:
        """Return a program that runs there; raise RecordError."""

    def wait(self, descriptors: Sequence[int], limit_s: float) -> None:
        """Wait until one of these can be read, or the program has something to tell, or so long."""


class LocalMachine:
    """This one."""

    host: Host = LOCAL_HOST

    def facts(self) -> dict[str, Any]:
        """Return its environment."""
        here = os.uname()
        facts = machine_facts(LOCAL_HOST, here.nodename, here.machine)
        return {**facts, "reusebench": environment(LOCAL_HOST, board_name())}

    def file_marks(self, path: Path) -> Marks:
        """Return marks in a file."""
        return FileMarks(path)

    def socket_marks(self, number: int) -> Marks:
        """Return marks by a file descriptor of the program."""
        return SocketMarks(number)

    def start(self, command: Sequence[str], marks: Marks) -> RecordedProgram:
        """Start a program."""
        return StartedProgram(command, marks.environment, marks.actions)

    def attach(self, pid: int) -> RecordedProgram:
        """Return a program that runs."""
        return RunningProgram(LOCAL_HOST, pid)

    def wait(self, descriptors: Sequence[int], limit_s: float) -> None:
        """Wait until one of these can be read, or so long."""
        select.select(descriptors, [], [], limit_s)


LOCAL = LocalMachine()
