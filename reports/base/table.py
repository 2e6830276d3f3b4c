"""Tables: those that people read, and those that scripts read, as CSV, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from files import replacing
from reports.base.texts import Texts

TABLE_FORMATS = ("csv", "md", "json")
#: At the beginning of a cell of text they make it a formula of a spreadsheet.
_FORMULA = tuple("=+-@\t\r")
#: Of the form of the JSON files; of the columns each table's own list is the promise.
_JSON_VERSION = 1


@dataclass(frozen=True)
class Table:
    """A table to read: its heads, and rows of as many cells, each with a class for its look."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    #: The columns of words, by their place; all others are of numbers. Those below zero are counted from the end.
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
    # Not above: each process that draws figures is forked from this one and would carry it, 0.4 s and 40 MiB.
    import pandas as pd

    # As objects, so that whole numbers stay whole where others are missing.
    rows = [{column: csv_cell(record.get(column)) for column in columns} for record in records]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text


def csv_cell(value: Any) -> Any:
    """Return what stands in CSV: text that a spreadsheet would calculate gets an apostrophe, which makes it text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Container[int] = ()) -> str:
    """Return rows of cells as Markdown, the columns of numbers to the right.

    tabulate, which looks at every cell several times, takes a second for 10,000 rows.
    """
    marks = ["---:" if index in numbers else "---" for index in range(len(columns))]
    lines = [columns, marks, *([_in_a_line(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def write_records(
    name: str, columns: Sequence[str], records: Sequence[Mapping[str, Any]], folder: Path, formats: Iterable[str]
) -> None:
    """Write records as NAME.FORMAT into the folder, in some of TABLE_FORMATS."""
    for form in formats:
        if form == "csv":
            text = csv(columns, records)
        elif form == "md":
            text = markdown(columns, ([record.get(column) for column in columns] for record in records))
        else:
            rows = [{column: record.get(column) for column in columns} for record in records]
            document = {"version": _JSON_VERSION, "table": name, "columns": list(columns), "rows": rows}
            text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        with replacing(folder / f"{name}.{form}") as unfinished:
            unfinished.write_text(text, encoding="utf-8")


def _in_a_line(cell: object) -> str:
    return "" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ")
