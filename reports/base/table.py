"""Tables for people, and tables for scripts as CSV, JSON and Markdown."""

from __future__ import annotations

import contextlib
import csv as csv_module
import io
import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TextIO

from reusebench.reports.base.formatting import EMPTY
from reusebench.reports.base.texts import Texts
from reusebench.system.files import replacing

#: Characters that make a cell of text a formula if they begin it.
_FORMULA = tuple("=+-@\t\r")
#: Version of the JSON layout. The columns are promised by each table's own list.
_JSON_VERSION = 1


@dataclass(frozen=True)
class Table:
    """A table for people: heads, and rows of as many cells."""

    heads: Sequence[str]
    #: The class for a row's look, and the cells.
    rows: Sequence[tuple[str, Sequence[str]]]
    #: Indices of the columns of words; negative ones count from the end. All other columns are of
    #: numbers.
    words: Sequence[int] = (0,)
    #: A class for each column's look; empty if columns are alike.
    looks: Sequence[str] = ()
    #: Name of the exported table that has these figures; empty if none has.
    exported: str = ""
    #: What cells have, besides nothing, if there is nothing to say.
    usual: Container[str] = ()

    @cached_property
    def is_number(self) -> list[bool]:
        """Whether each column is of numbers."""
        width = max((len(cells) for _, cells in self.rows), default=len(self.heads))
        words = {index % width for index in self.words if -width <= index < width}
        return [index not in words for index in range(width)]

    @cached_property
    def without_empty_columns(self) -> Table:
        """The table without columns in which no row has anything to say."""
        shown = []
        for index, cells in enumerate(zip(*(cells for _, cells in self.rows))):
            said = {cell for cell in cells if cell not in (EMPTY, "")}
            if index == 0 or any(cell not in self.usual for cell in said):
                shown.append(index)
        if not self.rows or len(shown) == len(self.is_number):
            return self

        return replace(
            self,
            heads=[self.heads[index] for index in shown],
            rows=[(look, [cells[index] for index in shown]) for look, cells in self.rows],
            words=[new for new, old in enumerate(shown) if not self.is_number[old]],
            looks=[self.looks[index] for index in shown] if self.looks else (),
        )


def heads_of(keys: Iterable[str], texts: Texts) -> list[str]:
    """Return the texts of these keys as heads."""
    return [texts(key) for key in keys]


def csv(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Return records as CSV; a value that is missing or None is an empty cell."""
    text = io.StringIO()
    writer = _Csv(text, "", columns)
    for row in _rows(columns, records):
        writer.write(row)
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """Return a value for CSV; an apostrophe keeps a spreadsheet from calculating text."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def markdown(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Container[int] = (),
) -> str:
    """Return rows of cells as Markdown, with columns of numbers aligned to the right.

    tabulate looks at every cell several times, and takes a second for 10,000 rows.
    """
    text = io.StringIO()
    writer = _Markdown(text, "", columns, numbers)
    for row in rows:
        writer.write(row)
    return text.getvalue()


def write_records(
    name: str,
    columns: Sequence[str],
    records: Iterable[Mapping[str, Any]],
    folder: Path,
    formats: Iterable[str],
) -> None:
    """Write records as a file NAME into the folder, in each of these TABLE_FORMATS.

    One record is in memory at a time, and is made once for all formats.
    """
    with contextlib.ExitStack() as files:
        writers = []
        for form in formats:
            path = files.enter_context(replacing(folder / f"{name}{_SUFFIXES[form]}"))
            file = files.enter_context(path.open("w", encoding="utf-8"))
            writers.append(_WRITERS[form](file, name, columns))
        for row in _rows(columns, records):
            for writer in writers:
                writer.write(row)
        for writer in writers:
            writer.end()


def _rows(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Yield the values of each record; None for those that it lacks."""
    for record in records:
        yield [record.get(column) for column in columns]


class _Writer(Protocol):
    """A table in one format, written row by row."""

    def __init__(self, file: TextIO, name: str, columns: Sequence[str]) -> None: ...

    def write(self, row: Sequence[Any]) -> None:
        """Write the values of one row."""

    def end(self) -> None:
        """Write what follows the last row."""


class _Csv:
    def __init__(
        self,
        file: TextIO,
        name: str,  # noqa: ARG002  CSV has no place for it
        columns: Sequence[str],
    ) -> None:
        self._writer = csv_module.writer(file, lineterminator="\n")
        self._writer.writerow(columns)

    def write(self, row: Sequence[Any]) -> None:
        self._writer.writerow(map(csv_cell, row))

    def end(self) -> None:
        pass


class _Markdown:
    def __init__(
        self,
        file: TextIO,
        name: str,  # noqa: ARG002  Markdown has no place for it
        columns: Sequence[str],
        numbers: Container[int] = (),
    ) -> None:
        self._file = file
        self.write(columns)
        self.write(["---:" if index in numbers else "---" for index in range(len(columns))])

    def write(self, row: Sequence[Any]) -> None:
        self._file.write(f"| {' | '.join(map(_in_a_line, row))} |\n")

    def end(self) -> None:
        pass


class _Json:
    """One document, with a line for each row."""

    def __init__(self, file: TextIO, name: str, columns: Sequence[str]) -> None:
        self._file = file
        self._columns = columns
        self._separator = "\n"
        opening = json.dumps(
            {"version": _JSON_VERSION, "table": name, "columns": list(columns)},
            ensure_ascii=False,
        )
        file.write(f'{opening[:-1]}, "rows": [')

    def write(self, row: Sequence[Any]) -> None:
        record = json.dumps(dict(zip(self._columns, row)), ensure_ascii=False)
        self._file.write(f"{self._separator}{record}")
        self._separator = ",\n"

    def end(self) -> None:
        self._file.write("\n]}\n")


def _in_a_line(cell: object) -> str:
    if cell is None:
        return ""
    return str(cell).replace("|", "\\|").replace("\n", " ")


_WRITERS: dict[str, type[_Writer]] = {"csv": _Csv, "markdown": _Markdown, "json": _Json}
TABLE_FORMATS = tuple(_WRITERS)
_SUFFIXES = {"csv": ".csv", "markdown": ".md", "json": ".json"}
