"""`reusebench record`: records a program, stores its phases like any result, prints a summary."""

from __future__ import annotations

import datetime
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.recorder.errors import RecordError
from reusebench.recorder.keeping import RunKeeper, made_in_fork
from reusebench.recorder.marks import Marks
from reusebench.recorder.program import RecordedProgram, command_of
from reusebench.recorder.recorder import record
from reusebench.recorder.recording import Recording
from reusebench.recorder.repeats import Repeats, name_of
from reusebench.recorder.site import Site
from reusebench.recorder.stored_form import outcome_of, run_document
from reusebench.recorder.summary import print_figures, print_notice, print_summary
from reusebench.samplers.npu import has_rknpu
from reusebench.samplers.system_memory import read_system
from reusebench.storage.recorded_program import Program
from reusebench.storage.refused_run import refusal_of, where_it_is
from reusebench.targets.errors import ConnectionLost

__all__ = ["Task", "check_storage", "record_program", "run_keeper"]

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
    if not session.repeats.recordings:
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
    check_storage(task.storage, task.project)
    read_system(task.site.host)


def check_storage(storage: Path, project: Path) -> None:
    """Raise RecordError if a run of the project cannot be stored there."""
    if not project.is_dir():
        raise RecordError(
            f"{project} is not a folder. --project DIR is the checkout whose commit is stored"
            " with the run"
        )
    try:
        storage.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=storage):
            pass
    except OSError as error:
        raise RecordError(
            f"cannot store in {storage} ({error.strerror}). Name another folder with --storage DIR"
        ) from None


class _Session:
    """The repeats of one task, and the run in which they are stored."""

    def __init__(self, task: Task) -> None:
        self._task = task
        words = task.command or command_of(task.site.host, task.pid or 0)
        name = task.name or name_of(words)
        self._keeper = run_keeper(task.storage, task.project, task.site)
        self.repeats = Repeats(
            self._keeper.run, name, words, task.storage, is_attached=task.pid is not None
        )

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
                if not self.repeats.recordings:
                    raise
                return self._connection_lost(str(error))
            self.repeats.add(recording)
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
        program = self.repeats.program(outcome)
        storage = self._task.storage
        try:
            stored = self._keeper.finish([program])
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
        self.repeats.write_traces(stored.parent.parent)
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
            return record(site, start, marks, has_rknpu(site.host), print_notice, self._keep)
        finally:
            marks.close()

    def _keep(self, recording: Recording) -> None:
        """Store the readings of a repeat that is still running."""
        self._keeper.keep([self.repeats.unfinished_program(recording)])


def run_keeper(storage: Path, project: Path, site: Site) -> RunKeeper:
    """Return the keeper of a new run, which the time of its start names."""
    started = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d_%H%M%S}"
    document = made_in_fork(lambda: run_document(project, site.facts()))
    return RunKeeper(storage, started, document)


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
