"""The tables of a history: of the page, and as records."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from reusebench.reports.base.formatting import EMPTY
from reusebench.reports.base.statistics import rounded
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.compare.exports.figures import number
from reusebench.reports.compare.exports.long_form import CONDITION_COLUMNS
from reusebench.reports.history.board_counts import BoardCounts
from reusebench.reports.history.series import History, LevelChange, MetricSeries
from reusebench.reports.history.words import (
    DAY_S,
    change_in_words,
    course_in_words,
    event_in_words,
    run_in_words,
)
from reusebench.storage.runs import RunSummary

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
    "wave",
    "outlier",
)
TREND_COLUMNS = (
    *_IDENTITY,
    "kind",
    "rise",
    "rise_error",
    "rise_per_day",
    "rise_per_run",
    "amplitude",
    "amplitude_error",
    "period_days",
    "period_runs",
    "periods",
)


def boards_table(boards: Sequence[BoardCounts], texts: Texts) -> Table | None:
    """Return a row for each board with a change; None without several boards."""
    changed = [board for board in boards if board.is_changed]
    if len(boards) == 1 or not changed:
        return None
    lines = []
    for board in changed:
        newest = EMPTY
        if board.newest:
            run = board.newest.after.run
            newest = f"{run_in_words(run)}, {run.moment}"
        numbers = (board.series, board.changed, board.changes, board.trends, board.outliers)
        lines.append(("ok", [board.name, *map(str, numbers), newest]))
    names = ("name", "series", "changed", "changes", "trends", "outliers", "newest")
    return Table(heads_of((f"column_board_{name}" for name in names), texts), lines, words=(0, 6))


def changes_table(
    changes: Sequence[LevelChange], name: Callable[[MetricSeries], str], texts: Texts
) -> Table | None:
    """Return a row for each change point; None if there are none."""
    if not changes:
        return None
    lines = []
    for change in changes:
        size, share, confidence = change_in_words(change)
        cells = [
            name(change.series),
            texts(f"metric_{change.series.metric.name}"),
            size,
            share,
            f"{run_in_words(change.before.run)}, {change.before.run.moment}",
            f"{run_in_words(change.after.run)}, {change.after.run.moment}",
            confidence,
            "; ".join(map(event_in_words, change.events)) or EMPTY,
        ]
        lines.append(("ok", cells))
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
    return Table(heads, lines, words=(0, 1, 4, 5, 7))


def trends_table(
    histories: Sequence[History], name: Callable[[MetricSeries], str], texts: Texts
) -> Table | None:
    """Return a row for each drift and each wave; None if there are none."""
    lines = []
    for history in histories:
        figure = texts(f"metric_{history.series.metric.name}")
        for words in course_in_words(history, texts):
            lines.append(("ok", [name(history.series), figure, words]))
    if not lines:
        return None
    heads = ("column_change_configuration", "column_change_metric", "column_trend")
    return Table(heads_of(heads, texts), lines, words=(0, 1, 2))


def change_point_records(changes: Iterable[LevelChange]) -> list[dict[str, Any]]:
    """Return the rows of the table of change points in CHANGE_POINT_COLUMNS."""
    records = []
    for change in changes:
        difference = change.point.difference
        conditions = [f"{event.condition}={event.old}>{event.new}" for event in change.events]
        record = {
            **_identity(change.series),
            "level_before": rounded(difference.base_mean, 3),
            "level_after": rounded(difference.base_mean + difference.change, 3),
            "change": rounded(difference.change, 3),
            "change_error": rounded(difference.error, 3),
            "change_percent": rounded(difference.percent, 3),
            "confidence": round(change.confidence, 6),
            "conditions": "; ".join(conditions) or None,
        }
        for end, point in (("before", change.before), ("after", change.after)):
            record |= {f"{end}_{column}": value for column, value in _run_values(point.run).items()}
        records.append(record)
    return records


def history_records(histories: Iterable[History]) -> Iterator[dict[str, Any]]:
    """Yield a row in HISTORY_COLUMNS for each run of each series."""
    for history in histories:
        levels = history.levels
        waves = history.waves
        outliers = history.outliers
        changes = {change.position for change in history.changes}
        for position, point in enumerate(history.series.points):
            conditions = {
                CONDITION_COLUMNS.get(name, name): value for name, value in point.conditions.items()
            }
            record = {
                **conditions,
                **_run_values(point.run),
                "outcome": point.outcome,
                "repeats": len(point.values),
                "disturbed": point.is_disturbed,
                "level": rounded(levels.get(position), 3),
                "is_change": position in changes,
                "wave": rounded(waves.get(position), 3),
                "outlier": rounded(outliers.get(position), 3),
                **_identity(history.series),
            }
            if point.values:
                record["lowest"] = number(min(point.values))
                record["highest"] = number(max(point.values))
                record["median"] = number(statistics.median(point.values))
            yield record


def trend_records(histories: Iterable[History]) -> list[dict[str, Any]]:
    """Return a row in TREND_COLUMNS for each drift and each wave."""
    records = []
    for history in histories:
        drift = history.course.drift
        wave = history.course.wave
        if drift:
            record = {
                "kind": "drift",
                "rise": rounded(drift.rise, 3),
                "rise_error": rounded(drift.error, 3),
                "rise_per_run": rounded(drift.rise / drift.runs, 3),
            }
            if drift.seconds:
                record["rise_per_day"] = rounded(drift.rise / drift.seconds * DAY_S, 3)
            records.append({**_identity(history.series), **record})
        if wave:
            record = {
                "kind": "wave",
                "amplitude": rounded(wave.amplitude, 3),
                "amplitude_error": rounded(wave.error, 3),
                "period_runs": rounded(wave.runs, 3),
                "periods": rounded(wave.periods, 3),
            }
            if wave.seconds:
                record["period_days"] = rounded(wave.seconds / DAY_S, 3)
            records.append({**_identity(history.series), **record})
    return records


def _identity(series: MetricSeries) -> dict[str, Any]:
    configuration = series.configuration
    return {
        "board": series.board,
        "chip": series.chip,
        "runtime": configuration.runtime,
        "target": configuration.target,
        "name": configuration.name,
        "detail": configuration.detail,
        "models": ";".join(configuration.models),
        "metric": series.metric.name,
        "unit": series.metric.unit,
    }


def _run_values(run: RunSummary) -> dict[str, Any]:
    values = (run.number, run.name, run.recorded_at, run.commit, run.is_dirty)
    return dict(zip(_RUN, values))
