"""Stored runs in the forms that other tools read, one writer per form; the long form is for
databases and pandas.

docs/ci.md says what stands in each; tests/reports/export_forms has what their documentation
demands.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from reusebench.reports.base.table import csv_cell
from reusebench.reports.compare.trace_events import trace_events, without_trace
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import METRICS, Metric
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run

#: Of the long form; new ones come at the end.
LONG_COLUMNS = (
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
    "npu_memory_limit_bytes",
    "memory_short",
)
#: What the long form calls a condition whose name is taken.
CONDITION_COLUMNS = {"models": "models_digest", "plan": "plan_digest"}
#: Bencher refuses longer names of benchmarks; in UTF-8.
_NAME_BYTES = 1024
#: Of the digest that ends a name which was cut.
_DIGITS = 12
#: No measurement was to be had there, so nothing is missing.
_NOT_SUPPORTED = "not_supported"

_Metrics = Sequence[Metric]
Number = Union[int, float]


@dataclass(frozen=True)
class Export:
    """One form."""

    name: str
    write: Callable[[Sequence[Run], _Metrics], str]
    #: Those that the form can hold; none where it holds no figures of metrics.
    metrics: _Metrics = METRICS


@dataclass(frozen=True)
class _Figure:
    """One metric of one configuration, over the repeats of all runs."""

    name: str
    metric: Metric
    values: tuple[float, ...]
    conditions: Mapping[str, str | None]


def export_runs(runs: Sequence[Run], form: Export, metrics: _Metrics = ()) -> str:
    """Return the runs' metrics, all that the form can hold if none are named, as the text of a
    file.
    """
    if not form.metrics:
        if metrics:
            raise ReportError(
                f"--format {form.name} has whole traces, and no metrics: leave --metric out"
            )
        return form.write(runs, metrics)
    for metric in metrics:
        if metric not in form.metrics:
            others = ", ".join(other.name for other in EXPORTS if metric in other.metrics)
            raise ReportError(
                f"--format {form.name} cannot hold {metric.name}: its figures must all be better in"
                f" one direction, smaller or larger. Valid for {metric.name}: {others}"
            )
    chosen = metrics or form.metrics
    if len(absent_metrics(runs, chosen)) == len(chosen):
        absent = absent_metrics(runs, METRICS)
        stored = ", ".join(metric.name for metric in METRICS if metric.name not in absent) or "none"
        raise ReportError(
            f"{', '.join(map(str, runs))}: no figures of"
            f" {', '.join(metric.name for metric in chosen)}. There are: {stored}. Name others with"
            " --metric NAME, or another run"
        )
    return form.write(runs, chosen)


def left_out(runs: Sequence[Run], form: Export) -> list[str]:
    """Return what should have been in the form and is not: a run, its configuration, and what
    happened.
    """
    if not form.metrics:
        return without_trace(runs)
    return [
        f"{run}: {measured.configuration}: {measured.outcome}"
        for run in runs
        for measured in run.measured
        if measured.outcome not in ("ok", _NOT_SUPPORTED)
    ]


def absent_metrics(runs: Sequence[Run], metrics: _Metrics) -> list[str]:
    """Return the names of the metrics that no configuration has."""
    present = {name for run in runs for measured in run.measured for name in measured.values}
    return [metric.name for metric in metrics if metric.name not in present]


def name_of(configuration: Configuration) -> str:
    """Return what other tools know the configuration by: with all of its models, and never longer
    than they allow.
    """
    models = (", ".join(configuration.models),) if configuration.models else ()
    whole = str(dataclasses.replace(configuration, models=models))
    if len(whole.encode()) <= _NAME_BYTES:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]
    return f"{whole.encode()[: _NAME_BYTES - _DIGITS - 1].decode(errors='ignore')} {digest}"


def long_form(runs: Sequence[Run], metrics: _Metrics) -> Iterator[dict[str, Any]]:
    """Yield a record in LONG_COLUMNS for each run, configuration, metric and repeat, as databases
    take them.
    """
    for run in runs:
        of_run = {
            "run_number": run.number,
            "run_name": run.name,
            "recorded_at": run.recorded_at,
            "board": run.board,
            "commit": run.commit,
            "dirty": run.is_dirty,
        }
        for measured in run.measured:
            configuration = measured.configuration
            identity = {
                name: getattr(configuration, name)
                for name in ("runtime", "target", "name", "detail")
            }
            models = {"models": ";".join(configuration.models)}
            conditions = {
                CONDITION_COLUMNS.get(name, name): measured.conditions[name] for name in CONDITIONS
            }
            common = {**conditions, **of_run, **identity, **models}
            for metric in metrics:
                is_short = measured.is_short(metric)
                for repeat, value in enumerate(measured.values.get(metric.name, ()), start=1):
                    figure = {
                        "metric": metric.name,
                        "unit": metric.unit,
                        "repeat": repeat,
                        "value": number(value),
                    }
                    record = {**common, **figure, "memory_short": is_short}
                    yield {column: record[column] for column in LONG_COLUMNS}


def number(value: float) -> Number:
    """Return whole numbers, as bytes are, without a fraction."""
    return int(value) if float(value).is_integer() else value


def _figures(runs: Sequence[Run], metrics: _Metrics) -> Iterator[_Figure]:
    """Yield a figure for each configuration and metric that there are values of, repeats of all
    runs together.
    """
    of_configurations: dict[Configuration, list[tuple[Run, Measured]]] = {}
    for run in runs:
        for measured in run.measured:
            if measured.values:
                of_configurations.setdefault(measured.configuration, []).append((run, measured))
    for configuration, members in of_configurations.items():
        name = name_of(configuration)
        conditions = _common_conditions(configuration, members)
        for metric in metrics:
            values = tuple(
                value for _, measured in members for value in measured.values.get(metric.name, ())
            )
            if values:
                yield _Figure(name, metric, values, conditions)


def _common_conditions(
    configuration: Configuration, members: Sequence[tuple[Run, Measured]]
) -> Mapping[str, str | None]:
    """Return what is equal in all of them, or raise ReportError if figures of one name are not
    of one thing.
    """
    for name in CONDITIONS:
        values = [(str(run), measured.conditions[name]) for run, measured in members]
        if len({value for _, value in values}) > 1:
            listed = ", ".join(f"{run}: {value}" for run, value in values)
            raise ReportError(
                f"{configuration}: the runs differ in {name} ({listed}), and in this format one"
                " name stands for all of them. Export one run at a time, or use --format csv or"
                " jsonl"
            )
    return members[0][1].conditions


def _bencher(runs: Sequence[Run], metrics: _Metrics) -> str:
    """Return Bencher Metric Format: of each configuration and measure the median, and the range
    over the repeats.
    """
    benchmarks: dict[str, dict[str, dict[str, Number]]] = {}
    for figure in _figures(runs, metrics):
        metric = {
            "value": number(statistics.median(figure.values)),
            "lower_value": number(min(figure.values)),
            "upper_value": number(max(figure.values)),
        }
        # A measure is known by its slug, which has no underscores.
        benchmarks.setdefault(figure.name, {})[figure.metric.name.replace("_", "-")] = metric
    return _json(benchmarks)


def _github(runs: Sequence[Run], metrics: _Metrics) -> str:
    """Return the list of github-action-benchmark's custom tools."""
    entries = []
    for figure in _figures(runs, metrics):
        median = statistics.median(figure.values)
        lowest = min(figure.values)
        highest = max(figure.values)
        conditions = ", ".join(
            f"{name} {value}" for name, value in figure.conditions.items() if value is not None
        )
        # For reading: rates have many decimals.
        spread, least, most = (
            number(round(size, 3))
            for size in (max(median - lowest, highest - median), lowest, highest)
        )
        entry = {
            "name": f"{figure.name}: {figure.metric.name}",
            "unit": figure.metric.unit,
            "value": number(median),
            "range": f"± {spread}",
            "extra": f"median of {len(figure.values)} repeats, {least} to {most}\n{conditions}",
        }
        entries.append(entry)
    return _json(entries)


def _csv(runs: Sequence[Run], metrics: _Metrics) -> str:
    # Not by pandas, which only reports need: this command is there without them.
    text = io.StringIO()
    writer = csv.DictWriter(text, LONG_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for record in long_form(runs, metrics):
        writer.writerow({column: csv_cell(value) for column, value in record.items()})
    return text.getvalue()


def _json_lines(runs: Sequence[Run], metrics: _Metrics) -> str:
    return "".join(
        f"{json.dumps(record, ensure_ascii=False)}\n" for record in long_form(runs, metrics)
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


#: github-action-benchmark takes one direction per file: throughput has a file of its own.
EXPORTS = (
    Export("bencher", _bencher),
    Export("github", _github, tuple(metric for metric in METRICS if metric.less_is_better)),
    Export(
        "github-bigger", _github, tuple(metric for metric in METRICS if not metric.less_is_better)
    ),
    Export("csv", _csv),
    Export("jsonl", _json_lines),
    Export("trace", lambda runs, _: trace_events(runs), metrics=()),
)
