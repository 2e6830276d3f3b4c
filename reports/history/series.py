"""Series: one figure of one configuration on one machine, run by run, with what changed between the runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reports.results.rows import BUSY_PERCENT
from storage.metrics import Metric
from storage.runs import CONDITIONS, Configuration, Run

#: Conditions that make another series: figures of two machines have no common level.
SERIES_OF_THEIR_OWN = ("board", "chip")


@dataclass(frozen=True)
class Point:
    """One run of the series."""

    run: Run
    #: "ok", or what happened in place of a measurement.
    outcome: str
    conditions: Mapping[str, str | None]
    #: One per repeat, in the metric's unit; none where the run failed.
    values: tuple[float, ...]
    #: Whether it is a figure of speed and the machine was busy with other work: it says nothing of the level.
    is_disturbed: bool = False

    @property
    def median(self) -> float:
        """Of the repeats."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Event:
    """A condition that was another one in the measured run before."""

    #: The first run under the new condition, by its place in the series.
    place: int
    #: One of CONDITIONS.
    condition: str
    old: str
    new: str


@dataclass(frozen=True)
class Series:
    """One figure of one configuration on one machine; runs that lack the configuration are not in it."""

    board: str
    chip: str | None
    configuration: Configuration
    metric: Metric
    #: Oldest first; several runs of one commit are several points.
    points: tuple[Point, ...]

    @property
    def measured(self) -> list[int]:
        """The places of the runs that gave values."""
        return [place for place, point in enumerate(self.points) if point.values]

    @property
    def undisturbed(self) -> list[int]:
        """The places of the runs whose values say what the level is."""
        return [place for place in self.measured if not self.points[place].is_disturbed]

    @property
    def events(self) -> list[Event]:
        """What changed between the measured runs, where it is known of both."""
        places = self.measured
        pairs = zip(places, places[1:])
        return [event for before, place in pairs for event in _events(self.points[before], self.points[place], place)]


def series_of(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[Series]:
    """Return every series in which at least one run gave values, in the order of their first runs."""
    found: dict[tuple[str, str | None, Configuration], list[tuple[Run, int]]] = {}
    for run in sorted(runs, key=lambda run: (run.recorded_at, str(run.path))):
        for place, measured in enumerate(run.measured):
            key = (run.board, measured.conditions["chip"], measured.configuration)
            found.setdefault(key, []).append((run, place))
    series = [Series(*key, metric, _points(each, metric)) for key, each in found.items() for metric in metrics]
    return [each for each in series if each.measured]


def _points(found: Sequence[tuple[Run, int]], metric: Metric) -> tuple[Point, ...]:
    """Return a point for each run that gave values or failed; one that could not read the metric is a gap."""
    points = (_point(run, place, metric) for run, place in found)
    return tuple(point for point in points if point.values or point.outcome != "ok")


def _point(run: Run, place: int, metric: Metric) -> Point:
    measured = run.measured[place]
    is_disturbed = metric.part == "speed" and measured.busy_percent > BUSY_PERCENT
    values = tuple(measured.values.get(metric.name, ()))
    return Point(run, measured.outcome, measured.conditions, values, is_disturbed)


def _events(before: Point, after: Point, place: int) -> Iterable[Event]:
    for name in CONDITIONS:
        old, new = before.conditions[name], after.conditions[name]
        if name not in SERIES_OF_THEIR_OWN and old is not None and new is not None and old != new:
            yield Event(place, name, old, new)
