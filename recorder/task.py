"""`reusebench record`: a program is recorded, its phases are stored as any result is, and shown in short."""

from __future__ import annotations

import datetime
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorder.errors import RecordError
from recorder.marks import FileMarks, Marks, PipeMarks
from recorder.phases import phase_name
from recorder.program import Running, Started, Watched, command_of
from recorder.recording import SAMPLE_HZ, Recording, record
from recorder.run_document import run_document
from recorder.stored_form import outcome_of, stored_phases, stored_recording, trace_of
from recorder.summary import print_summary, tell
from samplers.npu import has_npu
from samplers.system import oom_kills
from storage.program import PROGRAM_SCHEMA, Program
from storage.run_file import PROGRAMS, save_run
from storage.trace import write_trace

__all__ = ["Task", "record_program"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NOT_STORED = 2


@dataclass(frozen=True)
class Task:
    """What the user asked for."""

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
    #: Whose commit is noted.
    project: Path


def record_program(task: Task) -> int:
    """Record, store and show; return the exit code of the program, as shells give it.

    Raise RecordError where nothing can be recorded.
    """
    _check(task)
    command = [_readable(word) for word in task.command] or command_of(task.pid or 0)
    run = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d_%H%M%S}"
    recordings, outcome = _record_all(task)
    if not recordings:
        return 128 + signal.SIGINT
    name = task.name or phase_name(os.fsencode(Path(command[0]).name)) or "program"
    identity = {
        "run": f"{run}-{os.getpid()}",
        "name": name,
        "command": tuple(command),
        "attached": task.pid is not None,
    }
    code = recordings[-1].ending.shell_code
    with _undisturbed():
        try:
            program, stored = _store(task, {**identity, "sample_hz": SAMPLE_HZ}, outcome, recordings, run)
        except OSError as error:
            tell(str(_cannot_store(task.storage, error)))
            return code or _NOT_STORED
        print_summary(program, stored, task.storage)
    return code


def _readable(word: str) -> str:
    """Return an argument, which may be any bytes, as text that can be written."""
    return os.fsencode(word).decode(errors="replace")


def _check(task: Task) -> None:
    """Raise what a user can have got wrong, before anything runs."""
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


def _record_all(task: Task) -> tuple[list[Recording], str]:
    """Return the repeats, up to the first that fails or that the user ends, and what became of the last."""
    recordings: list[Recording] = []
    outcome = "ok"
    while len(recordings) < task.repeats and outcome == "ok" and not (recordings and recordings[-1].ended_by):
        killed = oom_kills()
        try:
            recordings.append(_record_one(task))
        except KeyboardInterrupt:  # before the program has started
            break
        outcome = outcome_of(recordings[-1], oom_kills() > killed)
    return recordings, outcome


def _record_one(task: Task) -> Recording:
    marks = _marks(task)

    def start() -> Watched:
        return Running(task.pid) if task.pid else Started(task.command, marks.environment, marks.actions)

    try:
        return record(start, marks, has_npu(), tell)
    finally:
        marks.close()


def _marks(task: Task) -> Marks:
    if task.marker is not None:
        return PipeMarks(task.marker)
    if task.phases is None:
        return Marks()
    try:
        return FileMarks(task.phases)
    except OSError as error:
        raise RecordError(
            f"the file of phases {task.phases} cannot be written ({error.strerror}). Name another with --phases FILE"
        ) from None


def _store(
    task: Task, identity: dict[str, Any], outcome: str, recordings: Sequence[Recording], run: str
) -> tuple[Program, Path]:
    """Return the stored form, and the file that holds it."""
    safe = _UNSAFE.sub("-", identity["name"]).strip("-.") or "program"
    repeats = []
    for number, recording in enumerate(recordings, start=1):
        trace = write_trace(task.storage, identity["run"], f"{safe}-{number}", trace_of(recording))
        repeats.append(stored_recording(recording, trace))
    program = Program(
        schema=PROGRAM_SCHEMA,
        **identity,
        outcome=outcome,
        repeats=tuple(repeats),
        phases=stored_phases(recordings),
    )
    return program, save_run(task.storage, {**run_document(task.project), PROGRAMS: [program]}, run)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no Ctrl-C keep from storing what was measured."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
