"""Stored results, traces and ledgers as data frames: `reusebench.load`.

docs/reference/frames.md explains the columns. Only this package of storage imports pandas, and
nothing that measures imports it: the harness has no numpy.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Union

import pandas as pd

from reusebench.storage.board_storage import board_storage
from reusebench.storage.errors import StorageError
from reusebench.storage.frames.columns import METRICS_OF
from reusebench.storage.frames.indexed_results import indexed_results
from reusebench.storage.frames.results import results_frame
from reusebench.storage.frames.traces import Lost, ledgers_frame, traces_frame
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import BadFile, StoredRun, read_run_file, storages_in
from reusebench.storage.runs import RunSummary, read_run
from reusebench.system.files import printable

__all__ = ["load"]

_Place = Union[str, "os.PathLike[str]"]
_Words = Union[str, Iterable[str]]


def load(
    *places: _Place,
    table: Literal["results", "traces", "ledgers"] = "results",
    wide: bool = False,
    metrics: _Words = (),
    runs: _Words = (),
) -> pd.DataFrame:
    """Return stored results, traces or ledgers as a data frame.

    `places` are storages (the folder of one board, or of several boards) or files of single runs;
    by default this board's storage in the working folder. The tidy form has a row for each figure,
    with the columns metric, unit and value; `wide` has a column for each metric. `metrics` and
    `runs` leave out all others; runs are named as in `reusebench compare`: "latest", "12",
    "12..latest", a name, a commit.

    A file that cannot be read is left out with a warning. An invalid argument raises StorageError.

        frame = reusebench.load(metrics="application_memory_bytes", runs="latest")
        frame[frame.outcome == "ok"].groupby(["runtime", "scenario"], observed=True).value.median()
    """
    if table not in METRICS_OF:
        raise StorageError(f"there is no table {table!r}; valid: {', '.join(METRICS_OF)}")
    wanted = _valid_metrics(table, _listed(metrics))
    bad: dict[Path, BadFile] = {}
    lost: Lost = {}
    paths = [_checked(place) for place in places or (board_storage(),)]

    def report(file: BadFile) -> None:
        bad[file.path] = file

    stored, selected = _opened(paths, report)
    references = _listed(runs)
    if references:
        selected = _referenced(references, selected, report)
    files = _files_of(selected, report)
    if table == "results":
        indexed = indexed_results(stored, selected, wanted, wide)
        frame = results_frame(files, wanted, wide) if indexed is None else indexed
    elif table == "traces":
        frame = traces_frame(files, wanted, wide, lost)
    else:
        frame = ledgers_frame(files, lost)
    for text in (*map(str, bad.values()), *map(_lost_traces, lost, lost.values())):
        warnings.warn(text, stacklevel=2)
    return frame


def _listed(words: _Words) -> list[str]:
    return [words] if isinstance(words, str) else list(words)


def _valid_metrics(table: str, metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics in the order of the table; all of them if none is named."""
    valid = METRICS_OF[table]
    for name in metrics:
        if name not in valid:
            known = f"valid: {', '.join(valid)}"
            if not valid:
                known = "every row is a buffer, or a part of one"
            raise StorageError(f"the table {table!r} has no metric {name!r}; {known}")
    return tuple(name for name in valid if name in metrics) if metrics else valid


def _checked(place: _Place) -> Path:
    """Return the path of the place; raise StorageError if it does not exist."""
    path = Path(place)
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(
            f"there is no storage and no run at {printable(str(path))} ({reason}). Measure with"
            " `reusebench bench` first, or name the folder of a storage or the file of a run"
        ) from None
    return path


def _opened(
    places: Sequence[Path], report: Callable[[BadFile], None]
) -> tuple[StoredRuns, list[RunSummary]]:
    """Return the storages in the places, and the runs of all places in their order, each once."""
    storages_of = {place: storages_in(place) for place in places if place.is_dir()}
    #: Key: storage; value: its path without links.
    resolved: dict[Path, Path] = {}
    distinct: dict[Path, Path] = {}
    for storages in storages_of.values():
        for storage in storages:
            resolved[storage] = storage.resolve()
            distinct.setdefault(resolved[storage], storage)
    stored = StoredRuns.open(distinct.values())
    for file in stored.bad_files:
        report(file)

    runs_of: dict[Path, list[RunSummary]] = {}
    for run in stored.runs:
        runs_of.setdefault(resolved[run.path.parent.parent], []).append(run)
    #: Key: the run's path, without links.
    runs: dict[Path, RunSummary] = {}
    for place in places:
        for storage in storages_of.get(place, ()):
            for run in runs_of.pop(resolved[storage], ()):
                folder = resolved[storage] / run.path.parent.name
                runs.setdefault(folder / run.path.name, run)
        if place not in storages_of:
            for run in _run_in(place, report):
                runs.setdefault(place.resolve(), run)
    return stored, list(runs.values())


def _run_in(path: Path, report: Callable[[BadFile], None]) -> list[RunSummary]:
    """Return the run in a file."""
    run = read_run(path)
    if isinstance(run, BadFile):
        report(run)
        return []
    return [run]


def _referenced(
    references: Sequence[str], known: Sequence[RunSummary], report: Callable[[BadFile], None]
) -> list[RunSummary]:
    """Return the referenced runs in the order of `known`, then those that paths name."""
    referenced: dict[Path, RunSummary] = {}
    for words in references:
        referenced.update((run.path, run) for run in find_runs(words, known, Path(), report))
    ordered = {run.path: run for run in known if run.path in referenced}
    return list({**ordered, **referenced}.values())


def _files_of(runs: Iterable[RunSummary], report: Callable[[BadFile], None]) -> Iterator[StoredRun]:
    """Yield the files of the runs; those that were damaged a moment ago are reported."""
    for run in runs:
        file = read_run_file(run.path)
        if isinstance(file, StoredRun):
            yield file
        elif file is not None:
            report(file)


def _lost_traces(path: Path, traces: Sequence[str]) -> str:
    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    return f"{printable(str(path))}: its trace {traces[0]}{more} cannot be read, and has no rows"
