"""The runs of one configuration on one board, as columns: a row for each run that has it."""

from __future__ import annotations

import datetime
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Optional

import numpy as np

from reusebench.storage.metrics import Metric
from reusebench.storage.runs import Configuration, Run, RunSummary

#: Board, chip and configuration.
Key = tuple[str, Optional[str], Configuration]


@dataclass(frozen=True)
class MetricValues:
    """The values of one metric, run after run."""

    values: np.ndarray
    #: Number of values of each run.
    repeats: np.ndarray


@dataclass(frozen=True)
class ConfigurationRuns:
    """One configuration on one board in the runs that have it, oldest first."""

    board: str
    chip: str | None
    configuration: Configuration
    runs: Sequence[RunSummary]
    #: By run: "ok", or the kind of the failure.
    outcomes: Sequence[str]
    conditions: Sequence[Mapping[str, str | None]]
    busy_percent: np.ndarray
    #: Whether memory was short.
    is_short: np.ndarray
    #: Name of the configuration whose figures each has, as their plans are equal; None if it was
    #: measured itself.
    originals: Sequence[str | None]
    #: Key: name of a metric.
    values: Mapping[str, MetricValues]

    @cached_property
    def is_measured(self) -> np.ndarray:
        """Whether each run was measured to the end."""
        return np.array([outcome == "ok" for outcome in self.outcomes])

    @cached_property
    def is_dated(self) -> np.ndarray:
        """Whether the clock of each run can have been right."""
        return np.array([run.is_dated for run in self.runs])

    @cached_property
    def seconds(self) -> np.ndarray:
        """The time of each run."""
        return np.array([_seconds(run.recorded_at) for run in self.runs])


class Row(NamedTuple):
    """One configuration in one run, without its values."""

    run: RunSummary
    configuration: Configuration
    conditions: Mapping[str, str | None]
    outcome: str
    busy_percent: float
    is_short: bool
    original: str | None

    @property
    def key(self) -> Key:
        """What separates series."""
        return self.conditions["board"] or "", self.conditions["chip"], self.configuration


def configurations_of(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[ConfigurationRuns]:
    """Return the configurations of runs, in the order of their first runs."""
    rows: list[Row] = []
    repeats: list[int] = []
    values = array("d")
    for run in runs:
        summary = _summary(run)
        for one in run.measured:
            original = one.original.name if one.original else None
            facts = (one.outcome, one.busy_percent, bool(one.shortage_signs), original)
            rows.append(Row(summary, one.configuration, one.conditions, *facts))
            for metric in metrics:
                of_metric = one.values.get(metric.name, ())
                repeats.append(len(of_metric))
                values.extend(of_metric)
    shape = (len(rows), len(metrics))
    return grouped(rows, metrics, np.array(repeats, dtype=int).reshape(shape), np.array(values))


def grouped(
    rows: Sequence[Row], metrics: Sequence[Metric], repeats: np.ndarray, values: np.ndarray
) -> list[ConfigurationRuns]:
    """Return the configurations of rows, in the order of their first runs.

    `repeats` has the number of values of each metric by row, `values` all of them, row after row.
    """
    members: dict[Key, list[int]] = {}
    for place in sorted(range(len(rows)), key=lambda place: rows[place].run.order):
        members.setdefault(rows[place].key, []).append(place)
    ends = repeats.cumsum().reshape(repeats.shape)
    configurations = []
    for key, places in members.items():
        chosen = [rows[place] for place in places]
        configurations.append(
            ConfigurationRuns(
                *key,
                runs=[row.run for row in chosen],
                outcomes=[row.outcome for row in chosen],
                conditions=_with_equal_as_one(row.conditions for row in chosen),
                busy_percent=np.array([row.busy_percent for row in chosen]),
                is_short=np.array([row.is_short for row in chosen]),
                originals=[row.original for row in chosen],
                values={
                    metric.name: _values_at(repeats[places, column], ends[places, column], values)
                    for column, metric in enumerate(metrics)
                },
            )
        )
    return configurations


def without_copies(configurations: Sequence[ConfigurationRuns]) -> list[ConfigurationRuns]:
    """Return those that have a run with figures of their own.

    A configuration that has the figures of another one in every run is left out. Which of the two
    was measured may change from run to run.
    """
    related: dict[Configuration, list[ConfigurationRuns]] = {}
    for one in configurations:
        related.setdefault(one.configuration, []).append(one)
    suspects: set[Configuration] = set()
    for configuration, parts in related.items():
        originals = {original for part in parts for original in part.originals if original}
        if originals:
            suspects |= {configuration, *(replace(configuration, name=name) for name in originals)}

    firsts: dict[tuple[tuple[int, Configuration], ...], Configuration] = {}
    for configuration, parts in related.items():
        if configuration in suspects:
            sources = sorted(source for part in parts for source in _sources(part))
            firsts.setdefault(tuple(sources), configuration)
    copies = suspects.difference(firsts.values())
    return [one for one in configurations if one.configuration not in copies]


def _sources(configuration: ConfigurationRuns) -> Iterator[tuple[int, Configuration]]:
    """Yield each run, as a number, with the configuration that was measured."""
    own = configuration.configuration
    for run, original in zip(configuration.runs, configuration.originals):
        yield id(run), replace(own, name=original) if original else own


def _values_at(repeats: np.ndarray, ends: np.ndarray, values: np.ndarray) -> MetricValues:
    """Return the values of rows that end at these places."""
    shifts = np.repeat(ends - repeats.cumsum(), repeats)
    return MetricValues(values[np.arange(len(shifts)) + shifts], repeats)


def _summary(run: Run) -> RunSummary:
    """Return the run without its figures, which would take much memory."""
    return RunSummary(**{name.name: getattr(run, name.name) for name in fields(RunSummary)})


def _with_equal_as_one(
    conditions: Iterable[Mapping[str, str | None]],
) -> list[Mapping[str, str | None]]:
    distinct: dict[tuple[str | None, ...], Mapping[str, str | None]] = {}
    return [distinct.setdefault(tuple(one.values()), one) for one in conditions]


@lru_cache(maxsize=100_000)
def _seconds(recorded_at: str) -> float:
    moment = datetime.datetime.fromisoformat(recorded_at)
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()
