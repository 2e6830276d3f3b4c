"""The runs to compare if the user has not named two that have something in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import CONDITIONS, Configuration, Run

#: Growth of the number of heads that are tried next.
_MORE = 8


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


def newest_stored_pair(
    stored: StoredRuns, metrics: Sequence[Metric], across: Collection[str] = ()
) -> tuple[Run, Run] | None:
    """Return the newest pair of all finished runs; few of their figures are read."""
    finished = sorted((run for run in stored.runs if run.is_finished), key=lambda run: run.order)
    count = 1
    while finished:
        heads = stored.with_measured(finished[-count:], metrics)
        rows = [measured for head in heads for measured in head.measured]
        # Runs before the heads can be compared with each other, too: that counts only later.
        pair = newest_pair(stored.with_measured(finished, metrics, rows, across), metrics, across)
        if pair and pair[1].path in {head.path for head in heads}:
            return pair
        del finished[-count:]
        count *= _MORE
    return None


def newest_before(
    head: Sequence[Run],
    stored: StoredRuns,
    metrics: Sequence[Metric],
    across: Collection[str] = (),
) -> Run | None:
    """Return the newest run before the head that it can be compared with; None without one."""
    first = min(run.order for run in head)
    rows = [measured for run in head for measured in run.measured]
    earlier = [run for run in stored.runs if run.is_finished and run.order < first]
    keys = set(_keys(head, metrics, across))
    candidates = [
        run
        for run in stored.with_measured(earlier, metrics, rows, across)
        if not keys.isdisjoint(_keys([run], metrics, across))
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
