"""The table of change points, for the page, and both tables of a history as plain files."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from reports.base.formatting import EMPTY
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.compare.long_form import CONDITION_COLUMNS, number
from reports.history.levels import Change, History
from reports.history.series import Point, Series
from reports.history.text import confidence, event, percent, place, size
from storage.runs import Run

_HEADS = ("configuration", "metric", "size", "percent", "before", "after", "confidence", "events")
_IDENTITY = ("board", "chip", "runtime", "target", "name", "detail", "models", "metric", "unit")
_RUN = ("run_number", "run_name", "recorded_at", "commit", "dirty")
#: The columns of the plain files; new ones come at the end.
CHANGE_POINTS = (
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
HISTORY = (
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
)


def changes_table(changes: Sequence[Change], name: Callable[[Series], str], texts: Texts) -> Table | None:
    """Return a row for each change point; None where there is none."""
    rows = [("ok", _cells(change, name, texts)) for change in changes]
    return Table([texts(f"column_change_{head}") for head in _HEADS], rows) if rows else None


def _cells(change: Change, name: Callable[[Series], str], texts: Texts) -> list[Cell]:
    return [
        Cell(name(change.series), False),
        Cell(texts(f"metric_{change.series.metric.name}"), False),
        Cell(size(change)),
        Cell(percent(change)),
        Cell(_where(change.before.run), False),
        Cell(_where(change.after.run), False),
        Cell(confidence(change)),
        Cell("; ".join(map(event, change.events)) or EMPTY, False),
    ]


def _where(run: Run) -> str:
    return f"{place(run)}, {run.moment}"


def change_point_rows(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the rows of the table of change points, by column."""
    return [_change_row(change) for change in changes]


def _change_row(change: Change) -> dict[str, Any]:
    found = change.point.difference
    return {
        **_identity(change.series),
        "level_before": _rounded(found.base_mean),
        "level_after": _rounded(found.base_mean + found.change),
        "change": _rounded(found.change),
        "change_error": None if found.error is None else _rounded(found.error),
        "change_percent": None if found.percent is None else _rounded(found.percent),
        "confidence": round(change.confidence, 6),
        **{f"before_{key}": value for key, value in _run(change.before.run).items()},
        **{f"after_{key}": value for key, value in _run(change.after.run).items()},
        "conditions": "; ".join(f"{each.condition}={each.old}>{each.new}" for each in change.events) or None,
    }


def history_rows(histories: Sequence[History]) -> list[dict[str, Any]]:
    """Return a row for each run of each series, by column."""
    return [row for history in histories for row in _rows(history)]


def _rows(history: History) -> list[dict[str, Any]]:
    levels = {place: level.value for level in history.levels for place in range(level.first, level.last + 1)}
    changes = {change.place for change in history.changes}
    identity = _identity(history.series)
    return [
        {**_point(point), "level": _level(levels.get(place)), "is_change": place in changes, **identity}
        for place, point in enumerate(history.series.points)
    ]


def _point(point: Point) -> dict[str, Any]:
    conditions = {CONDITION_COLUMNS.get(name, name): value for name, value in point.conditions.items()}
    return {**conditions, **_run(point.run), **_values(point)}


def _values(point: Point) -> dict[str, Any]:
    known: dict[str, Any] = {"outcome": point.outcome, "repeats": len(point.values), "disturbed": point.is_disturbed}
    if point.values:
        known.update(lowest=number(min(point.values)), highest=number(max(point.values)))
        known["median"] = number(statistics.median(point.values))
    return known


def _level(value: float | None) -> float | None:
    return None if value is None else _rounded(value)


def _identity(series: Series) -> dict[str, Any]:
    configuration, metric = series.configuration, series.metric
    named = {key: getattr(configuration, key) for key in ("runtime", "target", "name", "detail")}
    of = {"models": ";".join(configuration.models), "metric": metric.name, "unit": metric.unit}
    return {"board": series.board, "chip": series.chip, **named, **of}


def _run(run: Run) -> dict[str, Any]:
    known = {"run_number": run.number, "run_name": run.name, "recorded_at": run.recorded_at}
    return {**known, "commit": run.commit, "dirty": run.is_dirty}


def _rounded(value: float) -> float:
    return round(value, 3)
