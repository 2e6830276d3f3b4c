"""What several formats have in common: names of configurations, and figures over repeats."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from reusebench.reports.base.statistics import Figure
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run

__all__ = ["ConfigurationFigure", "Number", "as_json", "figures", "name_of", "number"]

#: Bencher's limit of a benchmark's name in UTF-8.
_NAME_BYTES = 1024
#: Digits of the digest at the end of a shortened name.
_DIGITS = 12

Number = Union[int, float]


@dataclass(frozen=True)
class ConfigurationFigure:
    """One metric of one configuration, over the repeats of all runs."""

    name: str
    metric: Metric
    values: tuple[float, ...]
    conditions: Mapping[str, str | None]

    @property
    def over_repeats(self) -> Figure:
        """The figure over the repeats of all runs."""
        figure = Figure.of(self.values)
        assert figure is not None
        return figure


def name_of(configuration: Configuration) -> str:
    """Return the configuration's name in other tools: with all models, shortened to their limit."""
    models = (", ".join(configuration.models),) if configuration.models else ()
    whole = str(dataclasses.replace(configuration, models=models))
    encoded = whole.encode()
    if len(encoded) <= _NAME_BYTES:
        return whole
    digest = hashlib.sha256(encoded).hexdigest()[:_DIGITS]
    start = encoded[: _NAME_BYTES - _DIGITS - 1].decode(errors="ignore")
    return f"{start} {digest}"


def figures(runs: Sequence[Run], metrics: Sequence[Metric]) -> Iterator[ConfigurationFigure]:
    """Yield a figure for each configuration and metric, over the repeats of all runs."""
    members_of: dict[Configuration, list[tuple[Run, Measured]]] = {}
    for run in runs:
        for measured in run.measured:
            if measured.values:
                members_of.setdefault(measured.configuration, []).append((run, measured))

    for configuration, members in members_of.items():
        name = name_of(configuration)
        conditions = _common_conditions(configuration, members)
        for metric in metrics:
            values: list[float] = []
            for _, measured in members:
                values += measured.values.get(metric.name, ())
            if values:
                yield ConfigurationFigure(name, metric, tuple(values), conditions)


def _common_conditions(
    configuration: Configuration, members: Sequence[tuple[Run, Measured]]
) -> Mapping[str, str | None]:
    """Return the conditions of all members; raise ReportError if they differ."""
    for name in CONDITIONS:
        values = [(str(run), measured.conditions[name]) for run, measured in members]
        if len({value for _, value in values}) > 1:
            listed = ", ".join(f"{run}: {value}" for run, value in values)
            raise ReportError(
                f"{configuration}: the runs differ in {name} ({listed}), and in this format one"
                " name stands for all of them. Export one run at a time, or use --format csv or"
                " jsonl"
            )
    return members[0][1].conditions


def number(value: float) -> Number:
    """Return whole numbers, as bytes are, without a fraction."""
    return int(value) if float(value).is_integer() else value


def as_json(value: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
