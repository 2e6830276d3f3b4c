"""Runs as one JSON document: the result of `reusebench export --format json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, Union

import msgspec

from reusebench.reports.compare.exports.figures import number
from reusebench.reports.compare.exports.long_form import CONDITION_COLUMNS
from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import CONDITIONS, Measured, Run
from reusebench.system.files import printable

__all__ = ["ExportResult"]

_Number = Union[int, float]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the document."""


class ExportedFigure(_Part, frozen=True):
    """A metric of a configuration."""

    metric: str
    #: bytes, ns, 1/s, tokens/s or percent.
    unit: str
    median: _Number
    #: Distance of the farthest repeat from the median; null if there is one repeat.
    spread: Optional[_Number]
    #: Each repeat.
    values: list[_Number]
    #: Whether memory was short, so that it reads too small.
    memory_short: bool


class ExportedConfiguration(_Part, frozen=True):
    """A configuration of a run; one that failed has no figures."""

    runtime: str
    target: str
    #: Scenario or program.
    name: str
    #: Streams x contexts, or the phase of a program.
    detail: str
    models: list[str]
    #: The scenario whose processes gave these figures; null if it has processes of its own.
    measured_as: Optional[str]
    #: Key: a condition, by its column of the long form; null if unknown.
    conditions: dict[str, Optional[str]]
    #: ok, or the kind of the failure.
    outcome: str
    busy_percent: float
    figures: list[ExportedFigure]


class ExportedRun(_Part, frozen=True):
    """A run with all that it measured."""

    number: Optional[int]
    name: str
    #: ISO 8601, UTC.
    recorded_at: str
    board: str
    commit: Optional[str]
    is_dirty: bool
    is_finished: bool
    path: str
    configurations: list[ExportedConfiguration]


class ExportResult(_Part, frozen=True):
    """The exported runs, the oldest first."""

    runs: list[ExportedRun]

    @classmethod
    def of(cls, runs: Sequence[Run], metrics: Sequence[Metric]) -> ExportResult:
        """Return the document of these runs and metrics."""
        return cls([_run(run, metrics) for run in runs])


def _run(run: Run, metrics: Sequence[Metric]) -> ExportedRun:
    return ExportedRun(
        number=run.number,
        name=run.name,
        recorded_at=run.recorded_at,
        board=run.board,
        commit=run.commit,
        is_dirty=run.is_dirty,
        is_finished=run.is_finished,
        path=printable(str(run.path)),
        configurations=[_configuration(measured, metrics) for measured in run.measured],
    )


def _configuration(measured: Measured, metrics: Sequence[Metric]) -> ExportedConfiguration:
    configuration = measured.configuration
    conditions = {
        CONDITION_COLUMNS.get(name, name): measured.conditions[name] for name in CONDITIONS
    }
    figures = []
    for metric in metrics:
        figure = Figure.of(measured.values.get(metric.name, ()))
        if figure:
            figures.append(_figure(metric, figure, measured.is_short(metric)))
    return ExportedConfiguration(
        runtime=configuration.runtime,
        target=configuration.target,
        name=configuration.name,
        detail=configuration.detail,
        models=list(configuration.models),
        measured_as=measured.original.name if measured.original else None,
        conditions=conditions,
        outcome=measured.outcome,
        busy_percent=measured.busy_percent,
        figures=figures,
    )


def _figure(metric: Metric, figure: Figure, is_short: bool) -> ExportedFigure:
    return ExportedFigure(
        metric=metric.name,
        unit=metric.unit,
        median=number(figure.median),
        spread=None if figure.spread is None else number(figure.spread),
        values=[number(value) for value in figure.values],
        memory_short=is_short,
    )
