"""`reusebench record`: a program is recorded, its phases are stored as any result is, and shown in short."""

from __future__ import annotations

import datetime
import os
import re
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recorder.errors import RecordError
from recorder.machine import Machine
from recorder.phases import Marks, phase_name
from recorder.program import RecordedProgram, command_of
from recorder.recording import SAMPLE_HZ, Recording, record
from recorder.stored_form import outcome_of, run_document, stored_phases, stored_repeat, trace_of
from recorder.summary import print_notice, print_summary
from samplers.npu import has_npu
from storage.program import PROGRAM_SCHEMA, Program
from storage.run_file import PROGRAMS, save_run
from storage.trace import write_trace
from targets.errors import ConnectionLost

__all__ = ["Task", "record_program"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NOT_STORED = 2
#: As ssh has it: how the program ended is not known.
_LOST = 255


@dataclass(frozen=True)
class Task:
    """What to record, and how."""

    machine: Machine
    #: None: the base name of the command.
    name: str | None
    #: Empty: a running process is recorded.
    command: Sequence[str]
    pid: int | None
    #: Where its marks come from; None: not from there.
    phases: Path | None
    marker: int | None
    repeats: int
    storage: Path
    #: The checkout whose commit is stored.
    project: Path


def record_program(task: Task) -> int:
    """Record, store and show; return the exit code of the program, as shells give it.

    Raise RecordError where nothing can be recorded.
    """
    _check(task)
    # An argument may be any bytes; what is stored is text.
    words = task.command or command_of(task.machine.host, task.pid or 0)
    command = [os.fsencode(word).decode(errors="replace") for word in words]
    started = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d_%H%M%S}"
    recordings, outcome, code = _record_all(task)
    if not recordings:
        return code
    # A Ctrl-C does not keep from storing what was measured.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program, stored = _store(task, command, started, recordings, outcome)
    except OSError as error:
        print_notice(str(_cannot_store(task.storage, error)))
        return code or _NOT_STORED
    else:
        print_summary(program, stored, task.storage)
        return code
    finally:
        signal.signal(signal.SIGINT, before)


def _check(task: Task) -> None:
    """Raise RecordError for what the user can have got wrong, before anything runs."""
    if not task.project.is_dir():
        raise RecordError(
            f"{task.project} is not a folder. --project DIR is the checkout whose commit is stored with the run"
        )
    try:
        task.storage.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=task.storage):
            pass
    except OSError as error:
        raise _cannot_store(task.storage, error) from None


def _cannot_store(storage: Path, error: OSError) -> RecordError:
    return RecordError(f"cannot store in {storage} ({error.strerror}). Name another folder with --storage DIR")


def _record_all(task: Task) -> tuple[list[Recording], str, int]:
    """Return the repeats, up to the first that fails or that the user ends, what became of the last, and its code."""
    recordings: list[Recording] = []
    outcome, code = "ok", 128 + signal.SIGINT
    while len(recordings) < task.repeats and outcome == "ok" and not (recordings and recordings[-1].ended_by):
        try:
            recordings.append(_record_one(task))
        except KeyboardInterrupt:  # before the program has started
            break
        except ConnectionLost as error:  # so, too
            if not recordings:
                raise
            lost: str | None = str(error)
        else:
            outcome, code, lost = outcome_of(recordings[-1]), recordings[-1].ending.shell_code, recordings[-1].lost
        if lost:
            print_notice(lost)
            print_notice("what was read until then is stored")
            outcome, code = "connection_lost", _LOST
    return recordings, outcome, code


def _record_one(task: Task) -> Recording:
    machine, marks = task.machine, _marks(task)

    def start() -> RecordedProgram:
        return machine.attach(task.pid) if task.pid else machine.start(task.command, marks)

    try:
        return record(machine, start, marks, has_npu(machine.host), print_notice)
    finally:
        marks.close()


def _marks(task: Task) -> Marks:
    if task.marker is not None:
        return task.machine.pipe_marks(task.marker)
    if task.phases is None:
        return Marks()
    try:
        return task.machine.file_marks(task.phases)
    except OSError as error:
        raise RecordError(
            f"the file of phases {task.phases} cannot be written ({error.strerror}). Name another with --phases FILE"
        ) from None


def _store(
    task: Task, command: Sequence[str], started: str, recordings: Sequence[Recording], outcome: str
) -> tuple[Program, Path]:
    """Return the stored form, and the file that holds it; `started` is the moment, which names the run."""
    run = f"{started}-{os.getpid()}"
    name = task.name or phase_name(os.fsencode(Path(command[0]).name)) or "program"
    safe = _UNSAFE.sub("-", name).strip("-.") or "program"
    repeats = []
    for number, recording in enumerate(recordings, start=1):
        trace = write_trace(task.storage, run, f"{safe}-{number}", trace_of(recording))
        repeats.append(stored_repeat(recording, trace))
    program = Program(
        schema=PROGRAM_SCHEMA,
        run=run,
        name=name,
        command=tuple(command),
        attached=task.pid is not None,
        sample_hz=SAMPLE_HZ,
        outcome=outcome,
        repeats=tuple(repeats),
        phases=stored_phases(recordings),
    )
    document = run_document(task.project, task.machine.facts())
    return program, save_run(task.storage, {**document, PROGRAMS: [program]}, started)
