"""The interface of an exported table, and the columns that most tables have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reusebench.reports.base.table import write_records
from reusebench.reports.material import Material
from reusebench.reports.results.rows import Group, Row
from reusebench.storage.run_file import StoredRun, run_number

#: Values of a table's row, by column; a missing one is empty.
Record = Mapping[str, Any]
#: Identity of a configuration.
IDENTITY_COLUMNS = (
    "runtime",
    "runtime_version",
    "target",
    "scenario",
    "streams",
    "contexts",
    "models",
)
#: Origin of a configuration's result.
ORIGIN_COLUMNS = ("board", "recorded_at", "run_number")


@dataclass(frozen=True)
class ExportedTable:
    """A table that scripts read from a file."""

    #: Name of the files, without their format.
    name: str
    #: Columns do not change; new ones come at the end, so that scripts may also read by position.
    columns: Sequence[str]
    records: Callable[[Material], Iterable[Record]]

    def rows(self, material: Material) -> Iterator[dict[str, Any]]:
        """Yield the rows with every column; None for values that a row lacks."""
        for record in self.records(material):
            yield {column: record.get(column) for column in self.columns}

    def write(self, material: Material, folder: Path, formats: Sequence[str]) -> None:
        """Write the table into the folder, in some of TABLE_FORMATS."""
        write_records(self.name, self.columns, self.records(material), folder, formats)


def table_of_rows(
    name: str, columns: Sequence[str], records_of: Callable[[Row], Iterable[Record]]
) -> ExportedTable:
    """Return a table with the records of each configuration, its identity and its origin."""

    def records(material: Material) -> Iterable[Record]:
        for group in material.groups:
            for row in group.rows:
                yield from (described(row, record) for record in records_of(row))

    return ExportedTable(name, (*IDENTITY_COLUMNS, *columns, *ORIGIN_COLUMNS), records)


def table_of_groups(
    name: str, columns: Sequence[str], records_of: Callable[[Group], Iterable[Record]]
) -> ExportedTable:
    """Return a table with the records of each group, followed by its board."""

    def records(material: Material) -> Iterable[Record]:
        for group in material.groups:
            yield from ({**record, "board": group.board} for record in records_of(group))

    return ExportedTable(name, (*columns, "board"), records)


def described(row: Row, record: Record) -> Record:
    """Return the record with the row's identity and origin."""
    return {**identity_of(row), **record, **origin_of(row.file)}


def identity_of(row: Row) -> dict[str, Any]:
    """Return the values of IDENTITY_COLUMNS."""
    identity = {name: getattr(row.info, name) for name in IDENTITY_COLUMNS if name != "models"}
    return {**identity, "models": row.models}


def origin_of(file: StoredRun) -> dict[str, Any]:
    """Return the values of ORIGIN_COLUMNS."""
    return {
        "board": file.board,
        "recorded_at": file.recorded_at,
        "run_number": run_number(file.path),
    }
