"""Series: one figure of one configuration on one machine, run by run, with levels and changes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reusebench.reports.history.change_points import LEAST_RUNS, ChangePoint, SeriesChanges
from reusebench.reports.history.configuration_runs import ConfigurationRuns, without_copies
from reusebench.reports.history.series_pool import SeriesJob, changes_in
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric
from reusebench.storage.result import BUSY_PERCENT
from reusebench.storage.runs import CONDITIONS, Configuration, RunSummary

#: Metrics of a history if no option names others.
HISTORY_METRICS = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "npu_memory",
    "kv_cache",
    "latency",
    "throughput",
    "first_token",
    "generation_speed_all",
)
#: Conditions that separate series: figures of two machines have no common level.
_SEPARATING = ("board", "chip")
#: Least number of runs of a history.
_LEAST_SHOWN = 3


@dataclass(frozen=True)
class Point:
    """One run of the series."""

    run: RunSummary
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
    """One figure of one configuration on one machine, in the runs that have the configuration.

    A run in which the figure was not measured, though the configuration was, is a gap.
    """

    of: ConfigurationRuns
    metric: Metric
    #: The rows of `of` that are points; oldest first; each run of a commit is one.
    rows: np.ndarray
    #: Repeats of all points, one point after another, and their number by point.
    values: np.ndarray
    repeats: np.ndarray

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.rows)

    @property
    def board(self) -> str:
        """The board that has all points."""
        return self.of.board

    @property
    def chip(self) -> str | None:
        """Its chip."""
        return self.of.chip

    @property
    def configuration(self) -> Configuration:
        """The configuration of all points."""
        return self.of.configuration

    @property
    def points(self) -> list[Point]:
        """All points, oldest first."""
        return [self.point(position) for position in range(len(self))]

    def point(self, position: int) -> Point:
        """Return the point at a position."""
        row = self.rows[position]
        end = self._ends[position]
        return Point(
            self.of.runs[row],
            self.of.outcomes[row],
            self.of.conditions[row],
            tuple(self.values[end - self.repeats[position] : end].tolist()),
            bool(self._is_disturbed[position]),
        )

    def run(self, position: int) -> RunSummary:
        """Return the run of the point at a position."""
        run: RunSummary = self.of.runs[self.rows[position]]
        return run

    @property
    def measured(self) -> list[int]:
        """The positions of the runs with values."""
        positions: list[int] = np.flatnonzero(self.repeats).tolist()
        return positions

    @property
    def undisturbed(self) -> list[int]:
        """The positions of the runs whose values show the level."""
        positions: list[int] = np.flatnonzero(self._is_judged).tolist()
        return positions

    @property
    def undisturbed_runs(self) -> SeriesRuns:
        """The values of the runs that show the level."""
        kept = self.values[np.repeat(self._is_judged, self.repeats)]
        return SeriesRuns(kept, np.append(0, self.repeats[self._is_judged].cumsum()))

    @property
    def undisturbed_seconds(self) -> np.ndarray | None:
        """The times of these runs; None if a clock was wrong."""
        rows = self.rows[self._is_judged]
        if not self.of.is_dated[rows].all():
            return None
        # The number of a run counts if two clocks differ by a little.
        return np.maximum.accumulate(self.of.seconds[rows])

    @cached_property
    def events(self) -> list[Event]:
        """The changes of conditions between consecutive measured runs, if both are known."""
        events = []
        conditions = [self.of.conditions[row] for row in self.rows]
        positions = self.measured
        for before, position in zip(positions, positions[1:]):
            if conditions[before] is conditions[position]:
                continue
            for name in CONDITIONS:
                if name in _SEPARATING:
                    continue
                old = conditions[before][name]
                new = conditions[position][name]
                if old is not None and new is not None and old != new:
                    events.append(Event(position, name, old, new))
        return events

    @cached_property
    def _ends(self) -> np.ndarray:
        return self.repeats.cumsum()

    @cached_property
    def _is_disturbed(self) -> np.ndarray:
        """Whether each point says nothing about the level."""
        is_disturbed = np.zeros(len(self), dtype=bool)
        if self.metric.part == "speed":
            is_disturbed |= self.of.busy_percent[self.rows] > BUSY_PERCENT
        if not self.metric.is_pinned:
            is_disturbed |= self.of.is_short[self.rows]
        return is_disturbed

    @property
    def _is_judged(self) -> np.ndarray:
        is_judged: np.ndarray = (self.repeats > 0) & ~self._is_disturbed
        return is_judged


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
        ends = [*positions[1:], positions[-1] + 1]
        for start, end, value in zip(positions, ends, values.tolist()):
            by_position.update(dict.fromkeys(range(start, end), value))
        return by_position


def series_of(
    configurations: Iterable[ConfigurationRuns], metrics: Sequence[Metric]
) -> list[MetricSeries]:
    """Return every series with values; copies of other configurations have none."""
    series = []
    for configuration in without_copies(list(configurations)):
        for metric in metrics:
            of_metric = configuration.values[metric.name]
            # A run with values, or one that failed.
            is_point = (of_metric.repeats > 0) | ~configuration.is_measured
            if of_metric.repeats.any():
                rows = np.flatnonzero(is_point)
                repeats = of_metric.repeats[rows]
                series.append(MetricSeries(configuration, metric, rows, of_metric.values, repeats))
    return series


def histories_of(
    configurations: Iterable[ConfigurationRuns], metrics: Sequence[Metric]
) -> list[History]:
    """Return the history of each series; the confidence holds for all series together."""
    all_series = series_of(configurations, metrics)
    count = sum(len(series.undisturbed) >= LEAST_RUNS for series in all_series)
    jobs = [
        SeriesJob(series.metric, series.undisturbed_runs, series.undisturbed_seconds, count)
        for series in all_series
    ]
    return [
        History(series, tuple(_level_changes(series, course)), course)
        for series, course in zip(all_series, changes_in(jobs))
    ]


def _level_changes(series: MetricSeries, course: SeriesChanges) -> Iterator[LevelChange]:
    positions = series.undisturbed
    for point in course.points:
        before = positions[point.earliest - 1]
        after = positions[point.latest]
        yield LevelChange(
            series,
            point,
            positions[point.run],
            before=series.point(before),
            after=series.point(after),
            events=tuple(event for event in series.events if before < event.position <= after),
        )


def changes_of(histories: Iterable[History]) -> list[LevelChange]:
    """Return all change points, the newest first."""
    changes = [change for history in histories for change in history.changes]
    changes.sort(key=lambda change: change.series.run(change.position).order, reverse=True)
    return changes


def is_worth_a_page(histories: Iterable[History]) -> bool:
    """Whether any series has enough runs for a history."""
    return any(len(history.series.measured) >= _LEAST_SHOWN for history in histories)
