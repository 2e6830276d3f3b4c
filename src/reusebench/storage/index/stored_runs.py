"""The runs of storages: summaries of all, and figures of those that are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reusebench.storage.metrics import Metric
from reusebench.storage.run_file import BadFile
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run, RunSummary, read_runs

if TYPE_CHECKING:
    import duckdb

__all__ = ["StoredRuns"]


@dataclass
class StoredRuns:
    """The runs of storages.

    stored = StoredRuns.open([board_storage()])
    newest = max(stored.runs, key=lambda run: run.order)
    (run,) = stored.with_measured([newest])
    """

    #: By storage, then by number.
    runs: Sequence[RunSummary]
    #: Files that could not be read.
    bad_files: Sequence[BadFile]
    #: Key: path of a run; value: the run with all figures, as its file has them.
    _read: dict[Path, Run] = field(default_factory=dict)

    @classmethod
    def open(cls, storages: Iterable[Path]) -> StoredRuns:
        """Return the runs of boards' storages.

        Only files that are new or have changed since the index was made are read. An index that is
        missing, damaged or of another version is made again. Without one all files are read.
        """
        runs: list[Run] = []
        bad_files: list[BadFile] = []
        for storage in storages:
            for run in read_runs(storage):
                if isinstance(run, Run):
                    runs.append(run)
                else:
                    bad_files.append(run)
        return cls(runs, bad_files, {run.path: run for run in runs})

    def with_measured(
        self,
        runs: Iterable[RunSummary],
        metrics: Collection[Metric] | None = None,
        like: Iterable[Measured] | None = None,
        across: Collection[str] = (),
    ) -> list[Run]:
        """Return these runs with their figures; runs that have figures already are taken too.

        Of the values only those of `metrics`, if given. With `like` only configurations that one of
        those rows has under the same conditions, apart from those in `across`; other runs have
        none, and stay in the list.
        """
        names = None if metrics is None else {metric.name for metric in metrics}
        keys = None if like is None else {_key(measured, across) for measured in like}
        chosen = []
        for run in runs:
            whole = run if isinstance(run, Run) else self._read[run.path]
            rows = []
            for measured in whole.measured:
                if keys is None or _key(measured, across) in keys:
                    rows.append(_with_values(measured, names))
            chosen.append(replace(whole, measured=tuple(rows)))
        return chosen

    def relation(self, name: str) -> duckdb.DuckDBPyRelation | None:  # noqa: ARG002
        """Return a table of the index, which has the rows of `runs` alone, in no order.

        None if there is no index: the caller reads the files. Every use of the relation may raise
        duckdb.Error, as the index of another process may replace files.

            relation = stored.relation("measured")
            relation.filter("board = 'rock5a'").aggregate("name, count(*)").fetchall()
        """
        return None


def _key(
    measured: Measured, across: Collection[str]
) -> tuple[Configuration, tuple[str | None, ...]]:
    conditions = [measured.conditions[name] for name in CONDITIONS if name not in across]
    return measured.configuration, tuple(conditions)


def _with_values(measured: Measured, names: Collection[str] | None) -> Measured:
    if names is None:
        return measured
    values = {name: repeats for name, repeats in measured.values.items() if name in names}
    return replace(measured, values=values)
