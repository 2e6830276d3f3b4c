"""Tables: those that people read, and those that scripts read, as CSV, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from reusebench.reports.base.texts import Texts
from reusebench.system.files import replacing

TABLE_FORMATS = ("csv", "md", "json")
#: At the beginning of a cell of text they make it a formula of a spreadsheet.
_FORMULA = tuple("=+-@\t\r")
#: Of CSV: more would take memory, fewer time.
_ROWS_AT_ONCE = 1000
#: Of the form of the JSON files; of the columns each table's own list is the promise.
_JSON_VERSION = 1


@dataclass(frozen=True)
class Table:
    """A table to read: its heads, and rows of as many cells, each with a class for its look."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    #: The columns of words, by their place; all others are of numbers. Those below zero are counted
    #: from the end.
    words: Sequence[int] = (0,)
    #: A class for each column's look; none where columns are alike.
    looks: Sequence[str] = ()

    @cached_property
    def is_number(self) -> list[bool]:
        """Whether each column is of numbers."""
        width = max((len(cells) for _, cells in self.rows), default=len(self.heads))
        words = {index % width for index in self.words if -width <= index < width}
        return [index not in words for index in range(width)]


def heads_of(keys: Iterable[str], texts: Texts) -> list[str]:
    """Return the heads that these texts are."""
    return [texts(key) for key in keys]


def csv(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Return records as CSV; what a record lacks, or has as None, is empty."""
    text = StringIO()
    _write_csv(columns, records, text)
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """Return what stands in CSV: text that a spreadsheet would calculate gets an apostrophe, which
    makes it text.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def markdown(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Container[int] = ()
) -> str:
    """Return rows of cells as Markdown, the columns of numbers to the right.

    tabulate, which looks at every cell several times, takes a second for 10,000 rows.
    """
    return "".join(_markdown_lines(columns, rows, numbers))


def write_records(
    name: str,
    columns: Sequence[str],
    records: Callable[[], Iterable[Mapping[str, Any]]],
    folder: Path,
    formats: Iterable[str],
) -> None:
    """Write records as NAME.FORMAT into the folder, in some of TABLE_FORMATS; few of them are in
    memory at a time.
    """
    for form in formats:
        with (
            replacing(folder / f"{name}.{form}") as unfinished,
            unfinished.open("w", encoding="utf-8") as file,
        ):
            if form == "csv":
                _write_csv(columns, records(), file)
            elif form == "md":
                rows = ([record.get(column) for column in columns] for record in records())
                file.writelines(_markdown_lines(columns, rows))
            else:
                file.writelines(_json_lines(name, columns, records()))


def _write_csv(columns: Sequence[str], records: Iterable[Mapping[str, Any]], file: TextIO) -> None:
    # Not above: each process that draws figures is forked from this one and would carry it, 0.4 s
    # and 40 MiB.
    import pandas as pd

    rows = ([csv_cell(record.get(column)) for column in columns] for record in records)
    has_heads = False
    while (part := list(islice(rows, _ROWS_AT_ONCE))) or not has_heads:
        # As objects, so that whole numbers stay whole where others are missing.
        frame: pd.DataFrame = pd.DataFrame(part, columns=list(columns), dtype=object)
        frame.to_csv(file, index=False, header=not has_heads, lineterminator="\n")
        has_heads = True


def _markdown_lines(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Container[int] = ()
) -> Iterator[str]:
    marks = ["---:" if index in numbers else "---" for index in range(len(columns))]
    for cells in chain((columns, marks), rows):
        yield f"| {' | '.join(map(_in_a_line, cells))} |\n"


def _json_lines(
    name: str, columns: Sequence[str], records: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the document with a line for each row."""
    opening = json.dumps(
        {"version": _JSON_VERSION, "table": name, "columns": list(columns)}, ensure_ascii=False
    )
    yield f'{opening[:-1]}, "rows": ['
    separator = "\n"
    for record in records:
        yield separator + json.dumps(
            {column: record.get(column) for column in columns}, ensure_ascii=False
        )
        separator = ",\n"
    yield "\n]}\n"


def _in_a_line(cell: object) -> str:
    return "" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ")
