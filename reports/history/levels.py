"""The history of every series: its levels, and where they changed between which runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.history.change_points import LEAST_RUNS, ChangePoint, calmed, change_points
from reports.history.series import Event, Point, Series, series_of
from storage.metrics import Metric
from storage.runs import Run

#: Where no option names others.
HISTORY_METRICS = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "npu_memory",
    "latency",
    "throughput",
)
#: Fewer runs are no history.
_LEAST_SHOWN = 3


@dataclass(frozen=True)
class Level:
    """A stretch of a series between two change points."""

    #: Places in the series of its first and its last run.
    first: int
    last: int
    #: Mean of its runs, in the metric's unit.
    value: float


@dataclass(frozen=True)
class Change:
    """One change point of a series, with its places in the series."""

    series: Series
    point: ChangePoint
    #: The first run of the new level, and the two runs between which it came at 95 %.
    place: int
    before: Point
    after: Point
    #: Conditions that became others between these two runs.
    events: tuple[Event, ...]

    @property
    def confidence(self) -> float:
        """The share of tables without any change in which no change point would be found that is as clear."""
        return 1 - self.point.p_value


@dataclass(frozen=True)
class History:
    """One series, and what became of it."""

    series: Series
    #: Oldest first.
    changes: tuple[Change, ...]

    @property
    def levels(self) -> list[Level]:
        """The stretches between the change points."""
        series, places = self.series, self.series.undisturbed
        calm = calmed([series.points[place].values for place in places]) if len(places) > 1 else []
        bounds = [0, *(change.point.run for change in self.changes), len(calm)]
        return [_level(places, calm, start, end) for start, end in zip(bounds, bounds[1:]) if start < end]


def histories_of(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[History]:
    """Return the history of each series; the confidence is that of all of them together."""
    found = series_of(runs, metrics)
    count = sum(len(series.undisturbed) >= LEAST_RUNS for series in found)
    return [_history(series, count) for series in found]


def changes_of(histories: Iterable[History]) -> list[Change]:
    """Return all change points, the newest first."""
    changes = [change for history in histories for change in history.changes]
    return sorted(changes, key=lambda change: change.series.points[change.place].run.recorded_at, reverse=True)


def is_worth_a_page(histories: Iterable[History]) -> bool:
    """Whether any series has enough runs to be looked at as a history."""
    return any(len(history.series.measured) >= _LEAST_SHOWN for history in histories)


def _history(series: Series, count: int) -> History:
    places = series.undisturbed
    points = change_points(series.metric, [series.points[place].values for place in places], count)
    return History(series, tuple(_change(series, places, point) for point in points))


def _change(series: Series, places: Sequence[int], point: ChangePoint) -> Change:
    before, after = places[point.earliest - 1], places[point.latest]
    events = tuple(event for event in series.events if before < event.place <= after)
    return Change(series, point, places[point.run], series.points[before], series.points[after], events)


def _level(places: Sequence[int], calm: Sequence[Sequence[float]], start: int, end: int) -> Level:
    value = statistics.fmean(value for run in calm[start:end] for value in run)
    return Level(places[start], places[end - 1], value)
