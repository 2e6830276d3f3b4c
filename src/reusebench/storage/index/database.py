"""DuckDB, set up for a small board: it reads and writes Parquet files.

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
_IN_MEMORY = ":memory:"


def connect(
    temporary: Path, file: Path | None = None, most_threads: int = _MOST_THREADS
) -> duckdb.DuckDBPyConnection:
    """Return a database in the file, or in memory.

    `temporary` is a folder for what exceeds the limit of memory.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": min(most_threads, len(os.sched_getaffinity(0))),
        "memory_limit": _MEMORY_LIMIT,
        "temp_directory": str(temporary),
        # Extensions would be downloaded; the wheel has all that is used.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(file or _IN_MEMORY, config=settings)


def quoted(text: str) -> str:
    """Return the text as a literal of SQL."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
