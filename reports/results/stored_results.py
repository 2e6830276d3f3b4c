"""The results of stored runs: summaries of all, and figures of those that are shown."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from reusebench.reports.results.grouping import Place, with_boards
from reusebench.reports.results.programs import StoredProgram
from reusebench.storage.index.results_table import RESULTS, summary_in
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.result_summary import PROGRAM, ResultSummary, summaries_of, summary_of
from reusebench.storage.run_file import FINISHED, StoredResult, StoredRun, read_run_file
from reusebench.storage.runs import RunSummary

#: Results whose summaries are in memory at a time.
_AT_ONCE = 20_000


class StorageChanged(Exception):
    """A file is not what it was when the storage was opened."""


class StoredResults:
    """The results of all runs of some storages. A run is known by its position in `runs`.

    Few files are read: summaries come from the index. Without one every file is read once.
    """

    def __init__(self, stored: StoredRuns | None = None) -> None:
        #: No runs if it is left out.
        self.stored = stored or StoredRuns()

    @property
    def runs(self) -> Sequence[RunSummary]:
        """All runs, by storage, then by number."""
        return self.stored.runs

    def newest_contents(self) -> list[int]:
        """Return the newest run of each kind of contents, newest first.

        An older run with the same configurations has no newest result.
        """
        contents = self.stored.ask(
            RESULTS.name, lambda rows: rows.aggregate("run, min(contents)").fetchall()
        )
        if contents is None:
            contents = [(place.run, summary.contents) for place, summary in self._read]
        by_run = dict(contents)
        newest: dict[str, int] = {}
        # If two runs have the same time, the later file is the newer one.
        for run in sorted(by_run, key=lambda run: (self.runs[run].order, run), reverse=True):
            newest.setdefault(by_run[run], run)
        return list(newest.values())

    def summaries(self, runs: Iterable[int]) -> Iterator[tuple[Place, ResultSummary]]:
        """Yield the summaries of these runs, in their order, then by position in the file."""
        for part in self._parts(runs):
            found: dict[int, list[tuple[Place, ResultSummary]]] = {run: [] for run in part}
            for place, summary in self._select(f"run IN ({', '.join(map(str, part))})"):
                if place.run in found:
                    found[place.run].append((place, summary))
            for of_run in found.values():
                yield from of_run

    def newest_programs(self) -> list[tuple[Place, ResultSummary]]:
        """Return the newest recording of each program on each board, newest first."""
        order = {run: number for number, run in enumerate(self.newest_first)}
        rows = self._select(f"runtime = '{PROGRAM}'")
        newest: dict[tuple[str, str], tuple[Place, ResultSummary]] = {}
        for place, summary in sorted(rows, key=lambda row: (order[row[0].run], row[0])):
            if summary.runtime == PROGRAM:
                newest.setdefault((summary.board, summary.scenario), (place, summary))
        return list(newest.values())

    def programs(self) -> Iterator[StoredProgram]:
        """Yield every recording of a program, oldest first."""
        for run in reversed(self.newest_first):
            if PROGRAM in self.runs[run].runtimes:
                file = self.read(run)
                yield from (StoredProgram(info, file) for info in reversed(file.programs))

    def load(
        self, summaries: Mapping[Place, ResultSummary]
    ) -> dict[Place, tuple[StoredResult, StoredRun]]:
        """Return the results of these summaries with their runs, which have only these results.

        Raises StorageChanged if there are others now.
        """
        places: dict[int, list[Place]] = {}
        for place in sorted(summaries):
            places.setdefault(place.run, []).append(place)
        loaded: dict[Place, tuple[StoredResult, StoredRun]] = {}
        for run, of_run in places.items():
            file = self.read(run, {place.position for place in of_run})
            if len(file.results) != len(of_run):
                raise StorageChanged
            for place, (result, part) in zip(of_run, with_boards(file)):
                if not _is_of(summaries[place], result, file):
                    raise StorageChanged
                loaded[place] = (result, part)
        return loaded

    def read(self, run: int, positions: Container[int] | None = ()) -> StoredRun:
        """Return a run with the results at these positions, all if None, and all programs.

        Raises StorageChanged if it is gone.
        """
        return read_stored(self.runs[run], positions)

    def end_of(self, run: int) -> str:
        """Return the end of a run; whether one without an end is still measured is looked up."""
        return FINISHED if self.runs[run].is_finished else self.read(run).end

    @cached_property
    def newest_first(self) -> list[int]:
        """The positions of all runs, the newest first."""
        return sorted(range(len(self.runs)), key=lambda run: self.runs[run].order, reverse=True)

    def _parts(self, runs: Iterable[int]) -> Iterator[list[int]]:
        """Yield these runs in parts that have few results together."""
        part: list[int] = []
        count = 0
        for run in runs:
            part.append(run)
            count += self.runs[run].ok + self.runs[run].failed
            if count > _AT_ONCE:
                yield part
                part = []
                count = 0
        if part:
            yield part

    def _select(self, where: str) -> list[tuple[Place, ResultSummary]]:
        """Return the summaries of rows in SQL, or all, by run and position."""
        columns = ", ".join(("run", "position", *RESULTS.columns))
        rows = self.stored.ask(
            RESULTS.name,
            lambda rows: rows.filter(where).order("run, position").project(columns).fetchall(),
        )
        if rows is None:
            return self._read
        return [(Place(run, position), summary_in(row)) for run, position, *row in rows]

    @cached_property
    def _read(self) -> list[tuple[Place, ResultSummary]]:
        """All summaries, from the files."""
        summaries = []
        for run, head in enumerate(self.runs):
            file = read_stored(head, None)
            for position, summary in enumerate(summaries_of(file)):
                summaries.append((Place(run, position), summary))
        return summaries


def read_stored(run: RunSummary, positions: Container[int] | None) -> StoredRun:
    """Return a run from its file; see read_run_file and StoredResults.read."""
    file = read_run_file(run.path, positions)
    if not isinstance(file, StoredRun):
        raise StorageChanged
    return msgspec.structs.replace(file, order=run.order, is_dated=run.is_dated)


def _is_of(summary: ResultSummary, stored: StoredResult, file: StoredRun) -> bool:
    """Whether it is the summary of a result."""
    now = summary_of(stored.info, file)
    return now == summary._replace(contents=now.contents)
