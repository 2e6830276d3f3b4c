"""Change points in words, their table for the page, and both tables of a history as records."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reusebench.reports.base.formatting import EMPTY, metric_amount, metric_number
from reusebench.reports.base.statistics import rounded
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.compare.exports import CONDITION_COLUMNS, number
from reusebench.reports.history.series import Event, History, LevelChange, MetricSeries
from reusebench.storage.runs import Run

#: More than so sure nothing is: the noise itself was only measured.
_MOST_SURE = 0.9999
_IDENTITY = ("board", "chip", "runtime", "target", "name", "detail", "models", "metric", "unit")
_RUN = ("run_number", "run_name", "recorded_at", "commit", "dirty")
#: The columns of the plain files; new ones come at the end.
CHANGE_POINT_COLUMNS = (
    *_IDENTITY,
    "level_before",
    "level_after",
    "change",
    "change_error",
    "change_percent",
    "confidence",
    *(f"{end}_{column}" for end in ("before", "after") for column in _RUN),
    "conditions",
)
HISTORY_COLUMNS = (
    *_IDENTITY,
    *_RUN,
    "outcome",
    "repeats",
    "median",
    "lowest",
    "highest",
    "disturbed",
    "level",
    "is_change",
    "runtime_version",
    "driver_version",
    "python_version",
    "models_digest",
    "plan_digest",
    "npu_memory_limit_bytes",
)


def run_in_words(run: Run) -> str:
    """Return the run's number, and its commit where it has one."""
    number = f"{run.number:04}" if run.number is not None else str(run)
    return f"{number} {run.short_commit}".rstrip()


def event_in_words(event: Event) -> str:
    """Return which condition became another one."""
    return f"{event.condition} {event.old} \N{RIGHTWARDS ARROW} {event.new}"


def change_in_words(change: LevelChange) -> tuple[str, str, str]:
    """Return the change of level with its interval, in percent of the old level, and the confidence
    in percent.
    """
    difference = change.point.difference
    metric = change.series.metric
    size = metric_amount(difference.change, metric, sign=True)
    if difference.error:
        size = (
            f"{metric_number(difference.change, metric, sign=True)}"
            f" ±{metric_amount(difference.error, metric)}"
        )
    share = EMPTY if difference.percent is None else f"{difference.percent:+.1f}"
    is_sure = change.confidence > _MOST_SURE
    return size, share, f">{100 * _MOST_SURE:g}" if is_sure else f"{100 * change.confidence:.2f}"


def changes_table(
    changes: Sequence[LevelChange], name: Callable[[MetricSeries], str], texts: Texts
) -> Table | None:
    """Return a row for each change point; None if there is none."""
    lines = []
    for change in changes:
        size, share, confidence = change_in_words(change)
        runs = [
            f"{run_in_words(point.run)}, {point.run.moment}"
            for point in (change.before, change.after)
        ]
        events = "; ".join(map(event_in_words, change.events)) or EMPTY
        metric = texts(f"metric_{change.series.metric.name}")
        lines.append(("ok", [name(change.series), metric, size, share, *runs, confidence, events]))
    names = (
        "configuration",
        "metric",
        "size",
        "percent",
        "before",
        "after",
        "confidence",
        "events",
    )
    heads = heads_of((f"column_change_{head}" for head in names), texts)
    return Table(heads, lines, words=(0, 1, 4, 5, 7)) if lines else None


def change_point_records(changes: Iterable[LevelChange]) -> list[dict[str, Any]]:
    """Return the rows of the table of change points in CHANGE_POINT_COLUMNS."""
    records = []
    for change in changes:
        difference = change.point.difference
        record = {
            **_identity(change.series),
            "level_before": rounded(difference.base_mean, 3),
            "level_after": rounded(difference.base_mean + difference.change, 3),
            "change": rounded(difference.change, 3),
            "change_error": rounded(difference.error, 3),
            "change_percent": rounded(difference.percent, 3),
            "confidence": round(change.confidence, 6),
            "conditions": (
                "; ".join(f"{one.condition}={one.old}>{one.new}" for one in change.events) or None
            ),
        }
        for end, point in (("before", change.before), ("after", change.after)):
            record |= {f"{end}_{column}": value for column, value in _run_values(point.run).items()}
        records.append(record)
    return records


def history_records(histories: Iterable[History]) -> list[dict[str, Any]]:
    """Return a row in HISTORY_COLUMNS for each run of each series."""
    records = []
    for history in histories:
        levels = {
            position: level.value
            for level in history.levels
            for position in range(level.first, level.last + 1)
        }
        changes = {change.position for change in history.changes}
        for position, point in enumerate(history.series.points):
            record = {
                **{
                    CONDITION_COLUMNS.get(name, name): value
                    for name, value in point.conditions.items()
                },
                **_run_values(point.run),
                "outcome": point.outcome,
                "repeats": len(point.values),
                "disturbed": point.is_disturbed,
                "level": rounded(levels.get(position), 3),
                "is_change": position in changes,
                **_identity(history.series),
            }
            if point.values:
                record |= {
                    "lowest": number(min(point.values)),
                    "highest": number(max(point.values)),
                }
                record["median"] = number(statistics.median(point.values))
            records.append(record)
    return records


def _identity(series: MetricSeries) -> dict[str, Any]:
    configuration = series.configuration
    metric = series.metric
    return {
        "board": series.board,
        "chip": series.chip,
        **{name: getattr(configuration, name) for name in ("runtime", "target", "name", "detail")},
        "models": ";".join(configuration.models),
        "metric": metric.name,
        "unit": metric.unit,
    }


def _run_values(run: Run) -> dict[str, Any]:
    values = (run.number, run.name, run.recorded_at, run.commit, run.is_dirty)
    return dict(zip(_RUN, values))
