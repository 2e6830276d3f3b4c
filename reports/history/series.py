"""Series: one figure of one configuration on one machine, run by run, with levels and changes."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reusebench.reports.history.change_points import (
    LEAST_RUNS,
    ChangePoint,
    SeriesChanges,
    series_changes,
)
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric
from reusebench.storage.result import BUSY_PERCENT
from reusebench.storage.runs import CONDITIONS, Configuration, Run, copies_in

#: Metrics of a history if no option names others.
HISTORY_METRICS = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "npu_memory",
    "latency",
    "throughput",
)
#: Conditions that separate series: figures of two machines have no common level.
_SEPARATING = ("board", "chip")
#: Least number of runs of a history.
_LEAST_SHOWN = 3


@dataclass(frozen=True)
class Point:
    """One run of the series."""

    run: Run
    #: "ok", or the kind of the failure.
    outcome: str
    conditions: Mapping[str, str | None]
    #: A value per repeat, in the metric's unit; empty if the run failed.
    values: tuple[float, ...]
    #: Whether the run says nothing about the level: memory was short, or the machine was busy while
    #: a figure of speed was measured.
    is_disturbed: bool = False

    @property
    def median(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Event:
    """A change of a condition since the previous measured run."""

    #: Position in the series of the first run under the new condition.
    position: int
    #: One of CONDITIONS.
    condition: str
    old: str
    new: str


@dataclass(frozen=True)
class MetricSeries:
    """One figure of one configuration on one machine, in the runs that have the configuration."""

    board: str
    chip: str | None
    configuration: Configuration
    metric: Metric
    #: Oldest first; each run of a commit is a point.
    points: tuple[Point, ...]

    @property
    def measured(self) -> list[int]:
        """The positions of the runs with values."""
        return [position for position, point in enumerate(self.points) if point.values]

    @property
    def undisturbed(self) -> list[int]:
        """The positions of the runs whose values show the level."""
        return [position for position in self.measured if not self.points[position].is_disturbed]

    @property
    def events(self) -> list[Event]:
        """The changes of conditions between consecutive measured runs, if both are known."""
        events = []
        positions = self.measured
        for before, position in zip(positions, positions[1:]):
            for name in CONDITIONS:
                if name in _SEPARATING:
                    continue
                old = self.points[before].conditions[name]
                new = self.points[position].conditions[name]
                if old is not None and new is not None and old != new:
                    events.append(Event(position, name, old, new))
        return events


@dataclass(frozen=True)
class LevelChange:
    """One change point of a series, with its positions in the series."""

    series: MetricSeries
    point: ChangePoint
    #: Position of the first run of the new level.
    position: int
    #: The two runs between which the level changed, at 95 %.
    before: Point
    after: Point
    #: Changes of conditions between these two runs.
    events: tuple[Event, ...]

    @property
    def confidence(self) -> float:
        """The share of tables without any change that have no change point as clear as this one."""
        return 1 - self.point.p_value


@dataclass(frozen=True)
class History:
    """One series with its changes of level, and what else it has beside noise."""

    series: MetricSeries
    #: Oldest first.
    changes: tuple[LevelChange, ...]
    #: The same, and drift, wave and outliers; its runs are those of `series.undisturbed`.
    course: SeriesChanges

    @property
    def has_trend(self) -> bool:
        """Whether there is a drift or a wave."""
        return self.course.drift is not None or self.course.wave is not None

    @property
    def outliers(self) -> dict[int, float]:
        """The distance of each outlier from its level, by position in the series."""
        positions = self.series.undisturbed
        return {positions[run]: distance for run, distance in self.course.outliers.items()}

    @property
    def levels(self) -> dict[int, float]:
        """The level of each run, with the drift, by position; empty if there is a single run.

        A run that is not used has the level of the run before.
        """
        return self._continued(self.course.levels)

    @property
    def waves(self) -> dict[int, float]:
        """What the wave adds to the level of each run, by position."""
        return self._continued(self.course.waves)

    def _continued(self, values: np.ndarray) -> dict[int, float]:
        positions = self.series.undisturbed
        if len(positions) < 2:
            return {}
        by_position = {}
        for start, end, value in zip(
            positions, [*positions[1:], positions[-1] + 1], values.tolist()
        ):
            by_position.update(dict.fromkeys(range(start, end), value))
        return by_position


def series_of(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[MetricSeries]:
    """Return every series with values, in the order of their first runs.

    A configuration that is a copy in every run is left out: another series has its figures.
    """
    members: dict[tuple[str, str | None, Configuration], list[tuple[Run, int]]] = {}
    ordered = sorted(runs, key=lambda run: run.order)
    copies = copies_in(ordered)
    for run in ordered:
        for position, measured in enumerate(run.measured):
            if measured.configuration not in copies:
                key = (run.board, measured.conditions["chip"], measured.configuration)
                members.setdefault(key, []).append((run, position))
    series = []
    for key, positions in members.items():
        for metric in metrics:
            points = tuple(_points(positions, metric))
            if any(point.values for point in points):
                series.append(MetricSeries(*key, metric, points))
    return series


def histories_of(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[History]:
    """Return the history of each series; the confidence holds for all series together."""
    all_series = series_of(runs, metrics)
    count = sum(len(series.undisturbed) >= LEAST_RUNS for series in all_series)
    return [_history(series, count) for series in all_series]


def _history(series: MetricSeries, series_count: int) -> History:
    points = [series.points[position] for position in series.undisturbed]
    values = SeriesRuns.of([point.values for point in points])
    course = series_changes(series.metric, values, _seconds(points), series_count)
    return History(series, tuple(_level_changes(series, course)), course)


def _seconds(points: Sequence[Point]) -> list[float] | None:
    """Return the times of the runs; None if a clock was wrong."""
    if not all(point.run.is_dated for point in points):
        return None
    seconds: list[float] = []
    for point in points:
        moment = datetime.datetime.fromisoformat(point.run.recorded_at)
        second = moment.replace(tzinfo=datetime.timezone.utc).timestamp()
        # The number of a run counts if two clocks differ by a little.
        seconds.append(max(second, seconds[-1]) if seconds else second)
    return seconds


def _level_changes(series: MetricSeries, course: SeriesChanges) -> Iterator[LevelChange]:
    positions = series.undisturbed
    for point in course.points:
        before = positions[point.earliest - 1]
        after = positions[point.latest]
        yield LevelChange(
            series,
            point,
            positions[point.run],
            before=series.points[before],
            after=series.points[after],
            events=tuple(event for event in series.events if before < event.position <= after),
        )


def changes_of(histories: Iterable[History]) -> list[LevelChange]:
    """Return all change points, the newest first."""
    changes = [change for history in histories for change in history.changes]
    changes.sort(key=lambda change: change.series.points[change.position].run.order, reverse=True)
    return changes


def is_worth_a_page(histories: Iterable[History]) -> bool:
    """Whether any series has enough runs for a history."""
    return any(len(history.series.measured) >= _LEAST_SHOWN for history in histories)


def _points(positions: Iterable[tuple[Run, int]], metric: Metric) -> Iterator[Point]:
    """Yield a point for each run that has values or failed; a run without the metric is a gap."""
    for run, position in positions:
        measured = run.measured[position]
        values = tuple(measured.values.get(metric.name, ()))
        if not values and measured.outcome == "ok":
            continue
        is_busy = metric.part == "speed" and measured.busy_percent > BUSY_PERCENT
        is_disturbed = is_busy or measured.is_short(metric)
        yield Point(run, measured.outcome, measured.conditions, values, is_disturbed)
