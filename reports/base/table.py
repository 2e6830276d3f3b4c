"""Tables for people, and tables for scripts as CSV, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from reusebench.reports.base.formatting import EMPTY
from reusebench.reports.base.texts import Texts
from reusebench.system.files import replacing

#: Characters that make a cell of text a formula if they begin it.
_FORMULA = tuple("=+-@\t\r")
#: Rows of CSV that are converted at once: more would take memory, fewer would take time.
_ROWS_AT_ONCE = 1000
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
    return "".join(_csv_parts("", columns, records))


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
    return "".join(_markdown_lines(columns, rows, numbers))


def write_records(
    name: str,
    columns: Sequence[str],
    records: Callable[[], Iterable[Mapping[str, Any]]],
    folder: Path,
    formats: Iterable[str],
) -> None:
    """Write records as a file NAME into the folder, in each of these TABLE_FORMATS.

    Few records are in memory at a time.
    """
    for form in formats:
        with (
            replacing(folder / f"{name}{_SUFFIXES[form]}") as unfinished,
            unfinished.open("w", encoding="utf-8") as file,
        ):
            file.writelines(_WRITERS[form](name, columns, records()))


def _rows(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Yield the values of each record; None for those that it lacks."""
    for record in records:
        yield [record.get(column) for column in columns]


def _csv_parts(
    name: str,  # noqa: ARG001  CSV has no place for it
    columns: Sequence[str],
    records: Iterable[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield the CSV, many rows at a time."""
    # Imported here, not above: it takes 0.4 s and 40 MiB, also in each process that draws figures,
    # which is forked from this one.
    import pandas as pd

    rows = (list(map(csv_cell, row)) for row in _rows(columns, records))
    has_heads = False
    while (part := list(islice(rows, _ROWS_AT_ONCE))) or not has_heads:
        # Columns of objects keep whole numbers whole if others are missing.
        frame: pd.DataFrame = pd.DataFrame(part, columns=list(columns), dtype=object)
        yield frame.to_csv(index=False, header=not has_heads, lineterminator="\n")
        has_heads = True


def _markdown_records(
    name: str,  # noqa: ARG001  Markdown has no place for it
    columns: Sequence[str],
    records: Iterable[Mapping[str, Any]],
) -> Iterator[str]:
    return _markdown_lines(columns, _rows(columns, records))


def _markdown_lines(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Container[int] = (),
) -> Iterator[str]:
    marks = ["---"] * len(columns)
    for index in range(len(columns)):
        if index in numbers:
            marks[index] = "---:"
    for cells in chain((columns, marks), rows):
        yield f"| {' | '.join(map(_in_a_line, cells))} |\n"


def _json_lines(
    name: str,
    columns: Sequence[str],
    records: Iterable[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield the JSON document, with a line for each row."""
    opening = json.dumps(
        {"version": _JSON_VERSION, "table": name, "columns": list(columns)},
        ensure_ascii=False,
    )
    yield f'{opening[:-1]}, "rows": ['
    separator = "\n"
    for row in _rows(columns, records):
        yield separator + json.dumps(dict(zip(columns, row)), ensure_ascii=False)
        separator = ",\n"
    yield "\n]}\n"


def _in_a_line(cell: object) -> str:
    if cell is None:
        return ""
    return str(cell).replace("|", "\\|").replace("\n", " ")


#: Functions that yield the text of a table, from its name, its columns and its records.
_WRITERS: dict[str, Callable[[str, Sequence[str], Iterable[Mapping[str, Any]]], Iterator[str]]] = {
    "csv": _csv_parts,
    "markdown": _markdown_records,
    "json": _json_lines,
}
TABLE_FORMATS = tuple(_WRITERS)
_SUFFIXES = {"csv": ".csv", "markdown": ".md", "json": ".json"}
