"""What data frames show of a configuration: a row of facts, and the figures of each repeat."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from reusebench.measured.plan import Plan
from reusebench.storage.metrics import METRICS
from reusebench.storage.recorded_program import Phase, Program
from reusebench.storage.result import Result
from reusebench.storage.runs import Measured, RunSummary
from reusebench.system.files import printable

__all__ = [
    "ConfigurationRow",
    "Figures",
    "figures_of_repeats",
    "row_of_program",
    "row_of_result",
]

#: A value for each metric.
Figures = tuple[Optional[float], ...]


class ConfigurationRow(NamedTuple):
    """The values that all rows of a configuration have in common."""

    run_number: Optional[int]
    run_name: str
    recorded_at: str
    board: str
    commit: Optional[str]
    dirty: bool
    file: str
    #: "scenario", or "program" for a recording of `reusebench record`.
    kind: str
    runtime: str
    target: str
    scenario: str
    baseline: Optional[str]
    measured_as: Optional[str]
    streams: Optional[int]
    contexts: Optional[int]
    models: str
    chip: Optional[str]
    runtime_version: Optional[str]
    driver_version: Optional[str]
    python_version: Optional[str]
    models_digest: Optional[str]
    plan_digest: Optional[str]
    npu_memory_limit_bytes: Optional[int]
    outcome: str
    failure: Optional[str]
    busy_percent: float
    memory_short: bool
    #: Language models only: the conversations of the plan, and their tokens.
    sessions: Optional[int] = None
    tokens: Optional[int] = None
    prompt_tokens: Optional[int] = None
    generated_tokens: Optional[int] = None
    common_tokens: Optional[int] = None
    #: The runtime's own options of any context, with ";" between them.
    options: str = ""


def row_of_result(run: RunSummary, measured: Measured, info: Result) -> ConfigurationRow:
    """Return the row of a result of a scenario; `measured` is its summary."""
    configuration = measured.configuration
    conditions = measured.conditions
    conversation = info.plan.conversation
    return ConfigurationRow(
        **{**_facts_of_run(run), "board": conditions["board"]},
        kind="scenario",
        runtime=configuration.runtime,
        target=configuration.target,
        scenario=configuration.name,
        baseline=info.baseline,
        measured_as=info.measured_as,
        streams=info.streams,
        contexts=info.contexts,
        models=";".join(configuration.models),
        chip=conditions["chip"],
        runtime_version=conditions["runtime_version"],
        driver_version=conditions["driver_version"],
        python_version=conditions["python_version"],
        models_digest=conditions["models"],
        plan_digest=conditions["plan"],
        npu_memory_limit_bytes=info.npu_memory_limit_bytes,
        outcome=measured.outcome,
        failure=str(info.failure) if info.failure else None,
        busy_percent=measured.busy_percent,
        memory_short=bool(measured.shortage_signs),
        sessions=len(info.plan.contexts) if conversation else None,
        tokens=conversation.tokens if conversation else None,
        prompt_tokens=conversation.prompt if conversation else None,
        generated_tokens=conversation.generated if conversation else None,
        common_tokens=conversation.common if conversation else None,
        options=";".join(_options(info.plan)),
    )


def row_of_program(run: RunSummary, program: Program) -> ConfigurationRow:
    """Return the row of a program, named as in comparisons; conditions of scenarios are None."""
    return ConfigurationRow(
        **_facts_of_run(run),
        kind="program",
        runtime="program",
        target="python",
        scenario=program.name,
        baseline=None,
        measured_as=None,
        streams=None,
        contexts=None,
        models="",
        chip=None,
        runtime_version=None,
        driver_version=None,
        python_version=None,
        models_digest=None,
        plan_digest=None,
        npu_memory_limit_bytes=None,
        outcome=program.outcome,
        failure=None,
        busy_percent=max((repeat.idle_cpu_percent for repeat in program.repeats), default=0.0),
        memory_short=bool(program.shortage_signs),
    )


def _options(plan: Plan) -> list[str]:
    """Return the distinct options of all contexts, in the order of the plan."""
    options: dict[str, None] = {}
    for context in plan.contexts:
        options.update(dict.fromkeys(context.options))
    return list(options)


def _facts_of_run(run: RunSummary) -> dict[str, Any]:
    return {
        "run_number": run.number,
        "run_name": run.name,
        "recorded_at": run.recorded_at,
        "board": run.board,
        "commit": run.commit,
        "dirty": run.is_dirty,
        "file": printable(str(run.path)),
    }


def figures_of_repeats(figures: Result | Phase, repeats: int) -> list[Figures]:
    """Return the values of all metrics for each repeat."""
    lacking = (None,) * repeats
    by_metric = [metric.of_repeats(figures) or lacking for metric in METRICS]
    return list(zip(*by_metric))
