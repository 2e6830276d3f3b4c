"""`reusebench apply` with --compare or on a board: the program runs under the recorder's eyes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from reusebench.apply.comparison.measuring import measure
from reusebench.apply.comparison.task import ComparisonTask
from reusebench.apply.comparison.verdict import judge
from reusebench.apply.errors import ApplyError
from reusebench.apply.executable import Executable, find_executable
from reusebench.apply.launch import applied_variables, new_report_folder
from reusebench.apply.outcome import Outcome
from reusebench.apply.plan import PlanSettings
from reusebench.apply.plan_result import plan_lines
from reusebench.apply.report import ProcessReport, read_reports
from reusebench.apply.settings import PLAN_NAME, PREFIX, REPORT_NAME, ApplySettings
from reusebench.apply.summary import report_lines
from reusebench.apply.waiting import started_environment
from reusebench.commands.reply import give, reply_of, warn
from reusebench.commands.results import ApplyResult
from reusebench.commands.sites import BoardFiles, site_of
from reusebench.recorder.marks import Marks
from reusebench.recorder.program import Start
from reusebench.recorder.recorder import record
from reusebench.recorder.recording import Recording
from reusebench.recorder.repeats import name_of
from reusebench.recorder.site import Site
from reusebench.recorder.task import check_storage
from reusebench.recorder.virtual_site import VirtualSite
from reusebench.storage.board_storage import board_storage
from reusebench.storage.formatting import mib
from reusebench.storage.measured_figure import Figure
from reusebench.targets.machine import Reach
from reusebench.targets.programs import APPLY

__all__ = ["ComparisonOptions", "compare_program", "run_on_board"]

_VIRTUAL = "vboard:"
_ARCHITECTURES = ("aarch64", "armhf")
_FAILED = 1


@dataclass(frozen=True)
class ComparisonOptions:
    """The options that are for --compare alone."""

    repeats: int
    timeout_s: float | None
    duration_s: float | None
    is_strict: bool
    name: str | None
    storage: Path | None


@dataclass(frozen=True)
class _Place:
    """The place where the program runs, and what it needs there."""

    site: Site
    variables: Callable[[ApplySettings], Mapping[str, str]]
    report: Path


def compare_program(
    target: str | None,
    command: Sequence[str],
    settings: ApplySettings,
    files: BoardFiles,
    options: ComparisonOptions,
    plan: str | None,
) -> int:
    """Compare the program as it is with itself applied; return the exit code.

    `plan` is the text for REUSEBENCH_APPLY_PLAN.
    """
    storage = options.storage or board_storage()
    project = Path()
    check_storage(storage, project)
    _check_not_applied()
    with _place(target, command, files, plan) as place:
        task = ComparisonTask(
            site=place.site,
            command=command,
            name=options.name or name_of(command),
            variables=place.variables,
            report=place.report,
            settings=settings.in_folder(place.report.parent),
            repeats=options.repeats,
            timeout_s=options.timeout_s,
            duration_s=options.duration_s,
            storage=storage,
            project=project,
            computes=target is None,
        )
        measured = measure(task, _notice)
    verdict = judge(task, measured)
    lines = [*verdict.lines(), *report_lines(verdict.reports)]
    if measured.applied.all_runs:
        recording = measured.applied.all_runs[-1].recording
        lines += _planned_lines(plan, verdict.reports, recording)
    if measured.stored:
        lines.append(f"stored in {measured.stored}")
    give(verdict.document(options.is_strict), lines)
    return verdict.exit_code(options.is_strict)


def run_on_board(
    target: str | None,
    command: Sequence[str],
    settings: ApplySettings,
    files: BoardFiles,
    plan: str | None,
) -> int:
    """Run the program applied on a board; return its exit code, or 1 if it used wrong memory."""
    with _place(target, command, files, plan) as place:
        variables = place.variables(settings.in_folder(place.report.parent))
        start = Start(variables, Path("/dev/stderr") if reply_of().is_json else None)
        site = place.site
        recording = record(
            site,
            lambda: site.start(command, Marks(), start),
            Marks(),
            has_npu=False,
            notify=_notice,
            keep=lambda _: None,
        )
        reports = read_reports(place.report)
    remarks = []
    wrong_reads = 0
    if recording.ledger:
        peak = Figure(recording.ledger.peak_bytes())
        remarks.append(f"NPU memory: at most {mib(peak, npu=True)} MiB")
        wrong_reads = len(recording.ledger.wrong_reads())
    else:
        remarks.append("NPU memory is not known: the program did not load the board's library")
    if wrong_reads:
        remarks.append(
            f"WRONG: the NPU reads memory that was freed, or is in no buffer: {wrong_reads} places."
            " Do not use this program applied, and report it"
        )
    ending = recording.ending
    outcome = Outcome(ending.exit_code, ending.signal_number)
    planned = list(_planned_lines(plan, reports, recording))
    reply_of().result = ApplyResult.of(outcome, reports, remarks, planned)
    if not reply_of().is_json:
        for line in [*report_lines(reports), *remarks, *planned]:
            _notice(line)
    return _FAILED if wrong_reads else outcome.shell_code


def _planned_lines(
    plan: str | None, reports: Sequence[ProcessReport], recording: Recording
) -> Iterator[str]:
    """Yield the lines about the plan, with the NPU memory that was taken if that is known."""
    if plan:
        taken_bytes = recording.ledger.inferring_bytes() if recording.ledger else None
        yield from plan_lines(PlanSettings.read(plan), reports, taken_bytes)


@contextmanager
def _place(
    target: str | None, command: Sequence[str], files: BoardFiles, plan: str | None
) -> Iterator[_Place]:
    """Yield the place; the folder of the report is removed afterwards."""
    if target is not None and not target.startswith(_VIRTUAL):
        raise ApplyError(
            f"--target {target}: a program is applied on this machine or on the virtual board"
            " (vboard:CHIP). Run reusebench apply on the board itself"
        )
    environment = started_environment()
    executable = find_executable(command, environment)
    if executable.is_static:
        raise ApplyError(
            f"{executable.path}: it is linked statically, so that nothing can be preloaded. Link it"
            " with shared libraries"
        )
    folder = new_report_folder(plan)
    try:
        report = folder / REPORT_NAME
        libraries = tuple(str(APPLY.folder(architecture)) for architecture in _ARCHITECTURES)
        readable = (*libraries, str(folder / PLAN_NAME)) if plan else libraries
        files = replace(files, own=Reach(readable, (str(report),)))
        with site_of(target, command, files) as site:
            yield _Place(site, _variables(site, executable, environment), report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _variables(
    site: Site, executable: Executable, environment: Mapping[str, str]
) -> Callable[[ApplySettings], Mapping[str, str]]:
    """Return the function from settings to the variables of the applied program."""
    if not isinstance(site, VirtualSite):
        return lambda settings: applied_variables(settings, executable, environment, _notice, warn)
    architecture = site.architecture
    APPLY.ensure(architecture, _notice)
    library = str(APPLY.path(architecture))
    return lambda settings: {**settings.variables(), "LD_PRELOAD": library}


def _check_not_applied() -> None:
    """Raise ApplyError if all that starts from here is applied already."""
    names = [name for name in os.environ if name.startswith(PREFIX) and not name.endswith("CACHE")]
    if names or "reusebench_apply" in os.environ.get("LD_PRELOAD", ""):
        raise ApplyError(
            f"the environment applies every program ({', '.join(names) or 'LD_PRELOAD'}), so that"
            " none runs as it is. Unset that for --compare"
        )


def _notice(line: str) -> None:
    click.echo(f"reusebench: {line}", err=True)
