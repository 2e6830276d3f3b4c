"""DuckDB, set up for a small board: it reads and writes the Parquet files of the index.

This module alone imports DuckDB: it takes 0.1 s and 40 MB, which commands that need no figure save.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

__all__ = ["connect", "quoted"]

#: Limit of what DuckDB itself takes; beyond it, it writes to temporary files.
_MEMORY_LIMIT = "300MB"
#: More threads take more memory, and save little: the files are small.
_MOST_THREADS = 2


def connect(temporary: Path) -> duckdb.DuckDBPyConnection:
    """Return a database in memory; `temporary` is a folder for what exceeds the limit of memory."""
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "memory_limit": _MEMORY_LIMIT,
        "temp_directory": str(temporary),
        # Extensions would be downloaded; the wheel has all that is used.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(":memory:", config=settings)


def quoted(text: str) -> str:
    """Return the text as a literal of SQL."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
