"""The formats of exports, and what of the runs is missing in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reusebench.reports.compare.badge import badge_json, badge_svg
from reusebench.reports.compare.exports.benchmarks import bencher, github
from reusebench.reports.compare.exports.long_form import comma_separated, json_lines
from reusebench.reports.compare.exports.openmetrics import current_samples, dashboard, past_samples
from reusebench.reports.compare.trace_events import trace_events, without_trace
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import METRICS, Metric
from reusebench.storage.runs import Run

__all__ = ["EXPORTS", "Export", "absent_metrics", "export_runs", "left_out"]

#: Outcome of a configuration that cannot be measured, so nothing is missing.
_NOT_SUPPORTED = "not_supported"

_Metrics = Sequence[Metric]
_Writer = Callable[[Sequence[Run], _Metrics], Iterable[str]]


@dataclass(frozen=True)
class Export:
    """A text for other tools."""

    name: str
    write: _Writer
    #: Metrics that the format can hold; empty if it has other content.
    metrics: _Metrics = METRICS
    #: Lines for what of the runs is missing; None: the configurations that failed.
    missing: Callable[[Sequence[Run]], list[str]] | None = None
    #: The form of the newest run of each board, which is the default of RUNS then.
    of_boards: Export | None = None
    has_runs: bool = True


def export_runs(runs: Sequence[Run], form: Export, metrics: _Metrics = ()) -> Iterable[str]:
    """Return the text of an export of these metrics; of all that the format can hold by default.

    It comes in parts, which need not be in memory together.
    """
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


#: All texts. github-action-benchmark takes one direction per file, so throughput has its own.
EXPORTS = (
    Export("bencher", bencher),
    Export("github", github, tuple(metric for metric in METRICS if metric.less_is_better)),
    Export(
        "github-bigger", github, tuple(metric for metric in METRICS if not metric.less_is_better)
    ),
    Export("csv", comma_separated),
    Export("jsonl", json_lines),
    Export("openmetrics", past_samples, of_boards=Export("openmetrics", current_samples)),
    Export("grafana", lambda *_: [dashboard()], metrics=(), has_runs=False),
    Export("trace", lambda runs, _: [trace_events(runs)], (), without_trace),
    Export("badge", lambda runs, _: [badge_json(runs)], metrics=()),
    Export("badge-svg", lambda runs, _: [badge_svg(runs)], metrics=()),
)
