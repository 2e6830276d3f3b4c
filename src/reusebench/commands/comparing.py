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
from reusebench.apply.comparison.report_file import FarReportFile, LocalReportFile, ReportFile
from reusebench.apply.comparison.task import ComparisonTask
from reusebench.apply.comparison.verdict import judge
from reusebench.apply.errors import ApplyError
from reusebench.apply.executable import Executable, find_executable
from reusebench.apply.launch import applied_variables, new_report_folder
from reusebench.apply.outcome import Outcome
from reusebench.apply.plan import PlanSettings
from reusebench.apply.plan_result import plan_lines
from reusebench.apply.report import ProcessReport
from reusebench.apply.settings import (
    HOOKS,
    PLAN_NAME,
    REPORT_NAME,
    ApplySettings,
    with_library,
)
from reusebench.apply.summary import report_lines
from reusebench.apply.waiting import started_environment
from reusebench.commands.reply import give, reply_of, warn
from reusebench.commands.results import ApplyResult
from reusebench.commands.sites import BoardFiles, site_of
from reusebench.recorder.far_site import FarSite
from reusebench.recorder.marks import Marks
from reusebench.recorder.program import Start
from reusebench.recorder.recorder import record
from reusebench.recorder.recording import Recording
from reusebench.recorder.repeats import name_of
from reusebench.recorder.site import Site
from reusebench.recorder.task import check_storage
from reusebench.recorder.virtual_site import VirtualSite
from reusebench.samplers.npu import has_rknpu
from reusebench.storage.board_storage import board_storage, far_storage
from reusebench.storage.formatting import mib
from reusebench.storage.measured_figure import Figure
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.machine import Reach
from reusebench.targets.programs import APPLY, UCLIBC

__all__ = ["ComparisonOptions", "compare_program", "run_on_board"]

_VIRTUAL = "vboard:"
_ARCHITECTURES = ("aarch64", "armhf")
_FAILED = 1
#: The package in the folder that is in PYTHONPATH.
_HOOKS_PACKAGE = "reusebench_hooks"


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
    report: ReportFile
    #: File with the plan, if there is one.
    plan: Path | None

    def complete(self, settings: ApplySettings) -> ApplySettings:
        """Return the settings with the files that are there."""
        return replace(settings, report=self.report.path, plan=self.plan)


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
    storage = options.storage or _storage_of(target)
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
            settings=place.complete(settings),
            repeats=options.repeats,
            timeout_s=options.timeout_s,
            duration_s=options.duration_s,
            storage=storage,
            project=project,
            computes=not isinstance(place.site, VirtualSite),
        )
        measured = measure(task, _notice)
    if measured.interrupted_by:
        _notice("you have ended a run, so that nothing is compared")
        return 128 + measured.interrupted_by
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
        place.report.empty()
        variables = place.variables(place.complete(settings))
        start = Start(variables, Path("/dev/stderr") if reply_of().is_json else None)
        site = place.site
        recording = record(
            site,
            lambda: site.start(command, Marks(), start),
            Marks(),
            has_rknpu(site.host),
            notify=_notice,
            keep=lambda _: None,
        )
        reports = place.report.reports()
    remarks = []
    if recording.npu.values:
        highest = Figure(max(recording.npu.values))
        remarks.append(f"NPU memory: at most {mib(highest, npu=True)} MiB")
    elif isinstance(site, VirtualSite):
        remarks.append("NPU memory is not known: the program did not load the board's library")
    wrong_reads = len(recording.ledger.wrong_reads()) if recording.ledger else 0
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


def _storage_of(target: str | None) -> Path:
    is_far = target is not None and not target.startswith(_VIRTUAL)
    return far_storage(target) if target and is_far else board_storage()


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
    folder = new_report_folder(plan)
    plan_file = folder / PLAN_NAME if plan else None
    try:
        if target is None or target.startswith(_VIRTUAL):
            with _near_place(target, command, files, folder / REPORT_NAME, plan_file) as place:
                yield place
            return
        with site_of(target, command, files) as site:
            assert isinstance(site, FarSite)
            board = site.board
            plan_there = Path(board.push(str(plan_file))) if plan_file else None
            yield _Place(site, _far_variables(board), FarReportFile(board), plan_there)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _near_place(
    target: str | None,
    command: Sequence[str],
    files: BoardFiles,
    report: Path,
    plan_file: Path | None,
) -> Iterator[_Place]:
    """Yield this machine, or a virtual board."""
    environment = started_environment()
    executable = find_executable(command, environment)
    if executable.is_static:
        raise ApplyError(
            f"{executable.path}: it is linked statically, so that nothing can be preloaded. Link it"
            " with shared libraries"
        )
    readable = [str(APPLY.folder(architecture)) for architecture in _ARCHITECTURES]
    if plan_file:
        readable.append(str(plan_file))
    files = replace(files, own=Reach(tuple(readable), (str(report),)))
    with site_of(target, command, files) as site:
        variables = _variables(site, executable, environment)
        yield _Place(site, variables, LocalReportFile(report), plan_file)


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


def _far_variables(board: FarMachine) -> Callable[[ApplySettings], Mapping[str, str]]:
    """Push library and hooks to a remote board; return the function for the variables there."""
    form = UCLIBC if board.has_uclibc() else board.architecture
    APPLY.ensure(form, _notice)
    library = board.push(str(APPLY.path(form)))
    files = {str(path.relative_to(HOOKS)): path for path in sorted(HOOKS.rglob("*.py"))}
    hooks = board.files.push_tree(files)
    packages = board.variable("PYTHONPATH")
    variables = {
        **with_library(library, {"LD_PRELOAD": board.variable("LD_PRELOAD")}),
        "PYTHONPATH": f"{hooks}:{packages}" if packages else hooks,
    }
    return lambda settings: {**settings.variables(), **variables}


def _check_not_applied() -> None:
    """Raise ApplyError if all that starts from here is applied already."""
    packages = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    names = []
    if Path(APPLY.main).stem in os.environ.get("LD_PRELOAD", ""):
        names.append("LD_PRELOAD")
    if any(Path(package, _HOOKS_PACKAGE).is_dir() for package in packages if package):
        names.append("PYTHONPATH")
    if names:
        raise ApplyError(
            f"{' and '.join(names)} in the environment applies every program, so that none runs as"
            " it is. Unset that for --compare"
        )


def _notice(line: str) -> None:
    click.echo(f"reusebench: {line}", err=True)
