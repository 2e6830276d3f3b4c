"""Summaries of stored runs: what comparisons, histories and lists need."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reusebench.measured.messages import Message
from reusebench.measured.plan import OF_COMMON_TOKENS, Plan
from reusebench.storage.metrics import LATENCY, METRICS, Metric
from reusebench.storage.recorded_program import Phase, Program
from reusebench.storage.result import Result
from reusebench.storage.result_figures import model_latencies
from reusebench.storage.run_file import (
    BadFile,
    RunOrder,
    StoredRun,
    read_run_file,
    read_storage,
    run_number,
    run_stem,
)
from reusebench.system.files import printable

__all__ = [
    "CONDITIONS",
    "Configuration",
    "Measured",
    "Run",
    "RunSummary",
    "copies_in",
    "plan_digest",
    "read_run",
    "read_runs",
    "run_of",
]

#: Facts that should be equal before two figures of one configuration are compared.
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
#: Outcome of a configuration that the runtime does not have.
_NOT_SUPPORTED = "not_supported"
#: pytest-benchmark's ids for a missing commit.
_NO_COMMITS = ("unversioned", "unknown")
#: The harness's own names of runs are dates.
_DATE = re.compile(r"\d{8}_\d{6}")
#: Digits of a digest, enough to distinguish two plans.
_DIGITS = 12
#: Digits of a commit's id that are shown.
_COMMIT_DIGITS = 10


@dataclass(frozen=True, order=True)
class Configuration:
    """The identity of a measurement: results with the same one in several runs make a series."""

    #: A runtime, or "program" for what `reusebench record` measured.
    runtime: str
    target: str
    #: Name of the scenario or the program.
    name: str
    #: Streams and contexts per stream, "4 x 3", and the tokens of language models; or the phase of
    #: a program.
    detail: str
    #: Distinct names of the models.
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line with the first model, and the number of the others."""
        target = "" if self.target == "python" else f" on {self.target}"
        models = ""
        if self.models:
            models = f", {self.models[0]}"
        if len(self.models) > 1:
            models += f" +{len(self.models) - 1}"
        return f"{self.runtime}{target} {self.name} ({self.detail}{models})"


@dataclass(frozen=True)
class Measured:
    """One configuration in one run."""

    configuration: Configuration
    #: Key: a name in CONDITIONS; None if unknown or not applicable.
    conditions: Mapping[str, str | None]
    #: "ok", or the kind of the failure.
    outcome: str
    #: Key: name of a metric; a value for each repeat that gave one. Metrics without values are left
    #: out; there are none at all if the outcome is not "ok".
    values: Mapping[str, tuple[float, ...]]
    #: Highest share of the CPUs that other work had before a process started.
    busy_percent: float = 0.0
    #: Evidence that memory was short meanwhile.
    shortage_signs: tuple[Message, ...] = ()
    #: The measured configuration whose figures this one has in the same run, as their plans are
    #: equal; None if it was measured itself.
    original: Configuration | None = None
    #: The unit of its application memory, PAGES or PSS; None for a program.
    counted_by: str | None = None
    #: The model whose latency is its only figure; None for all other figures.
    model: str | None = None

    def is_short(self, metric: Metric) -> bool:
        """Whether a shortage of memory may have made the figure too small."""
        return bool(self.shortage_signs) and not metric.is_pinned


@dataclass(frozen=True)
class RunSummary:
    """One stored file without its figures."""

    path: Path
    #: Number in the file's name; None if the name has none.
    number: int | None
    #: Name of the file without the number.
    name: str
    #: ISO 8601, UTC.
    recorded_at: str
    boards: tuple[str, ...]
    commit: str | None
    #: Whether the commit's files had been changed.
    is_dirty: bool
    order: RunOrder
    #: False if the clock cannot have been right.
    is_dated: bool
    #: False while the run is measured, and for good if its session was cut off.
    is_finished: bool
    #: Distinct runtimes, in the order of the file; "program" for recorded programs.
    runtimes: tuple[str, ...]
    #: Numbers of configurations; those that cannot be measured are in neither.
    ok: int
    failed: int

    @property
    def board(self) -> str:
        """The board that the run was measured on; the names of several boards."""
        return ", ".join(self.boards)

    @property
    def is_named(self) -> bool:
        """Whether a user named the run."""
        return not _DATE.fullmatch(self.name)

    @property
    def moment(self) -> str:
        """The time of the recording, to the minute, UTC."""
        return self.recorded_at[:16].replace("T", " ")

    @property
    def short_commit(self) -> str:
        """The start of the commit's id, marked if files were changed; empty without a commit."""
        if not self.commit:
            return ""
        changed = " changed" if self.is_dirty else ""
        return f"{self.commit[:_COMMIT_DIGITS]}{changed}"

    def __str__(self) -> str:
        """Return the name that tables show."""
        return printable(run_stem(self.path))


@dataclass(frozen=True)
class Run(RunSummary):
    """One stored file with its figures."""

    measured: tuple[Measured, ...]


def read_runs(storage: Path) -> Iterator[Run | BadFile]:
    """Yield every run of the storage, by number; skip files without results of ours."""
    for file in read_storage(storage):
        yield file if isinstance(file, BadFile) else run_of(file)


def read_run(path: Path) -> Run | BadFile:
    """Return the file's run, or a BadFile with the reason why there is none."""
    file = read_run_file(path) or BadFile(path, Message("file_without_results"))
    return file if isinstance(file, BadFile) else run_of(file)


def run_of(file: StoredRun) -> Run:
    """Return a stored run with its compared figures."""
    number = run_number(file.path)
    stem = run_stem(file.path)
    name = stem if number is None else stem.partition("_")[2]
    measured = [
        _measured_result(result.info, file.board_of(result.info)) for result in file.results
    ]
    for result, whole in zip(file.results, tuple(measured)):
        measured += _measured_latencies(result.info, whole)
    for program in file.programs:
        measured += _measured_phases(program, file.board)
    # The latency of one of several models is no configuration that was measured by itself.
    outcomes = [row.outcome for row in measured if row.model is None]
    return Run(
        path=file.path,
        number=number,
        name=printable(name),
        recorded_at=file.recorded_at,
        boards=file.boards,
        commit=None if file.commit.id in _NO_COMMITS else file.commit.id,
        is_dirty=file.commit.dirty,
        order=file.order,
        is_dated=file.is_dated,
        is_finished=file.is_finished,
        runtimes=tuple(dict.fromkeys(row.configuration.runtime for row in measured)),
        ok=outcomes.count("ok"),
        failed=sum(outcome not in ("ok", _NOT_SUPPORTED) for outcome in outcomes),
        measured=tuple(measured),
    )


def copies_in(runs: Iterable[Run]) -> set[Configuration]:
    """Return the configurations that have the figures of another one in every run.

    Which of the two was measured may change from run to run.
    """
    sources: dict[Configuration, list[tuple[Path, Configuration]]] = {}
    for run in runs:
        for measured in run.measured:
            source = measured.original or measured.configuration
            sources.setdefault(measured.configuration, []).append((run.path, source))

    firsts: dict[tuple[tuple[Path, Configuration], ...], Configuration] = {}
    for configuration, sources_in_runs in sources.items():
        firsts.setdefault(tuple(sources_in_runs), configuration)
    return sources.keys() - firsts.values()


def _measured_result(result: Result, board: str) -> Measured:
    configuration = Configuration(
        runtime=result.runtime,
        target=result.target,
        name=result.scenario,
        detail=_detail(result),
        models=tuple(dict.fromkeys(model.name for model in result.models)),
    )
    original = None
    if result.measured_as:
        original = replace(configuration, name=result.measured_as)
    limit_bytes = result.npu_memory_limit_bytes
    conditions = {
        "board": board,
        "chip": result.chip,
        "runtime_version": result.runtime_version,
        "driver_version": result.driver_version,
        "python_version": result.python_version,
        "models": _digest([model.digest for model in result.models]),
        "plan": plan_digest(result.plan),
        "npu_memory_limit_bytes": None if limit_bytes is None else str(limit_bytes),
    }
    return Measured(
        configuration,
        conditions,
        result.outcome,
        _values(result) if result.outcome == "ok" else {},
        busy_percent=max(result.speed.idle_cpu_percent, default=0.0),
        shortage_signs=result.shortage_signs,
        original=original,
        counted_by=result.counted_by,
    )


def _detail(result: Result) -> str:
    contexts = f"{result.streams} x {result.contexts}"
    conversation = result.plan.conversation
    if conversation is None:
        return contexts
    tokens = (
        f"{contexts}, {conversation.tokens} tokens, prompt {conversation.prompt},"
        f" generated {conversation.generated}"
    )
    mechanisms = {context.mechanism for context in result.plan.contexts}
    if mechanisms.isdisjoint(OF_COMMON_TOKENS):
        return tokens
    return f"{tokens}, common {conversation.common}"


def _measured_latencies(result: Result, whole: Measured) -> Iterator[Measured]:
    """Yield the latency of each of several models as a configuration of its own."""
    if whole.outcome != "ok" or not result.has_several_latencies:
        return
    for model, latency in model_latencies(result):
        yield replace(
            whole,
            configuration=_of_model(model, whole.configuration),
            values={LATENCY: latency.values},
            original=_of_model(model, whole.original) if whole.original else None,
            model=model,
        )


def _of_model(model: str, whole: Configuration) -> Configuration:
    """Return one of the models of a configuration."""
    detail = f"{whole.detail}, one of {len(whole.models)} models"
    return replace(whole, detail=detail, models=(model,))


def _measured_phases(program: Program, board: str) -> Iterator[Measured]:
    """Yield the phases of a program, each as a configuration of its own."""
    conditions = {**dict.fromkeys(CONDITIONS), "board": board}
    for phase in program.phases:
        yield Measured(
            Configuration("program", "python", program.name, phase.name),
            conditions,
            program.outcome,
            _values(phase) if program.outcome == "ok" else {},
            shortage_signs=program.shortage_signs,
        )


def _values(figures: Result | Phase) -> dict[str, tuple[float, ...]]:
    """Return the values of every metric that has any."""
    values = {metric.name: metric.values(figures) for metric in METRICS}
    return {name: repeats for name, repeats in values.items() if repeats}


def plan_digest(plan: Plan) -> str:
    """Return the digest of the parts of a plan that are equal on every machine.

    Names, and the places of files, are left out.
    """
    common = plan.to_json()
    for name in ("models", "runtime"):
        del common[name]
    for context in common["contexts"]:
        del context["name"]
        # A digest does not change with fields that the plan makes no use of.
        if not context["unified_cache"]:
            del context["unified_cache"]
    if not plan.chains:
        del common["chains"]
    if plan.cycles is None:
        del common["cycles"]
    if plan.conversation is None:
        del common["conversation"]
    if plan.schedule is None:
        del common["schedule"]
    elif plan.schedule.video:
        del common["schedule"]["video"]["path"]
    return _digest(common)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
