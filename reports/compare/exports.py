"""Exports of stored runs to the formats of other tools, with a writer for each.

The long form is for databases and pandas. docs/reference/exports.md describes the formats;
tests/reports/compare/export_forms has the schemas of their documentation.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from reusebench.reports.base.statistics import Figure, rounded_in_unit
from reusebench.reports.base.table import csv_cell
from reusebench.reports.compare.badge import badge_json, badge_svg
from reusebench.reports.compare.trace_events import trace_events, without_trace
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import METRICS, Metric
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run

#: Columns of the long form; new ones come at the end.
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
#: Key: condition whose name is taken; value: its column in the long form.
CONDITION_COLUMNS = {"models": "models_digest", "plan": "plan_digest"}
#: Bencher's limit of a benchmark's name in UTF-8.
_NAME_BYTES = 1024
#: Digits of the digest at the end of a shortened name.
_DIGITS = 12
#: Outcome of a configuration that cannot be measured, so nothing is missing.
_NOT_SUPPORTED = "not_supported"

_Metrics = Sequence[Metric]
Number = Union[int, float]


@dataclass(frozen=True)
class Export:
    """A format for other tools."""

    name: str
    write: Callable[[Sequence[Run], _Metrics], str]
    #: Metrics that the format can hold; empty if it has other content.
    metrics: _Metrics = METRICS
    #: Lines for what of the runs is missing; None: the configurations that failed.
    missing: Callable[[Sequence[Run]], list[str]] | None = None


@dataclass(frozen=True)
class _Figure:
    """One metric of one configuration, over the repeats of all runs."""

    name: str
    metric: Metric
    values: tuple[float, ...]
    conditions: Mapping[str, str | None]


def export_runs(runs: Sequence[Run], form: Export, metrics: _Metrics = ()) -> str:
    """Return the text of an export of these metrics; of all that the format can hold by default."""
    if not form.metrics:
        if metrics:
            raise ReportError(f"--format {form.name} has a content of its own: leave --metric out")
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
    """Return a line for each configuration that is missing in the export, with its outcome."""
    if form.missing:
        return form.missing(runs)
    lines = []
    for run in runs:
        for measured in run.measured:
            if measured.outcome not in ("ok", _NOT_SUPPORTED):
                lines.append(f"{run}: {measured.configuration}: {measured.outcome}")
    return lines


def absent_metrics(runs: Sequence[Run], metrics: _Metrics) -> list[str]:
    """Return the names of the metrics that no configuration has."""
    present: set[str] = set()
    for run in runs:
        for measured in run.measured:
            present.update(measured.values)
    return [metric.name for metric in metrics if metric.name not in present]


def name_of(configuration: Configuration) -> str:
    """Return the configuration's name in other tools: with all models, shortened to their limit."""
    models = (", ".join(configuration.models),) if configuration.models else ()
    whole = str(dataclasses.replace(configuration, models=models))
    encoded = whole.encode()
    if len(encoded) <= _NAME_BYTES:
        return whole
    digest = hashlib.sha256(encoded).hexdigest()[:_DIGITS]
    start = encoded[: _NAME_BYTES - _DIGITS - 1].decode(errors="ignore")
    return f"{start} {digest}"


def long_form(runs: Sequence[Run], metrics: _Metrics) -> Iterator[dict[str, Any]]:
    """Yield a record in LONG_COLUMNS for each run, configuration, metric and repeat."""
    for run in runs:
        for measured in run.measured:
            common = _common_columns(run, measured)
            for metric in metrics:
                is_short = measured.is_short(metric)
                for repeat, value in enumerate(measured.values.get(metric.name, ()), start=1):
                    record = {
                        **common,
                        "metric": metric.name,
                        "unit": metric.unit,
                        "repeat": repeat,
                        "value": number(value),
                        "memory_short": is_short,
                    }
                    yield {column: record[column] for column in LONG_COLUMNS}


def _common_columns(run: Run, measured: Measured) -> dict[str, Any]:
    """Return the columns that all records of a configuration have in common."""
    configuration = measured.configuration
    conditions = {
        CONDITION_COLUMNS.get(name, name): measured.conditions[name] for name in CONDITIONS
    }
    return {
        **conditions,
        "run_number": run.number,
        "run_name": run.name,
        "recorded_at": run.recorded_at,
        "board": run.board,
        "commit": run.commit,
        "dirty": run.is_dirty,
        "runtime": configuration.runtime,
        "target": configuration.target,
        "name": configuration.name,
        "detail": configuration.detail,
        "models": ";".join(configuration.models),
    }


def number(value: float) -> Number:
    """Return whole numbers, as bytes are, without a fraction."""
    return int(value) if float(value).is_integer() else value


def _figures(runs: Sequence[Run], metrics: _Metrics) -> Iterator[_Figure]:
    """Yield a figure for each configuration and metric, over the repeats of all runs."""
    members_of: dict[Configuration, list[tuple[Run, Measured]]] = {}
    for run in runs:
        for measured in run.measured:
            if measured.values:
                members_of.setdefault(measured.configuration, []).append((run, measured))

    for configuration, members in members_of.items():
        name = name_of(configuration)
        conditions = _common_conditions(configuration, members)
        for metric in metrics:
            values: list[float] = []
            for _, measured in members:
                values += measured.values.get(metric.name, ())
            if values:
                yield _Figure(name, metric, tuple(values), conditions)


def _common_conditions(
    configuration: Configuration, members: Sequence[tuple[Run, Measured]]
) -> Mapping[str, str | None]:
    """Return the conditions of all members; raise ReportError if they differ."""
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
    """Return Bencher Metric Format: the median and the range over the repeats."""
    benchmarks: dict[str, dict[str, dict[str, Number]]] = {}
    for figure in _figures(runs, metrics):
        metric = {
            "value": rounded_in_unit(_over_repeats(figure), figure.metric.unit),
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
        over_repeats = _over_repeats(figure)
        conditions = ", ".join(
            f"{name} {value}" for name, value in figure.conditions.items() if value is not None
        )
        # People read these numbers, and rates have many decimals.
        spread = number(round(over_repeats.spread or 0, 3))
        least = number(round(min(figure.values), 3))
        most = number(round(max(figure.values), 3))
        entry = {
            "name": f"{figure.name}: {figure.metric.name}",
            "unit": figure.metric.unit,
            "value": rounded_in_unit(over_repeats, figure.metric.unit),
            "range": f"± {spread}",
            "extra": f"median of {len(figure.values)} repeats, {least} to {most}\n{conditions}",
        }
        entries.append(entry)
    return _json(entries)


def _over_repeats(figure: _Figure) -> Figure:
    """Return the figure over the repeats of all runs."""
    over_repeats = Figure.of(figure.values)
    assert over_repeats is not None
    return over_repeats


def _csv(runs: Sequence[Run], metrics: _Metrics) -> str:
    # pandas would do, but only reports need it: this command works without.
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


#: All formats. github-action-benchmark takes one direction per file, so throughput has its own.
EXPORTS = (
    Export("bencher", _bencher),
    Export("github", _github, tuple(metric for metric in METRICS if metric.less_is_better)),
    Export(
        "github-bigger", _github, tuple(metric for metric in METRICS if not metric.less_is_better)
    ),
    Export("csv", _csv),
    Export("jsonl", _json_lines),
    Export("trace", lambda runs, _: trace_events(runs), (), without_trace),
    Export("badge", lambda runs, _: badge_json(runs), metrics=()),
    Export("badge-svg", lambda runs, _: badge_svg(runs), metrics=()),
)
