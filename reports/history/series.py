"""Series: one figure of one configuration on one machine, run by run, with its levels and where
they changed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reusebench.reports.history.change_points import LEAST_RUNS, ChangePoint, calmed, change_points
from reusebench.storage.metrics import Metric
from reusebench.storage.result import BUSY_PERCENT
from reusebench.storage.runs import CONDITIONS, Configuration, Run, copies_in

#: Where no option names others.
HISTORY_METRICS = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "npu_memory",
    "latency",
    "throughput",
)
#: Conditions that make another series: figures of two machines have no common level.
_SERIES_OF_THEIR_OWN = ("board", "chip")
#: Fewer runs are no history.
_LEAST_SHOWN = 3


@dataclass(frozen=True)
class Point:
    """One run of the series."""

    run: Run
    #: "ok", or what happened in place of a measurement.
    outcome: str
    conditions: Mapping[str, str | None]
    #: One per repeat, in the metric's unit; none where the run failed.
    values: tuple[float, ...]
    #: Whether memory was short, or it is a figure of speed and the machine was busy: it says
    #: nothing of the level.
    is_disturbed: bool = False

    @property
    def median(self) -> float:
        """Of the repeats."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Event:
    """A condition that was another one in the measured run before."""

    #: The first run under the new condition, by its position in the series.
    position: int
    #: One of CONDITIONS.
    condition: str
    old: str
    new: str


@dataclass(frozen=True)
class MetricSeries:
    """One figure of one configuration on one machine; runs that lack the configuration are not in
    it.
    """

    board: str
    chip: str | None
    configuration: Configuration
    metric: Metric
    #: Oldest first; several runs of one commit are several points.
    points: tuple[Point, ...]

    @property
    def measured(self) -> list[int]:
        """The positions of the runs that gave values."""
        return [position for position, point in enumerate(self.points) if point.values]

    @property
    def undisturbed(self) -> list[int]:
        """The positions of the runs whose values say what the level is."""
        return [position for position in self.measured if not self.points[position].is_disturbed]

    @property
    def events(self) -> list[Event]:
        """What changed between the measured runs, where it is known of both."""
        events = []
        positions = self.measured
        for before, position in zip(positions, positions[1:]):
            for name in CONDITIONS:
                old = self.points[before].conditions[name]
                new = self.points[position].conditions[name]
                if (
                    name not in _SERIES_OF_THEIR_OWN
                    and old is not None
                    and new is not None
                    and old != new
                ):
                    events.append(Event(position, name, old, new))
        return events


@dataclass(frozen=True)
class Level:
    """A stretch of a series between two change points."""

    #: Positions in the series of its first and its last run.
    first: int
    last: int
    #: Mean of its runs, in the metric's unit.
    value: float


@dataclass(frozen=True)
class LevelChange:
    """One change point of a series, with its positions in the series."""

    series: MetricSeries
    point: ChangePoint
    #: The first run of the new level, and the two runs between which it came at 95 %.
    position: int
    before: Point
    after: Point
    #: Conditions that became others between these two runs.
    events: tuple[Event, ...]

    @property
    def confidence(self) -> float:
        """The share of tables without any change that have no change point as clear as this one."""
        return 1 - self.point.p_value


@dataclass(frozen=True)
class History:
    """One series, and what became of it."""

    series: MetricSeries
    #: Oldest first.
    changes: tuple[LevelChange, ...]

    @property
    def levels(self) -> list[Level]:
        """The stretches between the change points."""
        series = self.series
        positions = self.series.undisturbed
        calm = (
            calmed([series.points[position].values for position in positions])
            if len(positions) > 1
            else []
        )
        bounds = [0, *(change.point.run for change in self.changes), len(calm)]
        levels = []
        for start, end in zip(bounds, bounds[1:]):
            if start < end:
                value = statistics.fmean(value for run in calm[start:end] for value in run)
                levels.append(Level(positions[start], positions[end - 1], value))
        return levels


def series_of(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[MetricSeries]:
    """Return every series in which at least one run gave values, in the order of their first runs.

    What is a copy in every run is left out: another series says the same.
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
    """Return the history of each series; the confidence is that of all of them together."""
    all_series = series_of(runs, metrics)
    count = sum(len(series.undisturbed) >= LEAST_RUNS for series in all_series)
    histories = []
    for series in all_series:
        positions = series.undisturbed
        changes = []
        for point in change_points(
            series.metric, [series.points[position].values for position in positions], count
        ):
            before = positions[point.earliest - 1]
            after = positions[point.latest]
            events = tuple(event for event in series.events if before < event.position <= after)
            first = series.points[before]
            last = series.points[after]
            changes.append(LevelChange(series, point, positions[point.run], first, last, events))
        histories.append(History(series, tuple(changes)))
    return histories


def changes_of(histories: Iterable[History]) -> list[LevelChange]:
    """Return all change points, the newest first."""
    changes = [change for history in histories for change in history.changes]
    return sorted(
        changes, key=lambda change: change.series.points[change.position].run.order, reverse=True
    )


def is_worth_a_page(histories: Iterable[History]) -> bool:
    """Whether any series has enough runs to be looked at as a history."""
    return any(len(history.series.measured) >= _LEAST_SHOWN for history in histories)


def _points(positions: Iterable[tuple[Run, int]], metric: Metric) -> Iterator[Point]:
    """Yield a point for each run that gave values or failed; one that could not read the metric is
    a gap.
    """
    for run, position in positions:
        measured = run.measured[position]
        values = tuple(measured.values.get(metric.name, ()))
        if values or measured.outcome != "ok":
            is_busy = metric.part == "speed" and measured.busy_percent > BUSY_PERCENT
            yield Point(
                run,
                measured.outcome,
                measured.conditions,
                values,
                is_busy or measured.is_short(metric),
            )
