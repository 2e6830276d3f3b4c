"""The repeats of one program in a run, and their stored form."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from reusebench.recorder.phases import phase_name
from reusebench.recorder.recorder import SAMPLE_HZ
from reusebench.recorder.recording import Recording
from reusebench.recorder.stored_form import stored_phases, stored_repeat, trace_of
from reusebench.storage.recorded_program import PROGRAM_SCHEMA, Program, ProgramRepeat
from reusebench.storage.trace import write_trace

__all__ = ["Repeats", "name_of"]

#: Characters that names of trace files do not have.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def name_of(command: Sequence[str]) -> str:
    """Return the name of a command in reports: its base name."""
    return phase_name(os.fsencode(Path(command[0]).name)) or "program"


class Repeats:
    """The repeats of a program so far."""

    def __init__(
        self, run: str, name: str, command: Sequence[str], storage: Path, is_attached: bool = False
    ) -> None:
        """`run` names the run in `storage`, and `name` the program in it."""
        self.name = name
        self.recordings: list[Recording] = []
        self._run = run
        # A word of a command line may hold any bytes; the stored form is text.
        self._command = tuple(os.fsencode(word).decode(errors="replace") for word in command)
        self._storage = storage
        self._is_attached = is_attached
        self._stored: list[ProgramRepeat] = []

    def add(self, recording: Recording) -> None:
        """Add a repeat that has ended, and write its trace."""
        self.recordings.append(recording)
        trace = self._write_trace(self._storage, len(self.recordings), recording)
        self._stored.append(stored_repeat(recording, trace))

    def write_traces(self, storage: Path) -> None:
        """Write all traces once more, to another storage."""
        for number, recording in enumerate(self.recordings, start=1):
            self._write_trace(storage, number, recording)

    def program(self, outcome: str) -> Program:
        """Return the stored form."""
        return self._program(outcome, self.recordings, self._stored)

    def unfinished_program(self, running: Recording) -> Program:
        """Return the stored form with the readings so far of a repeat that still runs."""
        stored = [*self._stored, stored_repeat(running, trace="")]
        return self._program("cut_off", [*self.recordings, running], stored)

    def _write_trace(self, storage: Path, number: int, recording: Recording) -> str:
        safe_name = _UNSAFE.sub("-", self.name).strip("-.") or "program"
        return write_trace(storage, self._run, f"{safe_name}-{number}", trace_of(recording))

    def _program(
        self, outcome: str, recordings: Sequence[Recording], repeats: Sequence[ProgramRepeat]
    ) -> Program:
        return Program(
            schema=PROGRAM_SCHEMA,
            run=self._run,
            name=self.name,
            command=self._command,
            attached=self._is_attached,
            sample_hz=SAMPLE_HZ,
            outcome=outcome,
            repeats=tuple(repeats),
            phases=stored_phases(recordings),
        )
