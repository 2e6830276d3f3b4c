"""Queries of the parts of an index, by DuckDB."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence

import duckdb

from reusebench.storage.index.all_tables import TABLES
from reusebench.storage.index.database import connect, quoted
from reusebench.storage.index.measured_table import CONDITION_COLUMNS, MEASURED, MeasuredRows
from reusebench.storage.index.storage_index import IndexedFile
from reusebench.storage.index.tables import Table
from reusebench.storage.index.writing import TableRows
from reusebench.storage.run_file import StoredRun, read_run_file
from reusebench.storage.runs import Measured, run_of
from reusebench.system.files import UNFINISHED

__all__ = ["Queries"]

#: Rows that are fetched together.
_FETCHED = 4096


class Queries:
    """The tables of the files that parts cover, and of those that were read.

    Every method may raise OSError or duckdb.Error: a part may be damaged, or gone meanwhile.
    """

    def __init__(self, files: Sequence[IndexedFile]) -> None:
        """Take the files by the position of their runs; one of them has a part."""
        self._files = files
        self._keys = {
            file.part.key(file.position): position
            for position, file in enumerate(files)
            if file.part
        }
        place = next(file.part.folder.parent for file in files if file.part)
        self._database = connect(place / f".queries.{os.getpid()}{UNFINISHED}")
        self._database.execute(
            "CREATE TEMP TABLE live AS"
            " SELECT unnest(?::BIGINT[]) AS key, unnest(?::INTEGER[]) AS run",
            [list(self._keys), list(self._keys.values())],
        )
        self._relations: dict[str, duckdb.DuckDBPyRelation] = {}

    def relation(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return a table with the rows of all files; `run` is the position of the file."""
        if name not in self._relations:
            table = next(table for table in TABLES if table.name == name)
            self._relations[name] = self._relation(table)
        return self._relations[name]

    def _relation(self, table: Table) -> duckdb.DuckDBPyRelation:
        columns = ", ".join(("position", *table.columns))
        paths = self._paths(table, self._files)
        query = (
            f"SELECT live.run AS run, {columns} FROM read_parquet([{paths}]) AS rows"
            " JOIN live ON rows.run = live.key"
        )
        read = [position for position, file in enumerate(self._files) if file.part is None]
        if read:
            self._read_again(table, read)
            query += f" UNION ALL SELECT run, {columns} FROM read_{table.name}"
        return self._database.sql(query)

    def _read_again(self, table: Table, positions: Iterable[int]) -> None:
        """Make a table of the files that no part covers."""
        rows = TableRows(table)
        try:
            for position in positions:
                file = read_run_file(self._files[position].path)
                if isinstance(file, StoredRun):
                    rows.add(rows.encoded(position, file, run_of(file)))
            self._database.execute(f"CREATE TEMP TABLE read_{table.name} AS {rows.query()}")
        finally:
            rows.close()

    def _paths(self, table: Table, files: Iterable[IndexedFile]) -> str:
        parts = {file.part.folder: file.part for file in files if file.part}
        return ", ".join(quoted(str(part.table(table.name))) for part in parts.values())

    def measured(
        self,
        positions: Sequence[int],
        metrics: Sequence[str],
        like: Sequence[Measured] | None,
        across: Collection[str],
    ) -> dict[int, list[Measured]]:
        """Return the rows of these files, which parts cover, by position and in order.

        With `like` they are all that have a configuration and conditions of its rows, and others.
        """
        files = [self._files[position] for position in positions]
        keys = [file.part.key(file.position) for file in files if file.part]
        self._database.execute(
            "CREATE OR REPLACE TEMP TABLE chosen AS SELECT unnest(?::BIGINT[]) AS key", [keys]
        )
        rows = MeasuredRows(metrics)
        conditions = ["run IN (SELECT key FROM chosen)"]
        if like is not None:
            conditions += _alike(like, across)
        self._database.execute(
            f"SELECT run, position, {', '.join(rows.columns)}"
            f" FROM read_parquet([{self._paths(MEASURED, files)}])"
            f" WHERE {' AND '.join(conditions)}"
        )
        found: dict[int, list[tuple[int, Measured]]] = {}
        while fetched := self._database.fetchmany(_FETCHED):
            for key, position, *row in fetched:
                run = found.setdefault(self._keys[key], [])
                run.append((position, rows.measured(row)))
        return {run: _in_order(numbered) for run, numbered in found.items()}


def _in_order(numbered: list[tuple[int, Measured]]) -> list[Measured]:
    numbered.sort(key=lambda pair: pair[0])
    return [measured for _, measured in numbered]


def _alike(like: Sequence[Measured], across: Collection[str]) -> Iterator[str]:
    """Yield conditions that rows with the configuration and conditions of one of these meet."""
    for name in ("runtime", "target", "name", "detail"):
        yield _is_one_of(name, {getattr(measured.configuration, name) for measured in like})
    for name, column in CONDITION_COLUMNS.items():
        if name not in across:
            yield _is_one_of(column, {measured.conditions[name] for measured in like})


def _is_one_of(column: str, values: Collection[str | None]) -> str:
    known = sorted(value for value in values if value is not None)
    condition = "false"
    if known:
        condition = f"{column} IN ({', '.join(map(quoted, known))})"
    if None in values:
        condition = f"({condition} OR {column} IS NULL)"
    return condition
