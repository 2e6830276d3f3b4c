"""The runs of both sides in turns, each recorded, and the runs whose outputs are compared."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reusebench.apply.comparison.outputs import digests_of
from reusebench.apply.comparison.runs import Run, Side
from reusebench.apply.comparison.task import APPLIED, AS_IT_IS, ComparisonTask
from reusebench.apply.errors import ApplyError
from reusebench.recorder.keeping import RunKeeper
from reusebench.recorder.marks import Marks
from reusebench.recorder.program import Start
from reusebench.recorder.recorder import record
from reusebench.recorder.recording import Recording
from reusebench.recorder.repeats import Repeats
from reusebench.recorder.stored_form import outcome_of
from reusebench.recorder.task import run_keeper
from reusebench.samplers.npu import has_rknpu
from reusebench.storage.recorded_program import Program

__all__ = ["Measured", "measure"]

_S = 10**9
#: Limit of a run without --timeout: for the first one, and for others by the longest before.
_FIRST_LIMIT_S = 3600.0
_LEAST_LIMIT_S = 60.0
_LIMIT_FACTOR = 10
#: The end of standard error that is kept of a run that failed.
_LAST_BYTES = 2000
#: Standard output of which more than the digest is kept.
_LARGEST_OUTPUT = 16 << 20
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class Measured:
    """Both sides, and the run in which they are stored."""

    as_is: Side
    applied: Side
    #: None if no run was measured.
    stored: Path | None

    @property
    def interrupted_by(self) -> int | None:
        """The signal with which the user ended a run early; None if all ran to their ends."""
        runs = [*self.as_is.all_runs, *self.applied.all_runs]
        return next((run.recording.ended_by for run in runs if run.recording.ended_by), None)


def measure(task: ComparisonTask, notify: Callable[[str], None]) -> Measured:
    """Run the program as it is and applied, in turns; `notify` shows the progress.

    It ends early if the user ends a run, or if a run crashes or hangs. Raises RecordError if the
    program cannot be started, and ApplyError if the runs cannot be finished or stored.
    """
    return _Measuring(task, notify).measure()


class _Measuring:
    def __init__(self, task: ComparisonTask, notify: Callable[[str], None]) -> None:
        self._task = task
        self._notify = notify
        self._as_is = Side(AS_IT_IS)
        self._applied = Side(APPLIED)
        self._keeper: RunKeeper = run_keeper(task.storage, task.project, task.site)
        self._stored = {
            side.name: Repeats(
                self._keeper.run, f"{task.name} {side.name}", task.command, task.storage
            )
            for side in (self._as_is, self._applied)
        }
        self._longest_s = 0.0

    def measure(self) -> Measured:
        # The pair with digests comes first: it also fills the caches of files and models.
        is_whole = self._check(self._as_is) and self._check(self._applied)
        if is_whole and self._outputs_differ():
            is_whole = self._check(self._as_is)
        for number in range(self._task.repeats if is_whole else 0):
            sides = (self._as_is, self._applied)
            if not all(self._measure(side, number) for side in sides):
                break
        programs = self._programs()
        return Measured(self._as_is, self._applied, self._store(programs) if programs else None)

    def _store(self, programs: Sequence[Program]) -> Path:
        try:
            return self._keeper.finish(programs)
        except OSError as error:
            raise ApplyError(
                f"the runs cannot be stored in {self._task.storage} ({error.strerror}). Name"
                " another folder with --storage DIR"
            ) from None

    def _check(self, side: Side) -> bool:
        """Run with digests; return whether to go on."""
        settings = replace(
            self._task.settings,
            report=self._task.report.path,
            has_digests=True,
            is_off=side is self._as_is,
        )
        run = self._run(self._task.variables(settings), lambda _: None)
        side.checked.append(run)
        return self._goes_on(side, run, "outputs")

    def _measure(self, side: Side, number: int) -> bool:
        """Run and keep the recording; return whether to go on."""
        variables: Mapping[str, str] = {}
        if side is self._applied:
            settings = replace(self._task.settings, report=self._task.report.path)
            variables = self._task.variables(settings)
        stored = self._stored[side.name]

        def keep(recording: Recording) -> None:
            running = stored.unfinished_program(recording)
            others = [other for other in self._programs() if other.name != running.name]
            self._keeper.keep([*others, running])

        run = self._run(variables, keep)
        side.runs.append(run)
        stored.add(run.recording)
        return self._goes_on(side, run, f"run {number + 1} of {self._task.repeats}")

    def _run(self, variables: Mapping[str, str], keep: Callable[[Recording], None]) -> Run:
        task = self._task
        limit_s = task.duration_s or self._limit_s()
        task.report.empty()
        _rewind_input()
        marks = Marks()
        with tempfile.TemporaryDirectory(prefix="reusebench-compare-") as folder:
            start = Start(variables, Path(folder, "output"), Path(folder, "errors"))
            recording = record(
                task.site,
                lambda: task.site.start(task.command, marks, start),
                marks,
                has_rknpu(task.site.host),
                self._notify,
                keep,
                limit_s,
            )
            output = _output_in(Path(folder, "output"))
            errors = Path(folder, "errors").read_bytes()[-_LAST_BYTES:]
        self._longest_s = max(self._longest_s, (recording.end_ns - recording.begin_ns) / _S)
        return Run(
            recording,
            output,
            errors.decode(errors="replace"),
            task.report.reports(),
            is_hung=recording.is_cut and task.duration_s is None,
        )

    def _limit_s(self) -> float:
        if self._task.timeout_s is not None:
            return self._task.timeout_s
        if not self._longest_s:
            return _FIRST_LIMIT_S
        return max(_LEAST_LIMIT_S, _LIMIT_FACTOR * self._longest_s)

    def _goes_on(self, side: Side, run: Run, words: str) -> bool:
        if run.recording.lost:
            raise ApplyError(f"{run.recording.lost}. Nothing is compared")
        seconds = (run.recording.end_ns - run.recording.begin_ns) / _S
        self._notify(f"{words}, {side.name}: {run.ending}, {seconds:.1f} s")
        return not (run.recording.ended_by or run.has_failed)

    def _outputs_differ(self) -> bool:
        before, after = self._as_is.checked[0], self._applied.checked[0]
        return before.output != after.output or digests_of(before) != digests_of(after)

    def _programs(self) -> tuple[Program, ...]:
        programs = []
        for side in (self._as_is, self._applied):
            if side.runs:
                last = side.runs[-1]
                outcome = "hung" if last.is_hung else outcome_of(last.recording)
                if last.recording.is_cut and not last.has_failed:
                    outcome = "ok"
                programs.append(self._stored[side.name].program(outcome))
        return tuple(programs)


def _output_in(file: Path) -> bytes:
    """Return the content of the file; of a large one a line with its size and digest."""
    size_bytes = file.stat().st_size
    if size_bytes <= _LARGEST_OUTPUT:
        return file.read_bytes()
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while part := opened.read(_PART_BYTES):
            digest.update(part)
    return f"{size_bytes} bytes, SHA-256 {digest.hexdigest()}".encode()


def _rewind_input() -> None:
    """Let each run read the same file as standard input; a pipe cannot be read twice."""
    if sys.stdin is not None and sys.stdin.seekable():
        os.lseek(sys.stdin.fileno(), 0, os.SEEK_SET)
