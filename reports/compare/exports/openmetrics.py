"""OpenMetrics for Prometheus, and the dashboard of Grafana that shows it.

The text is also valid in Prometheus's own format, which node_exporter's textfile collector reads:
every family is a gauge, and samples of the newest runs have no timestamps. Units are Prometheus's
base units.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reusebench.reports.base.texts import texts_of
from reusebench.reports.compare.exports.figures import Number, number
from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import (
    BYTES,
    NANOSECONDS,
    PER_SECOND,
    PERCENT,
    TOKENS_PER_SECOND,
    Metric,
)
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run, RunSummary

__all__ = ["LABELS", "current_samples", "dashboard", "newest_of_boards", "past_samples"]

_DASHBOARD = Path(__file__).parents[2] / "data" / "grafana.json"
#: Labels of a configuration, by which its samples of all runs are one series.
LABELS = ("board", "runtime", "target", "scenario", "detail", "models")
#: Key: unit of a metric; value: Prometheus's base unit, and the divisor that leads to it.
_BASE_UNITS = {
    BYTES: ("bytes", 1),
    NANOSECONDS: ("seconds", 1_000_000_000),
    PER_SECOND: ("inferences_per_second", 1),
    TOKENS_PER_SECOND: ("tokens_per_second", 1),
    PERCENT: ("ratio", 100),
}
#: Outcome of a configuration that cannot be measured, so it did not fail.
_NOT_SUPPORTED = "not_supported"
#: Conditions that are labels of reusebench_measurement_info; the board is in LABELS.
_VERSIONS = {name: name for name in CONDITIONS if name != "board"}
_VERSIONS.update(models="models_digest", plan="plan_digest")
#: A backslash, a quote or a new line ends a label's value early.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

#: Labels as they are written, and the value.
_Point = tuple[str, Number]


@dataclass(frozen=True)
class _Family:
    """A metric of Prometheus: a gauge."""

    name: str
    help: str
    #: Yields the samples of a run.
    points: Callable[[Run], Iterator[_Point]]
    #: The end of the name; empty without a unit.
    unit: str = ""


def newest_of_boards(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the newest finished run of each board, by the boards' names; each run once."""
    newest: dict[str, RunSummary] = {}
    for run in sorted(runs, key=lambda run: (run.order, run.path)):
        if run.is_finished:
            newest.update(dict.fromkeys(run.boards, run))
    return list({newest[board].path: newest[board] for board in sorted(newest)}.values())


def current_samples(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield the samples of each board's newest run as the present state, without timestamps."""
    newest: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: (run.order, run.path)):
        newest.update((part.board, part) for part in _by_board(run))
    return _samples([newest[board] for board in sorted(newest)], metrics, has_times=False)


def past_samples(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield the samples of these runs, each with the time of its run, to be backfilled."""
    parts = [part for run in runs for part in _by_board(run)]
    return _samples(parts, metrics, has_times=True)


def _by_board(run: Run) -> list[Run]:
    """Return the run as a run of each of its boards."""
    measured_on: dict[str, list[Measured]] = {}
    for measured in run.measured:
        measured_on.setdefault(measured.conditions["board"] or "", []).append(measured)
    return [
        replace(run, boards=(board,), measured=tuple(measured))
        for board, measured in measured_on.items()
    ]


def _samples(runs: Sequence[Run], metrics: Sequence[Metric], has_times: bool) -> Iterator[str]:
    """Yield the text, a family at a time."""
    for family in _families(metrics):
        # Key: the sample without its value. A later run replaces an earlier one of the same time.
        series: dict[str, dict[float, str]] = {}
        for run in runs:
            at_s = _moment_s(run)
            for labels, value in family.points(run):
                series.setdefault(f"{family.name}{{{labels}}}", {})[at_s] = repr(value)
        if series:
            yield _text(family, series, has_times)
    yield "# EOF\n"


def _text(family: _Family, series: Mapping[str, Mapping[float, str]], has_times: bool) -> str:
    """Return a family: its description, and each series by time."""
    lines = [f"# TYPE {family.name} gauge"]
    if family.unit:
        lines.append(f"# UNIT {family.name} {family.unit}")
    lines.append(f"# HELP {family.name} {family.help}")
    for sample, values in series.items():
        if has_times:
            # Decimals: Prometheus's own format has milliseconds, and refuses these seconds.
            lines += [f"{sample} {values[at_s]} {at_s:.3f}" for at_s in sorted(values)]
        else:
            lines.append(f"{sample} {values[max(values)]}")
    return "".join(f"{line}\n" for line in lines)


def _families(metrics: Sequence[Metric]) -> Iterator[_Family]:
    """Yield the families: the runs, the outcomes of configurations, and two for each metric."""
    yield _Family("reusebench_run_info", "The run that the board's figures are of.", _run_info)
    yield _Family(
        "reusebench_run_time_seconds",
        "Time of the run, in seconds since 1970.",
        lambda run: iter([(_labels({"board": run.board}), number(_moment_s(run)))]),
        unit="seconds",
    )
    yield _Family(
        "reusebench_measurement_ok",
        "1 if the configuration was measured, 0 if it failed.",
        _outcomes,
    )
    yield _Family(
        "reusebench_measurement_info",
        "Outcome and conditions of a configuration. Figures of short memory may be too small.",
        _conditions,
    )
    texts = texts_of("en")
    for metric in metrics:
        unit, divisor = _BASE_UNITS[metric.unit]
        meaning = texts(f"meaning_{metric.name}")
        title = texts(f"metric_{metric.name}")
        yield _Family(
            f"reusebench_{metric.name}_{unit}",
            f"Median over the repeats. {meaning}",
            _figures(metric, divisor, lambda figure: figure.median),
            unit,
        )
        yield _Family(
            f"reusebench_{metric.name}_spread_{unit}",
            f"Distance of the farthest repeat from the median: {title}.",
            _figures(metric, divisor, lambda figure: figure.spread),
            unit,
        )


def _run_info(run: Run) -> Iterator[_Point]:
    labels = {
        "board": run.board,
        "run": str(run),
        "commit": run.commit or "",
        "dirty": str(run.is_dirty).lower(),
    }
    yield _labels(labels), 1


def _outcomes(run: Run) -> Iterator[_Point]:
    for measured in run.measured:
        if measured.outcome != _NOT_SUPPORTED:
            yield _labels_of(measured), int(measured.outcome == "ok")


def _conditions(run: Run) -> Iterator[_Point]:
    for measured in run.measured:
        labels = {
            "outcome": measured.outcome,
            "memory_short": str(bool(measured.shortage_signs)).lower(),
        }
        for condition, label in _VERSIONS.items():
            labels[label] = measured.conditions[condition] or ""
        yield f"{_labels_of(measured)},{_labels(labels)}", 1


def _figures(
    metric: Metric, divisor: int, take: Callable[[Figure], float | None]
) -> Callable[[Run], Iterator[_Point]]:
    """Return the function that yields a number of each configuration's figure, in base units."""

    def points(run: Run) -> Iterator[_Point]:
        for measured in run.measured:
            figure = Figure.of(measured.values.get(metric.name, ()))
            value = take(figure) if figure else None
            if value is not None:
                yield _labels_of(measured), number(value / divisor)

    return points


def _labels_of(measured: Measured) -> str:
    return _labels_of_configuration(measured.configuration, measured.conditions["board"] or "")


@functools.lru_cache(maxsize=1024)
def _labels_of_configuration(configuration: Configuration, board: str) -> str:
    values = (
        board,
        configuration.runtime,
        configuration.target,
        configuration.name,
        configuration.detail,
        ";".join(configuration.models),
    )
    return _labels(dict(zip(LABELS, values)))


def _labels(labels: Mapping[str, str]) -> str:
    """Return labels as they are written."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _moment_s(run: Run) -> float:
    """Return the time of the run in seconds since 1970, to the millisecond as in Prometheus."""
    moment = datetime.datetime.fromisoformat(run.recorded_at).replace(tzinfo=datetime.timezone.utc)
    return round(moment.timestamp(), 3)


def dashboard() -> str:
    """Return the dashboard, which Grafana imports."""
    return _DASHBOARD.read_text(encoding="utf-8")
