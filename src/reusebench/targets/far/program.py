"""A program on a remote board whose input and output are passed on as they come."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence

from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.process import HAS_MARKS, FarProcess

__all__ = ["FarProgram"]

_OUTPUT = 1
_ERRORS = 2
_MARKS = 3
# native/reader/reader.h is the other side.
_STATE = struct.Struct("<I")
_READ = 0
_UNREAD = 1


class FarProgram(FarProcess):
    """A program. Every method except close raises ConnectionLost."""

    #: Marks, which can be answered, take the place of the ledger.
    _pipe_flag = HAS_MARKS
    #: The caller names the socket of marks in the environment.
    _pipe_variables: Mapping[str, str] = {}
    #: Standard error is passed on as it comes.
    _has_words = False
    #: The program is the user's, and is measured as it is.
    _is_victim = False

    def __init__(
        self,
        connection: Connection,
        command: Sequence[str],
        environment: Mapping[str, str],
        has_marks: bool,
    ) -> None:
        """Start the program in the login's folder; NotStarted if that fails."""
        self._written: list[tuple[int, bytes]] = []
        super().__init__(connection, command, "", environment, has_marks)

    def written(self) -> list[tuple[int, bytes]]:
        """Return the output since the last call, in order, as (file descriptor, data)."""
        written = self._written
        self._written = []
        return written

    def write(self, data: bytes) -> int:
        """Write to the program's input, which empty data ends; return the number of bytes taken."""
        try:
            return self._write(data)[0]
        except BrokenPipeError:
            return len(data)

    def answer(self, data: bytes) -> None:
        """Answer marks with data, as far as the program reads answers."""
        self._connection.request(Request("y", data))

    def are_answers_read(self) -> bool | None:
        """Whether the program has read all answers; None if it may still read them."""
        (state,) = _STATE.unpack(self._connection.request(Request("y", b"")))
        return None if state == _UNREAD else state == _READ

    def kill(self) -> None:
        """Kill the program and its descendants; a process that hangs in the kernel stays."""
        with contextlib.suppress(TimeoutError):
            self._connection.request(Request("e"))

    def _take_output(self, data: bytes) -> None:
        self._written.append((_OUTPUT, data))

    def _take_errors(self, data: bytes) -> None:
        self._written.append((_ERRORS, data))

    def _take_ledger(self, data: bytes) -> None:
        self._written.append((_MARKS, data))
