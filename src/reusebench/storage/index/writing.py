"""The making of parts: what runs hold is written as columns, and small parts are merged.

As a program it does so for the files that its standard input names, beside others that do so for
other files.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb
import msgspec

from reusebench.storage.index.all_tables import TABLES
from reusebench.storage.index.covered import CoveredFile
from reusebench.storage.index.database import connect, quoted
from reusebench.storage.index.parts import NewPart, Part, remove_part
from reusebench.storage.index.reading import FileRead, read_file
from reusebench.storage.index.tables import Table
from reusebench.storage.run_file import StoredRun
from reusebench.storage.runs import Run

__all__ = ["TableRows", "merge", "write_parts"]

#: Limits of a part while it is made: its rows as JSON, and its files.
_MOST_BYTES = 16 << 20
_MOST_FILES = 1024
#: Limit of one row as JSON; a run with a longer row is not kept.
_MOST_ROW_BYTES = 4 << 20
#: Rows that are compressed together, and read together.
_GROUP_ROWS = 8192
_COPY = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP_ROWS})"


class TableRows:
    """Rows of one table as lines of JSON, in memory that DuckDB reads by a path."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._names = ("run", "position", *table.columns)
        self._file = os.fdopen(os.memfd_create(table.name), "wb")

    def encoded(self, key: int, file: StoredRun, run: Run) -> list[bytes]:
        """Return the rows of a run, with `key` in the column `run`."""
        lines = []
        for position, row in enumerate(self.table.rows(file, run)):
            values = dict(zip(self._names, (key, position, *row)))
            lines.append(msgspec.json.encode(values))
        return lines

    def add(self, lines: Sequence[bytes]) -> None:
        """Add lines that `encoded` has made."""
        for line in lines:
            self._file.write(line + b"\n")

    def query(self) -> str:
        """Return the query for the rows."""
        self._file.flush()
        columns = {"run": "BIGINT", "position": "INTEGER", **self.table.columns}
        typed = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in columns.items())
        path = f"/proc/self/fd/{self._file.fileno()}"
        return (
            f"SELECT * FROM read_json({quoted(path)}, format='newline_delimited',"
            f" columns={{{typed}}})"
        )

    def close(self) -> None:
        """Free the memory."""
        self._file.close()


class PartWriter:
    """A writer of one part; raises OSError or duckdb.Error if it cannot be written."""

    def __init__(self, index: Path) -> None:
        self._new = NewPart(index)
        self._rows = [TableRows(table) for table in TABLES]
        self._files: list[CoveredFile] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time for another part."""
        return self._bytes > _MOST_BYTES or len(self._files) >= _MOST_FILES

    def add(self, read: FileRead) -> bool:
        """Add a file; return False if it cannot be kept."""
        if not read.can_be_kept:
            return False
        encoded: list[list[bytes]] = []
        if read.file and read.run:
            key = self._new.key(len(self._files))
            encoded = [rows.encoded(key, read.file, read.run) for rows in self._rows]
        lengths = [len(line) for lines in encoded for line in lines]
        if max(lengths, default=0) > _MOST_ROW_BYTES:
            return False
        for rows, lines in zip(self._rows, encoded):
            rows.add(lines)
        self._files.append(read.covered)
        self._bytes += sum(lengths)
        return True

    def finish(self, database: duckdb.DuckDBPyConnection) -> None:
        """Put the part in its place; nothing is written without files."""
        if not self._files:
            return
        for rows in self._rows:
            target = quoted(str(self._new.table(rows.table.name)))
            database.execute(f"COPY ({rows.query()}) TO {target} {_COPY}")
        self._new.finish(self._files, [table.name for table in TABLES])

    def close(self) -> None:
        """Free the memory, and remove what is not in its place."""
        for rows in self._rows:
            rows.close()
        self._new.discard()


def write_parts(storage: Path, index: Path, files: Iterable[str]) -> Iterator[FileRead]:
    """Read files of the storage into parts of the index, and yield those that are not kept.

    Raises OSError or duckdb.Error if a part cannot be written; what was yielded before holds.
    """
    database = connect(index)
    writer = PartWriter(index)
    try:
        for relative in files:
            read = read_file(storage, relative)
            if read is None:
                continue
            if not writer.add(read):
                yield read
            if writer.is_full:
                writer.finish(database)
                writer.close()
                writer = PartWriter(index)
        writer.finish(database)
    finally:
        writer.close()
        database.close()


def merge(index: Path, parts: Sequence[tuple[Part, Sequence[int]]]) -> None:
    """Write one part with the files at these positions of the parts, and remove the parts.

    Raises OSError or duckdb.Error if it cannot be written; the parts stay then.
    """
    new = NewPart(index)
    files: list[CoveredFile] = []
    former: list[int] = []
    for part, positions in parts:
        former += [part.key(position) for position in positions]
        files += [part.files[position] for position in positions]
    keys = [new.key(position) for position in range(len(files))]
    database = connect(index)
    try:
        if files:
            _copy_rows(database, new, [part for part, _ in parts], (former, keys))
            new.finish(files, [table.name for table in TABLES])
    finally:
        new.discard()
        database.close()
    for part, _ in parts:
        remove_part(part.folder)


def _copy_rows(
    database: duckdb.DuckDBPyConnection,
    new: NewPart,
    parts: Sequence[Part],
    renumbered: tuple[list[int], list[int]],
) -> None:
    """Write the rows with a former key into the new part, with the new key."""
    database.execute(
        "CREATE TABLE renumbered AS"
        " SELECT unnest(?::BIGINT[]) AS former, unnest(?::BIGINT[]) AS key",
        list(renumbered),
    )
    for table in TABLES:
        paths = ", ".join(quoted(str(part.table(table.name))) for part in parts)
        target = quoted(str(new.table(table.name)))
        database.execute(
            f"COPY (SELECT key AS run, rows.* EXCLUDE (run) FROM read_parquet([{paths}]) AS rows"
            " JOIN renumbered ON run = former ORDER BY key, position)"
            f" TO {target} {_COPY}"
        )


def main() -> None:
    """Read the files that standard input names into parts."""
    for storage, index, files in json.load(sys.stdin):
        for _ in write_parts(Path(storage), Path(index), files):
            pass


if __name__ == "__main__":
    main()
