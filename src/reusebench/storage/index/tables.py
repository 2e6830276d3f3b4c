"""The tables of the index: a name, columns, and the rows that a run gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reusebench.storage.run_file import StoredRun
from reusebench.storage.runs import Run

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
    #: The rows of a file with its run, in order: values of `columns` as JSON has them, such as
    #: text, numbers, None and lists.
    rows: Callable[[StoredRun, Run], Iterable[tuple[Any, ...]]]
