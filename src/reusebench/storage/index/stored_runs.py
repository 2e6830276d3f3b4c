"""The runs of storages: summaries of all, and figures of those that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reusebench.storage.index.covered import RunFacts
from reusebench.storage.index.storage_index import IndexedFile, index_errors, indexed_files
from reusebench.storage.metrics import METRICS, Metric
from reusebench.storage.run_file import BadFile, StorageClock, run_number
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run, RunSummary, read_run

if TYPE_CHECKING:
    import duckdb

    from reusebench.storage.index.queries import Queries

__all__ = ["RunFile", "StoredRuns"]

#: Limit of the rows of runs that are kept as they were read, without an index.
_MOST_ROWS = 20_000

#: Attempts at a query while others replace parts.
_TRIES = 3

_Answer = TypeVar("_Answer")
_Key = tuple[Configuration, tuple["str | None", ...]]


@dataclass(frozen=True)
class RunFile:
    """The file of a run, and its traces."""

    size_bytes: int
    #: Nanoseconds since 1970.
    changed_ns: int
    inode: int
    #: Number of the traces that the run names; some may be gone.
    trace_count: int
    #: Folders of those that are there, below `traces`.
    trace_folders: tuple[str, ...]
    trace_bytes: int


class StoredRuns:
    """The runs of storages.

    stored = StoredRuns.open([board_storage()])
    newest = max(stored.runs, key=lambda run: run.order)
    (run,) = stored.with_measured([newest])
    """

    def __init__(self) -> None:
        #: By storage, then by number.
        self.runs: list[RunSummary] = []
        #: Files and folders that could not be read.
        self.bad_files: list[BadFile] = []
        #: The file of each run in `runs`.
        self._files: list[IndexedFile] = []
        self._storages: list[Path] = []
        self._rows_kept = 0

    @classmethod
    def open(
        cls, storages: Iterable[Path], with_traces: bool = False, may_write: bool = True
    ) -> StoredRuns:
        """Return the runs of boards' storages.

        Only files that are new or have changed since the index was made are read. An index that is
        missing, damaged or of another version is made again. Without one all files are read. With
        traces, `file_of` tells their sizes of now. The index is used as it is unless it may be
        written.
        """
        stored = cls()
        stored._storages += storages
        for storage in indexed_files(stored._storages, with_traces, may_write):
            stored.bad_files += storage.unreadable
            stored._add(storage.files)
        return stored

    def _add(self, files: Iterable[IndexedFile]) -> None:
        """Add the files of one storage."""
        clock = StorageClock()
        for file in files:
            covered = file.covered
            if covered.facts:
                self.runs.append(_summary(file.path, covered.facts, clock))
                self._files.append(self._kept(file))
            elif covered.reason:
                self.bad_files.append(BadFile(file.path, covered.reason))

    def _kept(self, file: IndexedFile) -> IndexedFile:
        """Return the file, without the figures that were read if there are many."""
        if file.run is None:
            return file
        self._rows_kept += len(file.run.measured)
        return file if self._rows_kept <= _MOST_ROWS else replace(file, run=None)

    def _refresh(self) -> None:
        """Look for the parts again, as others may have replaced some."""
        self.__dict__.pop("_queries", None)
        newest: dict[Path, IndexedFile] = {}
        for storage in indexed_files(self._storages):
            newest.update((file.path, file) for file in storage.files)
        for position, file in enumerate(self._files):
            found = newest.get(file.path)
            if found is None or found.covered.state != file.covered.state:
                found = replace(file, part=None)
            self._files[position] = found

    @cached_property
    def _positions(self) -> dict[Path, int]:
        """Positions in `runs`, by path."""
        return {run.path: position for position, run in enumerate(self.runs)}

    @cached_property
    def _queries(self) -> Queries:
        """The tables of the files; one of them has a part."""
        # DuckDB is imported only if figures are asked for.
        from reusebench.storage.index.queries import Queries

        return Queries(self._files)

    def file_of(self, run: RunSummary) -> RunFile:
        """Return the file of a run of `runs`."""
        covered = self._files[self._positions[run.path]].covered
        assert covered.facts is not None
        state = covered.state
        folders = covered.facts.trace_folders
        return RunFile(
            size_bytes=state.size_bytes if state else 0,
            changed_ns=state.mtime_ns if state else 0,
            inode=state.inode if state else 0,
            trace_count=covered.facts.trace_count,
            trace_folders=tuple(folder.name for folder in folders),
            trace_bytes=sum(folder.size_bytes for folder in folders),
        )

    @property
    def size_bytes(self) -> int:
        """The size of the files of all runs, and of their traces."""
        total = 0
        for file in self._files:
            total += file.covered.size_bytes
        return total

    def with_measured(
        self,
        runs: Iterable[RunSummary],
        metrics: Collection[Metric] | None = None,
        like: Iterable[Measured] | None = None,
        across: Collection[str] = (),
    ) -> list[Run]:
        """Return these runs with their figures; runs that have figures already are taken too.

        Values are those of `metrics`, or all. With `like` only configurations that one of those
        rows has under the same conditions, apart from those in `across`, and only runs with one.
        """
        runs = list(runs)
        names = [metric.name for metric in METRICS if metrics is None or metric in metrics]
        rows = None if like is None else list(like)
        keys = None if rows is None else {_key(measured, across) for measured in rows}
        positions = [self._position(run) for run in runs]
        by_index = self._by_index(positions, names, rows, across)
        chosen = []
        for run, position in zip(runs, positions):
            if by_index is not None and self._is_covered(position):
                found = by_index.get(position, ())
                if not found and keys is not None:
                    continue
                whole = _with_measured(run, found)
            else:
                whole = self._read(run)
            measured = tuple(_chosen(whole, names, keys, across))
            if measured or keys is None:
                chosen.append(replace(whole, measured=measured))
        return chosen

    def _position(self, run: RunSummary) -> int:
        """Return the position of the run in `runs`; -1 if it has figures, or is not among them."""
        return -1 if isinstance(run, Run) else self._positions.get(run.path, -1)

    def _is_covered(self, position: int) -> bool:
        return position >= 0 and self._files[position].part is not None

    def _by_index(
        self,
        positions: Sequence[int],
        names: Sequence[str],
        like: Sequence[Measured] | None,
        across: Collection[str],
    ) -> dict[int, list[Measured]] | None:
        """Return the rows of the runs that parts cover; None if they cannot be read.

        With `like` there are more configurations than are alike.
        """
        if not any(map(self._is_covered, positions)):
            return None

        def query(queries: Queries) -> dict[int, list[Measured]]:
            covered = [position for position in positions if self._is_covered(position)]
            return queries.measured(covered, names, like, across)

        return self._ask(query)

    def _read(self, run: RunSummary) -> Run:
        """Return the run as its file has it; without figures if the file is gone meanwhile."""
        if isinstance(run, Run):
            return run
        position = self._positions.get(run.path)
        read: Run | BadFile | None = None
        if position is not None:
            read = self._files[position].run
        read = read or read_run(run.path)
        return _with_measured(run, read.measured if isinstance(read, Run) else ())

    def ask(
        self, table: str, query: Callable[[duckdb.DuckDBPyRelation], _Answer]
    ) -> _Answer | None:
        """Return the answer of a query to a table of the index; None if there is no index.

        The caller reads the files then. The table has the rows of `runs` in no order; its column
        `run` is a position in `runs`, `position` that of the row among those of its run. The query
        must fetch its answer; it may be called again, if another process has replaced parts.

            stored.ask("measured", lambda rows: rows.aggregate("name, count(*)").fetchall())
        """
        return self._ask(lambda queries: query(queries.relation(table)))

    def _ask(self, query: Callable[[Queries], _Answer]) -> _Answer | None:
        for _ in range(_TRIES):
            if not any(file.part for file in self._files):
                return None
            try:
                return query(self._queries)
            except index_errors():
                self._refresh()
        return None


def _summary(path: Path, facts: RunFacts, clock: StorageClock) -> RunSummary:
    number = run_number(path)
    order, is_dated = clock.order(path, number, facts.recorded_at, facts.is_dated)
    return RunSummary(
        path=path,
        number=number,
        name=facts.name,
        recorded_at=facts.recorded_at,
        boards=facts.boards,
        commit=facts.commit,
        is_dirty=facts.is_dirty,
        order=order,
        is_dated=is_dated,
        is_finished=facts.is_finished,
        runtimes=facts.runtimes,
        ok=facts.ok,
        failed=facts.failed,
    )


def _with_measured(run: RunSummary, measured: Iterable[Measured]) -> Run:
    return Run(**vars(run), measured=tuple(measured))


def _chosen(
    run: Run, names: Collection[str], keys: Collection[_Key] | None, across: Collection[str]
) -> Iterator[Measured]:
    """Yield the rows with these keys, if any are given, and their values of these names."""
    for measured in run.measured:
        if keys is not None and _key(measured, across) not in keys:
            continue
        if measured.values.keys() <= set(names):
            yield measured
        else:
            values = {name: measured.values[name] for name in names if name in measured.values}
            yield replace(measured, values=values)


def _key(measured: Measured, across: Collection[str]) -> _Key:
    conditions = [measured.conditions[name] for name in CONDITIONS if name not in across]
    return measured.configuration, tuple(conditions)
