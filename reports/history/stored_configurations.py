"""The configurations of storages, as columns: from the index, or from the files without one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reusebench.reports.history.configuration_runs import (
    ConfigurationRuns,
    Row,
    configurations_of,
    grouped,
)
from reusebench.storage.index.measured_table import CONDITION_COLUMNS
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import CONDITIONS, Configuration, Run, RunSummary

if TYPE_CHECKING:
    import duckdb

#: Runs whose files are read together.
_FILES_AT_ONCE = 100
#: Rows of the index that are fetched together, unless a board has more.
_ROWS_AT_ONCE = 50_000
_CONFIGURATION = ("runtime", "target", "name", "detail", "models")
_OTHERS = ("outcome", "busy_percent", "is_short", "original")


def stored_configurations(
    stored: StoredRuns,
    metrics: Sequence[Metric],
    names: Collection[str] = (),
    boards: Collection[str] = (),
) -> list[ConfigurationRuns]:
    """Return the configurations with these names on these boards; empty: with any.

    They are in the order of their boards, then of their first runs.
    """
    configurations = stored.ask(
        "measured", lambda table: list(_indexed(table, stored.runs, metrics, names, boards))
    )
    if configurations is None:
        configurations = configurations_of(_read(stored, metrics, names, boards), metrics)
    first_run = {one.board: one.runs[0].order for one in reversed(configurations)}
    for one in configurations:
        first_run[one.board] = min(first_run[one.board], one.runs[0].order)
    return sorted(configurations, key=lambda one: (first_run[one.board], one.board))


def _read(
    stored: StoredRuns,
    metrics: Sequence[Metric],
    names: Collection[str],
    boards: Collection[str],
) -> Iterator[Run]:
    """Yield the runs with the chosen configurations of their files."""
    for start in range(0, len(stored.runs), _FILES_AT_ONCE):
        for run in stored.with_measured(stored.runs[start : start + _FILES_AT_ONCE], metrics):
            chosen = []
            for measured in run.measured:
                is_named = _is_one_of(measured.configuration.name, names)
                if is_named and _is_one_of(measured.conditions["board"], boards):
                    chosen.append(measured)
            yield replace(run, measured=tuple(chosen))


def _is_one_of(name: str | None, chosen: Collection[str]) -> bool:
    return not chosen or name in chosen


def _indexed(
    table: duckdb.DuckDBPyRelation,
    runs: Sequence[RunSummary],
    metrics: Sequence[Metric],
    names: Collection[str],
    boards: Collection[str],
) -> Iterator[ConfigurationRuns]:
    """Yield the configurations by the index, some boards at a time."""
    for column, chosen in (("name", names), ("board", boards)):
        if chosen:
            table = table.filter(_condition(column, chosen))
    sizes = table.aggregate("board, count(*)", "board").order("board").fetchall()
    for together in _groups(sizes):
        rows, repeats, values = _fetched(table.filter(_condition("board", together)), runs, metrics)
        yield from grouped(rows, metrics, repeats, values)


def _groups(sizes: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Yield boards that are fetched together."""
    together: list[str] = []
    count = 0
    for board, size in sizes:
        if together and count + size > _ROWS_AT_ONCE:
            yield together
            together = []
            count = 0
        together.append(board)
        count += size
    if together:
        yield together


def _fetched(
    table: duckdb.DuckDBPyRelation, runs: Sequence[RunSummary], metrics: Sequence[Metric]
) -> tuple[list[Row], np.ndarray, np.ndarray]:
    """Return the rows of the table, the number of values of each metric, and the values."""
    columns = ["run", *CONDITION_COLUMNS.values(), *_CONFIGURATION, *_OTHERS]
    lists = [f"coalesce({metric.name}, [])" for metric in metrics]
    columns += [f"len({values}) AS repeats_{column}" for column, values in enumerate(lists)]
    columns.append(f"flatten([{', '.join(lists)}]) AS figures")
    fetched = table.order("run, position").project(", ".join(columns)).fetchnumpy()
    rows = list(_rows({name: column.tolist() for name, column in fetched.items()}, runs))
    repeats = [fetched[f"repeats_{column}"] for column in range(len(metrics))]
    values = np.concatenate([np.zeros(0), *fetched["figures"]])
    return rows, np.stack(repeats, axis=1), values


def _rows(columns: dict[str, list[Any]], runs: Sequence[RunSummary]) -> Iterator[Row]:
    """Yield the rows; equal parts of them are one object."""
    configurations: dict[tuple[Any, ...], Configuration] = {}
    conditions: dict[tuple[str | None, ...], dict[str, str | None]] = {}
    models = (tuple(names) for names in columns["models"])
    parts = zip(*(columns[name] for name in _CONFIGURATION[:-1]), models)
    facts = zip(*(columns[name] for name in CONDITION_COLUMNS.values()))
    others = zip(*(columns[name] for name in _OTHERS))
    for run, configuration, condition, other in zip(columns["run"], parts, facts, others):
        if configuration not in configurations:
            configurations[configuration] = Configuration(*configuration)
        if condition not in conditions:
            conditions[condition] = dict(zip(CONDITIONS, condition))
        yield Row(runs[run], configurations[configuration], conditions[condition], *other)


def _condition(column: str, values: Collection[str]) -> str:
    # Not at the top: it imports DuckDB, which is here only if there is an index.
    from reusebench.storage.index.database import quoted

    return f"{column} IN ({', '.join(map(quoted, sorted(values)))})"
