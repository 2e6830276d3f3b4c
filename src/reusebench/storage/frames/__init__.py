"""Stored results, traces and ledgers as data frames: `reusebench.load`.

docs/reference/frames.md explains the columns. Only this package of storage imports pandas, and
nothing that measures imports it: the harness has no numpy.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Union

import pandas as pd

from reusebench.measured.messages import Message
from reusebench.storage.board_storage import board_storage
from reusebench.storage.errors import StorageError
from reusebench.storage.frames.columns import METRICS_OF
from reusebench.storage.frames.results import results_frame
from reusebench.storage.frames.traces import Lost, ledgers_frame, traces_frame
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import BadFile, StoredRun, read_run_file, read_storage, storages_in
from reusebench.storage.runs import run_of
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
    files = _selected_runs(paths, _listed(runs), bad)
    if table == "results":
        frame = results_frame(files, wanted, wide)
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


def _selected_runs(
    places: Sequence[Path], references: Sequence[str], bad: dict[Path, BadFile]
) -> Iterator[StoredRun]:
    """Yield the referenced runs of the places, or all; `bad` gets the files that cannot be read."""
    if not references:
        yield from _all_runs(places, bad)
        return

    def report(file: BadFile) -> None:
        bad[file.path] = file

    known = [run_of(file) for file in _all_runs(places, bad)]
    referenced: dict[Path, None] = {}
    for words in references:
        referenced.update((run.path, None) for run in find_runs(words, known, Path(), report))
    # Runs come in the order of their storages, then files that were named by their paths.
    paths = dict.fromkeys([*(run.path for run in known if run.path in referenced), *referenced])
    for path in paths:
        file = read_run_file(path)
        if isinstance(file, StoredRun):
            yield file
        elif file is not None:  # it was damaged a moment ago
            report(file)


def _all_runs(places: Sequence[Path], bad: dict[Path, BadFile]) -> Iterator[StoredRun]:
    """Yield every run of the places once; `bad` gets the files that cannot be read."""
    seen = set()
    for place in places:
        for file in _read(place):
            path = file.path.resolve()
            if path in seen:
                continue
            seen.add(path)
            if isinstance(file, BadFile):
                bad[file.path] = file
            else:
                yield file


def _read(place: Path) -> Iterator[StoredRun | BadFile]:
    if place.is_dir():
        for storage in storages_in(place):
            yield from read_storage(storage)
    else:
        yield read_run_file(place) or BadFile(place, Message("file_without_results"))


def _lost_traces(path: Path, traces: Sequence[str]) -> str:
    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    return f"{printable(str(path))}: its trace {traces[0]}{more} cannot be read, and has no rows"
