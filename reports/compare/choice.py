"""The runs to compare if the user has not named two that have something in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from reusebench.storage.metrics import Metric
from reusebench.storage.runs import CONDITIONS, Configuration, Run


class _Key(NamedTuple):
    """What two runs must both have to be compared."""

    configuration: Configuration
    conditions: tuple[str | None, ...]
    metric: str


def newest_pair(
    runs: Iterable[Run], metrics: Sequence[Metric], across: Collection[str] = ()
) -> tuple[Run, Run] | None:
    """Return the newest run that can be compared with one before it, as (base, head).

    The base is the newest of those before it. None if no two runs can be compared.
    """
    newest: dict[_Key, Run] = {}
    pair = None
    for head in sorted(runs, key=lambda run: run.order):
        keys = set(_keys([head], metrics, across))
        bases = [newest[key] for key in keys if key in newest]
        if bases:
            pair = (max(bases, key=lambda run: run.order), head)
        newest.update((key, head) for key in keys)
    return pair


def newest_before(
    head: Sequence[Run],
    runs: Iterable[Run],
    metrics: Sequence[Metric],
    across: Collection[str] = (),
) -> Run | None:
    """Return the newest run before the head that it can be compared with; None without one."""
    keys = set(_keys(head, metrics, across))
    first = min(run.order for run in head)
    candidates = [
        run
        for run in runs
        if run.order < first and not keys.isdisjoint(_keys([run], metrics, across))
    ]
    return max(candidates, key=lambda run: run.order, default=None)


def _keys(
    runs: Iterable[Run], metrics: Sequence[Metric], across: Collection[str]
) -> Iterator[_Key]:
    names = [name for name in CONDITIONS if name not in across]
    for run in runs:
        for measured in run.measured:
            conditions = tuple(measured.conditions[name] for name in names)
            for metric in metrics:
                if measured.values.get(metric.name):
                    yield _Key(measured.configuration, conditions, metric.name)
