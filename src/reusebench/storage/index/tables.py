"""The tables of the index: a name, columns, and the rows that a run gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reusebench.storage.run_file import StoredRun

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """One table: every part of the index has a Parquet file of it.

    Two columns come before `columns`: `run` (INTEGER), the position of the run in StoredRuns.runs,
    and `position` (INTEGER), that of the row among the rows of its run.
    """

    name: str
    #: Key: name; value: DuckDB's type.
    columns: Mapping[str, str]
    #: The rows of a run, in order: values of `columns` as JSON has them (text, whole numbers,
    #: floats, None, lists).
    rows: Callable[[StoredRun], Iterable[tuple[Any, ...]]]
