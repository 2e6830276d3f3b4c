"""Runs in short: what comparisons, histories and lists need of a stored file, and nothing else of
it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.storage.metrics import METRICS, Metric
from reusebench.storage.recorded_program import Phase, Program
from reusebench.storage.result import Result
from reusebench.storage.run_file import (
    BadFile,
    RunOrder,
    StoredRun,
    read_run_file,
    read_storage,
    run_number,
)
from reusebench.system.files import printable

__all__ = [
    "CONDITIONS",
    "Configuration",
    "Measured",
    "Run",
    "copies_in",
    "plan_digest",
    "read_run",
    "read_runs",
    "run_of",
]

#: What should be equal before two figures of one configuration are compared.
CONDITIONS = (
    "board",
    "chip",
    "runtime_version",
    "driver_version",
    "python_version",
    "models",
    "plan",
    "npu_memory_limit_bytes",
)
#: What pytest-benchmark calls a commit that is none.
_NO_COMMITS = ("unversioned", "unknown")
#: The harness's own names of runs are dates.
_DATE = re.compile(r"\d{8}_\d{6}")
#: Digits of a digest that distinguish two plans, and of a commit's id that are shown.
_DIGITS = 12
_COMMIT_DIGITS = 10


@dataclass(frozen=True, order=True)
class Configuration:
    """What was measured, as a user names it: results of one configuration in several runs make a
    series.
    """

    #: A runtime, or "program" for what `reusebench record` measured.
    runtime: str
    #: Where it ran.
    target: str
    #: The scenario's or the program's name.
    name: str
    #: Streams and contexts per stream, "4 x 3"; of a program the phase.
    detail: str
    #: The models' distinct names.
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it in one line; of several models the first, and how many more there are."""
        where = "" if self.target == "python" else f" on {self.target}"
        more = f" +{len(self.models) - 1}" if len(self.models) > 1 else ""
        models = f", {self.models[0]}{more}" if self.models else ""
        return f"{self.runtime}{where} {self.name} ({self.detail}{models})"


@dataclass(frozen=True)
class Measured:
    """One configuration in one run."""

    configuration: Configuration
    #: By the names in CONDITIONS; None if it is not known or does not apply.
    conditions: Mapping[str, str | None]
    #: "ok", or the kind of the failure.
    outcome: str
    #: By the name of the metric: a value for each repeat that gave one. Metrics without values are
    #: left out; there are none at all where the outcome is not "ok".
    values: Mapping[str, tuple[float, ...]]
    #: How busy the machine was with other work before the processes started, at most.
    busy_percent: float = 0.0
    #: What shows that memory was short meanwhile; none where it was not.
    shortage_signs: tuple[Message, ...] = ()
    #: What has the same figures in the same run, since its plan is equal and it was measured; None:
    #: nothing.
    original: Configuration | None = None

    def is_short(self, metric: Metric) -> bool:
        """Whether memory was short, and the figure says less for it."""
        return bool(self.shortage_signs) and not metric.is_pinned


@dataclass(frozen=True)
class Run:
    """One stored file."""

    path: Path
    #: The number and the name that its file has; None if it is called otherwise.
    number: int | None
    name: str
    #: ISO 8601, UTC.
    recorded_at: str
    board: str
    commit: str | None
    #: Whether the commit's files had been changed.
    is_dirty: bool
    measured: tuple[Measured, ...]
    order: RunOrder
    #: False where the clock cannot have been right.
    is_dated: bool
    #: False while it is measured, and for good where its session was cut off.
    is_finished: bool

    @property
    def is_named(self) -> bool:
        """Whether a user gave it its name."""
        return not _DATE.fullmatch(self.name)

    @property
    def moment(self) -> str:
        """When it was recorded, to the minute, UTC."""
        return self.recorded_at[:16].replace("T", " ")

    @property
    def short_commit(self) -> str:
        """The start of its commit's id, and whether files had been changed after it; empty where
        there is none.
        """
        return (
            f"{self.commit[:_COMMIT_DIGITS]}{' changed' if self.is_dirty else ''}"
            if self.commit
            else ""
        )

    def __str__(self) -> str:
        """Return what a table calls it."""
        return printable(self.path.stem)


def read_runs(storage: Path) -> Iterator[Run | BadFile]:
    """Yield every run of the storage, by number; files without results of ours are passed over."""
    for file in read_storage(storage):
        yield file if isinstance(file, BadFile) else run_of(file)


def read_run(path: Path) -> Run | BadFile:
    """Return the file's run, or what is wrong with it."""
    file = read_run_file(path) or BadFile(path, Message("file_without_results"))
    return file if isinstance(file, BadFile) else run_of(file)


def plan_digest(plan: Plan) -> str:
    """Return the digest of what of a plan is the same on every machine."""
    return _digest(_common_plan(plan))


def run_of(file: StoredRun) -> Run:
    """Return the run in short."""
    number = run_number(file.path)
    phases = [phase for program in file.programs for phase in _of_program(program, file.board)]
    return Run(
        path=file.path,
        number=number,
        name=printable(file.path.stem if number is None else file.path.stem.partition("_")[2]),
        recorded_at=file.recorded_at,
        board=file.board,
        commit=None if file.commit.id in _NO_COMMITS else file.commit.id,
        is_dirty=file.commit.dirty,
        measured=(*(_of_scenario(result.info, file.board) for result in file.results), *phases),
        order=file.order,
        is_dated=file.is_dated,
        is_finished=file.is_finished,
    )


def copies_in(runs: Iterable[Run]) -> set[Configuration]:
    """Return what has in every run the figures of another configuration, whichever of the two was
    measured.
    """
    measured: dict[Configuration, list[tuple[Path, Configuration]]] = {}
    for run in runs:
        for one in run.measured:
            measured.setdefault(one.configuration, []).append(
                (run.path, one.original or one.configuration)
            )
    firsts: dict[tuple[tuple[Path, Configuration], ...], Configuration] = {}
    for configuration, measurements in measured.items():
        firsts.setdefault(tuple(measurements), configuration)
    return measured.keys() - firsts.values()


def _of_scenario(result: Result, board: str) -> Measured:
    names = tuple(dict.fromkeys(model.name for model in result.models))
    detail = f"{result.streams} x {result.contexts}"
    conditions = {
        "board": board,
        "chip": result.chip,
        "runtime_version": result.runtime_version,
        "driver_version": result.driver_version,
        "python_version": result.python_version,
        "models": _digest([model.digest for model in result.models]),
        "plan": plan_digest(result.plan),
        "npu_memory_limit_bytes": _text(result.npu_memory_limit_bytes),
    }
    configuration = Configuration(result.runtime, result.target, result.scenario, detail, names)
    return Measured(
        configuration,
        conditions,
        result.outcome,
        _values(result) if result.outcome == "ok" else {},
        busy_percent=max(result.speed.idle_cpu_percent, default=0.0),
        shortage_signs=result.shortage_signs,
        original=replace(configuration, name=result.measured_as) if result.measured_as else None,
    )


def _of_program(program: Program, board: str) -> Iterator[Measured]:
    """Yield the phases of a program, each a configuration of its own."""
    conditions = {**dict.fromkeys(CONDITIONS), "board": board}
    for phase in program.phases:
        configuration = Configuration("program", "python", program.name, phase.name)
        values = _values(phase) if program.outcome == "ok" else {}
        yield Measured(
            configuration,
            conditions,
            program.outcome,
            values,
            shortage_signs=program.shortage_signs,
        )


def _values(figures: Result | Phase) -> dict[str, tuple[float, ...]]:
    """Return the values of every metric that there are any of."""
    values = {metric.name: metric.values(figures) for metric in METRICS}
    return {name: repeats for name, repeats in values.items() if repeats}


def _common_plan(plan: Plan) -> dict[str, Any]:
    """Return what of a plan is the same on every machine, whatever it is called and wherever its
    files are.
    """
    common = plan.to_json()
    for name in ("models", "runtime"):
        del common[name]
    for context in common["contexts"]:
        del context["name"]
    if not plan.chains:
        del common["chains"]
    if plan.cycles is None:
        del common["cycles"]
    if plan.schedule is None:
        del common["schedule"]
    elif plan.schedule.video:
        del common["schedule"]["video"]["path"]
    return common


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
