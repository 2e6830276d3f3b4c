"""The table of compared figures: a row for each configuration of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from reusebench.measured.messages import Message
from reusebench.storage.index.tables import Table
from reusebench.storage.metrics import METRICS
from reusebench.storage.run_file import StoredRun
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run

__all__ = ["CONDITION_COLUMNS", "MEASURED", "MeasuredRows"]

#: Key: condition; value: its column. Models and plan are digests.
CONDITION_COLUMNS = {
    name: f"{name}_digest" if name in ("models", "plan") else name for name in CONDITIONS
}
#: Columns that are neither conditions nor values.
_COLUMNS = {
    "runtime": "VARCHAR",
    "target": "VARCHAR",
    "name": "VARCHAR",
    "detail": "VARCHAR",
    "models": "VARCHAR[]",
    "outcome": "VARCHAR",
    "busy_percent": "DOUBLE",
    #: JSON; NULL without any.
    "shortage_signs": "VARCHAR",
    "is_short": "BOOLEAN",
    #: Name of the configuration that was measured; all else of it is equal.
    "original": "VARCHAR",
    "counted_by": "VARCHAR",
    "model": "VARCHAR",
}
_METRIC_NAMES = tuple(metric.name for metric in METRICS)


def _rows(_file: StoredRun, run: Run) -> Iterator[tuple[Any, ...]]:
    for measured in run.measured:
        configuration = measured.configuration
        signs = None
        if measured.shortage_signs:
            signs = msgspec.json.encode(measured.shortage_signs).decode()
        yield (
            *(measured.conditions[name] for name in CONDITIONS),
            configuration.runtime,
            configuration.target,
            configuration.name,
            configuration.detail,
            configuration.models,
            measured.outcome,
            measured.busy_percent,
            signs,
            bool(measured.shortage_signs),
            measured.original.name if measured.original else None,
            measured.counted_by,
            measured.model,
            *(measured.values.get(name) for name in _METRIC_NAMES),
        )


MEASURED = Table(
    "measured",
    {
        **dict.fromkeys(CONDITION_COLUMNS.values(), "VARCHAR"),
        **_COLUMNS,
        **dict.fromkeys(_METRIC_NAMES, "DOUBLE[]"),
    },
    _rows,
)


class MeasuredRows:
    """Rows of the table as Measured, with these metrics; equal parts are one object."""

    def __init__(self, metrics: Sequence[str] = _METRIC_NAMES) -> None:
        self._metrics = metrics
        self._conditions: dict[tuple[str | None, ...], Mapping[str, str | None]] = {}
        self._configurations: dict[tuple[Any, ...], Configuration] = {}
        self._signs: dict[str | None, tuple[Message, ...]] = {None: ()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `measured` takes, in order."""
        columns = (*CONDITION_COLUMNS.values(), *_COLUMNS, *self._metrics)
        return tuple(column for column in columns if column != "is_short")

    def measured(self, row: Sequence[Any]) -> Measured:
        """Return the configuration of a row."""
        count = len(CONDITIONS)
        conditions = tuple(row[:count])
        runtime, target, name, detail, models, outcome, busy_percent, signs = row[count : count + 8]
        original, counted_by, model = row[count + 8 : count + 11]
        values = {}
        for metric, repeats in zip(self._metrics, row[count + 11 :]):
            if repeats:
                values[metric] = tuple(repeats)
        configuration = self._configuration(runtime, target, name, detail, tuple(models))
        return Measured(
            configuration,
            self._conditions.setdefault(conditions, dict(zip(CONDITIONS, conditions))),
            outcome,
            values,
            busy_percent,
            self._shortage_signs(signs),
            None if original is None else replace(configuration, name=original),
            counted_by,
            model,
        )

    def _configuration(self, *parts: Any) -> Configuration:
        configuration = self._configurations.get(parts)
        if configuration is None:
            configuration = self._configurations[parts] = Configuration(*parts)
        return configuration

    def _shortage_signs(self, signs: str | None) -> tuple[Message, ...]:
        known = self._signs.get(signs)
        if known is None:
            assert signs is not None
            known = msgspec.json.decode(signs, type=tuple[Message, ...])
            self._signs[signs] = known
        return known
