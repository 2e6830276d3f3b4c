"""The machine on which a program is recorded, as the recorder sees it."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from reusebench.recorder.marks import FileMarks, Marks, SocketMarks
from reusebench.recorder.program import (
    AS_IT_IS,
    RecordedProgram,
    RunningProgram,
    Start,
    StartedProgram,
)
from reusebench.samplers.environment import environment, machine_facts
from reusebench.samplers.host import LOCAL_HOST, Host
from reusebench.storage.board_storage import board_name

__all__ = ["LOCAL_SITE", "LocalSite", "Site"]


class Site(Protocol):
    """This machine or a remote board: programs are started, marked and waited for here.

    On a remote board every method may raise ConnectionLost, and so may the methods of the marks
    and programs that it returns.
    """

    #: The source of all readings.
    host: Host

    def facts(self) -> dict[str, Any]:
        """Return the facts about the machine to store with the run."""

    def file_marks(self, path: Path) -> Marks:
        """Return marks from a file on the machine; raise OSError if it cannot be created."""

    def socket_marks(self, number: int) -> Marks:
        """Return marks from file descriptor `number` of the program.

        Raises RecordError if the descriptor cannot have this number.
        """

    def start(
        self, command: Sequence[str], marks: Marks, start: Start = AS_IT_IS
    ) -> RecordedProgram:
        """Start a program; raise RecordError if that fails."""

    def attach(self, pid: int) -> RecordedProgram:
        """Return a program that already runs; raise RecordError if there is none."""

    def wait(self, descriptors: Sequence[int], limit_s: float) -> None:
        """Wait up to `limit_s` until a descriptor is readable or the program has sent something."""


class LocalSite:
    """This machine."""

    host: Host = LOCAL_HOST

    def facts(self) -> dict[str, Any]:
        """Return the facts that pytest-benchmark stores, and the environment."""
        system = os.uname()
        facts = machine_facts(LOCAL_HOST, system.nodename, system.machine)
        return {**facts, "reusebench": environment(LOCAL_HOST, board_name())}

    def file_marks(self, path: Path) -> Marks:
        """Return marks from a file."""
        return FileMarks(path)

    def socket_marks(self, number: int) -> Marks:
        """Return marks from a file descriptor of the program."""
        return SocketMarks(number)

    def start(
        self, command: Sequence[str], marks: Marks, start: Start = AS_IT_IS
    ) -> RecordedProgram:
        """Start a program that inherits this process's input, and its output unless redirected."""
        variables = {**start.variables, **marks.environment}
        return StartedProgram(command, replace(start, variables=variables), marks.actions)

    def attach(self, pid: int) -> RecordedProgram:
        """Return a program that already runs."""
        return RunningProgram(LOCAL_HOST, pid)

    def wait(self, descriptors: Sequence[int], limit_s: float) -> None:
        """Wait until a descriptor is readable, up to `limit_s`."""
        select.select(descriptors, [], [], limit_s)


LOCAL_SITE = LocalSite()
