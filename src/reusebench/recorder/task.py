"""`reusebench record`: records a program, stores its phases like any result, prints a summary."""

from __future__ import annotations

import datetime
import os
import re
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.recorder.errors import RecordError
from reusebench.recorder.keeping import RunKeeper, made_in_fork
from reusebench.recorder.marks import Marks
from reusebench.recorder.phases import phase_name
from reusebench.recorder.program import RecordedProgram, command_of
from reusebench.recorder.recorder import SAMPLE_HZ, record
from reusebench.recorder.recording import Recording
from reusebench.recorder.site import Site
from reusebench.recorder.stored_form import (
    outcome_of,
    run_document,
    stored_phases,
    stored_repeat,
    trace_of,
)
from reusebench.recorder.summary import print_figures, print_notice, print_summary
from reusebench.samplers.npu import has_npu
from reusebench.samplers.system_memory import read_system
from reusebench.storage.recorded_program import PROGRAM_SCHEMA, Program, ProgramRepeat
from reusebench.storage.refused_run import refusal_of, where_it_is
from reusebench.storage.trace import write_trace
from reusebench.targets.errors import ConnectionLost

__all__ = ["Task", "record_program"]

#: Characters that names of trace files do not have.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
#: Exit codes if the program succeeded, and its run is stored elsewhere, or not at all.
_MISPLACED = 1
_NOT_STORED = 2
#: Exit code if the ending of the program is unknown, as with ssh.
_LOST = 255


@dataclass(frozen=True)
class Task:
    """The program to record, and the options for it."""

    site: Site
    #: Name in reports; None means the base name of the command.
    name: str | None
    #: Command line; empty if a running process is recorded.
    command: Sequence[str]
    pid: int | None
    #: File with the program's marks, if any.
    phases: Path | None
    #: File descriptor with the program's marks, if any.
    marker: int | None
    repeats: int
    #: Exit codes of the program, besides 0, that are a success.
    ok_exits: frozenset[int]
    storage: Path
    #: Checkout whose commit is stored.
    project: Path


def record_program(task: Task) -> int:
    """Record, store and show; return the exit code of the program, as shells give it.

    Raise RecordError if nothing can be recorded.
    """
    _check(task)
    session = _Session(task)
    outcome, code = session.record_all()
    if not session.recordings:
        return code

    # Ctrl-C does not prevent storing.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stored_code = session.finish(outcome)
        return code or stored_code
    finally:
        signal.signal(signal.SIGINT, before)


def _check(task: Task) -> None:
    """Raise RecordError or SamplerError for what prevents a recording, before anything runs."""
    if not task.project.is_dir():
        raise RecordError(
            f"{task.project} is not a folder. --project DIR is the checkout whose commit is stored"
            " with the run"
        )
    try:
        task.storage.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=task.storage):
            pass
    except OSError as error:
        raise _cannot_store(task.storage, error) from None
    read_system(task.site.host)


def _cannot_store(storage: Path, error: OSError) -> RecordError:
    return RecordError(
        f"cannot store in {storage} ({error.strerror}). Name another folder with --storage DIR"
    )


class _Session:
    """The repeats of one task, and the run in which they are stored."""

    def __init__(self, task: Task) -> None:
        self._task = task
        words = task.command or command_of(task.site.host, task.pid or 0)
        # A word of a command line may hold any bytes; the stored form is text.
        self._command = tuple(os.fsencode(word).decode(errors="replace") for word in words)
        base_name = os.fsencode(Path(self._command[0]).name)
        self._name = task.name or phase_name(base_name) or "program"
        # The time of the start names the run.
        started = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d_%H%M%S}"
        self._run = f"{started}-{os.getpid()}"

        document = made_in_fork(lambda: run_document(task.project, task.site.facts()))
        self._keeper = RunKeeper(task.storage, started, document)
        self.recordings: list[Recording] = []
        self._stored: list[ProgramRepeat] = []

    def record_all(self) -> tuple[str, int]:
        """Record repeats until one fails or the user ends one; return its outcome and exit code."""
        outcome = "ok"
        code = 128 + signal.SIGINT
        for _ in range(self._task.repeats):
            try:
                recording = self._record_one()
            except KeyboardInterrupt:  # before the program has started
                return outcome, code
            except ConnectionLost as error:  # before the program has started
                if not self.recordings:
                    raise
                return self._connection_lost(str(error))
            self._add(recording)
            if recording.lost:
                return self._connection_lost(recording.lost)
            outcome = outcome_of(recording, self._task.ok_exits)
            code = recording.ending.shell_code
            if outcome == "ok" and recording.ending.exit_code in self._task.ok_exits:
                code = 0
            if outcome != "ok" or recording.ended_by:
                break
        return outcome, code

    def _connection_lost(self, cause: str) -> tuple[str, int]:
        print_notice(cause)
        print_notice("the readings until then are stored")
        return "connection_lost", _LOST

    def finish(self, outcome: str) -> int:
        """Store the run and show it; return the exit code if the program's own is 0."""
        program = self._program(outcome, self.recordings, self._stored)
        storage = self._task.storage
        try:
            stored = self._keeper.finish(program)
        except OSError as error:
            return self._finish_elsewhere(program, error)
        print_summary(program, stored, storage)
        return 0

    def _finish_elsewhere(self, program: Program, refusal: OSError) -> int:
        """Store the run among the temporary files: its storage has refused it."""
        storage = self._task.storage
        try:
            stored = self._keeper.finish_elsewhere()
        except OSError as error:
            print_figures(program)
            rest = "Nothing of this run is stored"
            if self._keeper.path:
                rest = f"What was stored before is in {self._keeper.path}"
            print_notice(
                f"{refusal_of(storage, refusal)}, nor can temporary files ({error.strerror})."
                f" {rest}"
            )
            return _NOT_STORED
        for number, recording in enumerate(self.recordings, start=1):
            self._write_trace(stored.parent.parent, number, recording)
        print_summary(program, stored, stored.parent.parent)
        print_notice(where_it_is(storage, refusal, stored))
        return _MISPLACED

    def _record_one(self) -> Recording:
        task = self._task
        site = task.site
        marks = _marks(task)

        def start() -> RecordedProgram:
            if task.pid:
                return site.attach(task.pid)
            return site.start(task.command, marks)

        try:
            return record(site, start, marks, has_npu(site.host), print_notice, self._keep)
        finally:
            marks.close()

    def _keep(self, recording: Recording) -> None:
        """Store the readings of a repeat that is still running."""
        repeats = [*self._stored, stored_repeat(recording, trace="")]
        self._keeper.keep(self._program("cut_off", [*self.recordings, recording], repeats))

    def _add(self, recording: Recording) -> None:
        self.recordings.append(recording)
        trace = self._write_trace(self._task.storage, len(self.recordings), recording)
        self._stored.append(stored_repeat(recording, trace))

    def _write_trace(self, storage: Path, number: int, recording: Recording) -> str:
        safe_name = _UNSAFE.sub("-", self._name).strip("-.") or "program"
        return write_trace(storage, self._run, f"{safe_name}-{number}", trace_of(recording))

    def _program(
        self, outcome: str, recordings: Sequence[Recording], repeats: Sequence[ProgramRepeat]
    ) -> Program:
        return Program(
            schema=PROGRAM_SCHEMA,
            run=self._run,
            name=self._name,
            command=self._command,
            attached=self._task.pid is not None,
            sample_hz=SAMPLE_HZ,
            outcome=outcome,
            repeats=tuple(repeats),
            phases=stored_phases(recordings),
        )


def _marks(task: Task) -> Marks:
    if task.marker is not None:
        return task.site.socket_marks(task.marker)
    if task.phases is None:
        return Marks()
    try:
        return task.site.file_marks(task.phases)
    except OSError as error:
        raise RecordError(
            f"the file of phases {task.phases} cannot be written ({error.strerror}). Name another"
            " with --phases FILE"
        ) from None
