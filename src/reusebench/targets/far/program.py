"""Any program on a far board, whose input and output are passed on as they come."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.process import HAS_MARKS, FarProcess

__all__ = ["FarProgram"]

_OUTPUT = 1
_ERRORS = 2
_MARKS = 3


class FarProgram(FarProcess):
    """A program; every method but close raises ConnectionLost."""

    #: In place of the ledger there are marks, which can be answered.
    _pipe_flag = HAS_MARKS
    #: What their socket is called is said by who starts it.
    _pipe_variables: Mapping[str, str] = {}
    #: Its errors are passed on as they come.
    _has_words = False
    #: It is the user's, and measured as it is.
    _is_victim = False

    def __init__(
        self,
        connection: Connection,
        command: Sequence[str],
        environment: Mapping[str, str],
        has_marks: bool,
    ) -> None:
        """Start it in the folder that a login begins in; NotStarted where it cannot be."""
        self._written: list[tuple[int, bytes]] = []
        super().__init__(connection, command, "", environment, has_marks)

    def written(self) -> list[tuple[int, bytes]]:
        """Return what has come since the last call, in order: the file descriptor it was written
        to, and the data.
        """
        written = self._written
        self._written = []
        return written

    def write(self, data: bytes) -> int:
        """Pass data to its input; return how many bytes it took. Nothing ends the input."""
        try:
            return self._write(data)[0]
        except BrokenPipeError:
            return len(data)

    def answer(self, data: bytes) -> None:
        """Answer its marks with data, as far as it reads answers."""
        self._connection.request(Request("y", data))

    def kill(self) -> None:
        """Kill it and all its descendants; one that hangs in the kernel stays."""
        with contextlib.suppress(TimeoutError):
            self._connection.request(Request("e"))

    def _take_output(self, data: bytes) -> None:
        self._written.append((_OUTPUT, data))

    def _take_errors(self, data: bytes) -> None:
        self._written.append((_ERRORS, data))

    def _take_ledger(self, data: bytes) -> None:
        self._written.append((_MARKS, data))
