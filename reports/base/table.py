"""The form of every table of the page: heads, and rows of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    #: Aligned and set as a number.
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table: its heads, and rows of as many cells, each with a class for its look."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    #: A class for each column's look; none where columns are alike.
    columns: Sequence[str] = ()
