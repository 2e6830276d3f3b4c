"""The frame of results from the index of storages, without the files of the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from reusebench.storage.frames.columns import CONFIGURATION_COLUMNS, OF_WHOLE, RESULT_KEYS, TYPES
from reusebench.storage.frames.configurations import texts, typed_frame
from reusebench.storage.frames.frame_rows import NONE, Rows
from reusebench.storage.index.figures_table import FACTS, FIGURES
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.runs import RunSummary
from reusebench.system.files import printable

if TYPE_CHECKING:
    import duckdb

__all__ = ["indexed_results"]

#: Columns of a configuration that follow from its run.
_OF_RUN = tuple(name for name in CONFIGURATION_COLUMNS if name not in FACTS)
_TEXTS = tuple(name for name in (*FACTS, "phase") if name not in TYPES)
#: Rows are in the order of their runs and of their positions in a run, below this.
_MOST_POSITIONS = 1 << 32

_Integers = npt.NDArray[np.int64]


def indexed_results(
    stored: StoredRuns, runs: Sequence[RunSummary], metrics: Sequence[str], wide: bool
) -> pd.DataFrame | None:
    """Return the frame of the results of these runs; None if the index does not have all of it.

    It is the frame that results_frame returns for the files of the runs.
    """
    positions = {run.path: position for position, run in enumerate(stored.runs)}
    is_covered = all(run.path in positions for run in runs)
    if not runs or not is_covered or not set(metrics) <= set(OF_WHOLE):
        return None
    #: The place of each run of the index in `runs`; NONE if it is not wanted.
    places = np.full(len(positions), NONE, dtype="int64")
    places[[positions[run.path] for run in runs]] = np.arange(len(runs))
    answer = stored.ask(FIGURES.name, lambda rows: _fetched(rows, places, metrics))
    if answer is None:
        return None
    facts, figures = answer
    facts = _in_order(facts, places)
    rows = _rows(facts, _in_order(figures, places), metrics)
    of_runs = typed_frame(_OF_RUN, [_facts_of(run) for run in runs])
    return rows.frame(_configurations(facts, of_runs), wide)


def _facts_of(run: RunSummary) -> tuple[object, ...]:
    """Return the values of _OF_RUN."""
    return (
        run.number,
        run.name,
        run.recorded_at,
        run.commit,
        run.is_dirty,
        printable(str(run.path)),
    )


def _fetched(
    rows: duckdb.DuckDBPyRelation, places: _Integers, metrics: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the facts of configurations, and the figures of repeats: both by run and position."""
    wanted = np.flatnonzero(places != NONE)
    if len(wanted) < len(places):
        rows = rows.filter(f"run IN ({', '.join(map(str, wanted))})")
    lists = ", ".join(f'list(DISTINCT "{name}") FILTER ("{name}" IS NOT NULL)' for name in _TEXTS)
    (distinct,) = rows.aggregate(lists).fetchall()
    words = dict(zip(_TEXTS, distinct))
    # pandas gets texts as numbers: an object for each of them would take much more memory.
    facts = [_projected(name, words) for name in (*FACTS, "phase")]
    values = ", ".join(f'unnest("{name}") AS "{name}"' for name in metrics)
    return (
        rows.project(f"run, position, configuration, repeats, {', '.join(facts)}").df(),
        rows.project(f"run, position, unnest(range(1, repeats + 1)) AS repeat, {values}").df(),
    )


def _projected(name: str, words: Mapping[str, list[str] | None]) -> str:
    # DuckDB is there: it has given the words.
    from reusebench.storage.index.database import quoted

    if name not in words:
        return f'"{name}"'
    listed = ", ".join(map(quoted, words[name] or ()))
    if not listed:
        return f'NULL::VARCHAR AS "{name}"'
    return f'CAST("{name}" AS ENUM({listed})) AS "{name}"'


def _in_order(table: pd.DataFrame, places: _Integers) -> pd.DataFrame:
    """Return the rows by the place of their run and by position, under `key`; repeats in order."""
    key = places[table["run"]] * _MOST_POSITIONS + table["position"].to_numpy()
    order = np.argsort(key, kind="stable")
    if "repeat" in table:
        order = np.lexsort((table["repeat"], key))
    ordered: pd.DataFrame = table.assign(key=key).take(order)
    return ordered


def _rows(facts: pd.DataFrame, figures: pd.DataFrame, metrics: Sequence[str]) -> Rows:
    """Return a row for each repeat; one without figures for a configuration without repeats."""
    rows = Rows(RESULT_KEYS, metrics, OF_WHOLE)
    numbers = _numbers(facts)
    phases, names = _by_appearance(facts["phase"].where(facts["repeats"] > 0))
    for name in names:
        rows.phase(name)
    fact = np.searchsorted(facts["key"], figures["key"])
    of_repeats = [numbers[fact], phases[fact], figures["repeat"].to_numpy()]
    without = np.setdiff1d(numbers, numbers[fact])
    nothing = np.full(len(without), NONE)
    keys = np.concatenate(
        [np.column_stack(of_repeats), np.column_stack([without, nothing, nothing])]
    ).astype("int64")
    (whole,) = rows.kinds
    values = np.full((len(keys), len(metrics)), np.nan)
    values[: len(fact)] = figures[list(metrics)]
    order = np.argsort(keys[:, 0], kind="stable")
    rows.add_all(whole, keys[order], values[order])
    return rows


def _configurations(facts: pd.DataFrame, of_runs: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of the configurations, by number."""
    firsts = facts.take(np.unique(_numbers(facts), return_index=True)[1])
    runs = of_runs.take(firsts["key"] // _MOST_POSITIONS).reset_index(drop=True)
    columns: dict[str, Any] = {}
    for name in CONFIGURATION_COLUMNS:
        if name in _OF_RUN:
            columns[name] = runs[name]
        elif name in _TEXTS:
            columns[name] = texts(*_by_appearance(firsts[name]))
        else:
            columns[name] = firsts[name].astype(TYPES[name]).array
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def _numbers(facts: pd.DataFrame) -> _Integers:
    """Return the number of each row's configuration among those of all runs."""
    of_run = facts[["run", "configuration"]].to_numpy()
    is_first = np.ones(len(of_run), dtype=bool)
    is_first[1:] = (of_run[1:] != of_run[:-1]).any(axis=1)
    return np.cumsum(is_first) - 1


def _by_appearance(column: pd.Series[Any]) -> tuple[_Integers, list[str]]:
    """Return the texts of a column as numbers, and the texts in order of appearance."""
    codes, words = pd.factorize(column)
    return codes, list(words)
