"""What is said of a change point: which runs it lies between, how large it is, how sure."""

from __future__ import annotations

from reports.base.units import amount, number
from reports.history.levels import Change
from reports.history.series import Event
from storage.runs import Run

#: More than so sure nothing is: what noise is was itself only measured.
_MOST_SURE = 0.9999


def size(change: Change, unit: bool = True) -> str:
    """Return the change of level with its interval, in the unit that is shown."""
    found, metric = change.point.difference, change.series.metric
    of = amount if unit else number
    if not found.error:
        return of(found.change, metric, sign=True)
    return f"{number(found.change, metric, sign=True)} ±{of(found.error, metric)}"


def percent(change: Change) -> str:
    """Return the change in percent of the old level."""
    value = change.point.difference.percent
    return "-" if value is None else f"{value:+.1f}"


def place(run: Run) -> str:
    """Return the run's number, and its commit where it has one."""
    number = f"{run.number:04}" if run.number is not None else run.path.stem
    return f"{number} {run.short_commit}".rstrip()


def confidence(change: Change) -> str:
    """Return the confidence in percent."""
    if change.confidence > _MOST_SURE:
        return f">{100 * _MOST_SURE:g}"
    return f"{100 * change.confidence:.2f}"


def event(each: Event) -> str:
    """Return which condition became another one."""
    return f"{each.condition} {each.old} \N{RIGHTWARDS ARROW} {each.new}"
