"""Runs in the long form: a record for each run, configuration, metric and repeat, as pandas and databases take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Union

from storage.metrics import Metric
from storage.runs import CONDITIONS, Measured, Run

Number = Union[int, float]

#: New ones come at the end.
COLUMNS = (
    "run_number",
    "run_name",
    "recorded_at",
    "board",
    "commit",
    "dirty",
    "runtime",
    "target",
    "name",
    "detail",
    "models",
    "chip",
    "runtime_version",
    "driver_version",
    "python_version",
    "models_digest",
    "plan_digest",
    "metric",
    "unit",
    "repeat",
    "value",
)
#: What the long form calls a condition whose name is taken.
CONDITION_COLUMNS = {"models": "models_digest", "plan": "plan_digest"}


def records(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[dict[str, Any]]:
    """Yield the records, each with every one of COLUMNS, in the order of the runs."""
    for run in runs:
        for measured in run.measured:
            known = {**_of_run(run), **_of_configuration(measured)}
            for metric in metrics:
                for repeat, value in enumerate(measured.values.get(metric.name, ()), start=1):
                    figure = {"metric": metric.name, "unit": metric.unit, "repeat": repeat, "value": number(value)}
                    yield {**known, **figure}


def _of_run(run: Run) -> dict[str, Any]:
    return {
        "run_number": run.number,
        "run_name": run.name,
        "recorded_at": run.recorded_at,
        "board": run.board,
        "commit": run.commit,
        "dirty": run.is_dirty,
    }


def _of_configuration(measured: Measured) -> dict[str, Any]:
    configuration = measured.configuration
    identity = {name: getattr(configuration, name) for name in ("runtime", "target", "name", "detail")}
    conditions = {name: measured.conditions[name] for name in CONDITIONS if name != "board"}
    named = {CONDITION_COLUMNS.get(name, name): value for name, value in conditions.items()}
    return {**identity, "models": ";".join(configuration.models), **named}


def number(value: float) -> Number:
    """Return whole numbers, as bytes are, without a fraction."""
    return int(value) if float(value).is_integer() else value
