"""The virtual board on which a program is recorded: a process of this machine, with a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reusebench.accounting.ledger import Ledger, LedgerError, read_ledger
from reusebench.recorder.errors import RecordError
from reusebench.recorder.marks import PHASES_VARIABLE, Marks
from reusebench.recorder.program import AS_IT_IS, RecordedProgram, Start, StartedProgram
from reusebench.recorder.site import LocalSite
from reusebench.system.cache import CacheError
from reusebench.targets.ledger_file import LedgerFile
from reusebench.targets.machine import Reach
from reusebench.targets.process import LEDGER_VARIABLE
from reusebench.targets.vboard.user_program import UserBoard

__all__ = ["VirtualSite"]


class VirtualSite(LocalSite):
    """A virtual board."""

    def __init__(self, board: UserBoard, facts: dict[str, Any]) -> None:
        """`facts` are of this machine and of the board."""
        self._board = board
        self._facts = facts

    @property
    def architecture(self) -> str:
        """The architecture of its programs."""
        return self._board.board.architecture

    def facts(self) -> dict[str, Any]:
        """Return the facts."""
        return {**super().facts(), **self._facts}

    def start(
        self, command: Sequence[str], marks: Marks, start: Start = AS_IT_IS
    ) -> RecordedProgram:
        """Start a program on the board, with this process's input and output."""
        try:
            ledger = LedgerFile()
        except (CacheError, OSError) as error:
            raise RecordError(f"the ledger of NPU buffers: {error}") from None
        variables = {
            **start.variables,
            **marks.environment,
            LEDGER_VARIABLE: str(ledger.path),
        }
        phases = marks.environment.get(PHASES_VARIABLE)
        reach = Reach(writable=(phases,)) if phases else Reach()
        words, there = self._board.confine(command, variables, reach)
        return _VirtualProgram(words, replace(start, variables=there), marks, ledger)


class _VirtualProgram(StartedProgram):
    """A program on the board, which writes a ledger of its NPU buffers."""

    def __init__(
        self, command: Sequence[str], start: Start, marks: Marks, ledger: LedgerFile
    ) -> None:
        self._ledger = ledger
        try:
            super().__init__(command, start, marks.actions)
        except RecordError:
            ledger.close()
            raise

    def ledger(self) -> Ledger | None:
        """Return the ledger; None if the program did not load the library that keeps it."""
        try:
            ledger = read_ledger(self._ledger.content())
        except LedgerError as error:
            raise RecordError(
                f"the program has written into the ledger of its NPU buffers: {error}"
            ) from None
        return None if ledger.mode is None else ledger

    def close(self) -> None:
        """Remove the ledger's file."""
        super().close()
        self._ledger.close()
