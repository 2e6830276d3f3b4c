"""A folder of Parquet files, as Spark, DuckDB and Athena read it: `board=.../month=2026-11/`.

The rows are those of load(wide=True). A partition is one file, which is written beside and renamed:
a reader sees the former or the new one. Rows of other runs that a partition has already stay in it,
so that each run can be exported by itself, and later be removed from the storage.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb
import pandas as pd

from reusebench.reports.errors import ReportError
from reusebench.storage.frames.columns import METRICS_OF, TYPES, UNITS, WIDE_RESULT_COLUMNS
from reusebench.storage.frames.results import results_frame
from reusebench.storage.index.database import connect, quoted
from reusebench.storage.metrics import FRACTIONAL
from reusebench.storage.run_file import StoredRun, read_run_file
from reusebench.storage.runs import RunSummary
from reusebench.system.files import printable

__all__ = ["FILE_NAME", "PARQUET_COLUMNS", "partition_of", "write_parquet"]

#: The file of a partition.
FILE_NAME = "results.parquet"
#: The folder for files that are not whole yet; readers skip names that begin so.
_WORK = ".reusebench"
#: The board without a name in the name of a partition, where pandas reads no missing value.
_UNNAMED = "unnamed"
#: Characters that Hive escapes in the name of a partition, and others that readers decode.
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*+/:=?\\{}\[\]^&<>|;]")
#: Limit of a folder's name.
_MOST_BYTES = 255
#: Digits of the digest at the end of a shortened name.
_DIGITS = 12
#: Size of the stored files whose rows are in memory at once.
_BATCH_BYTES = 8 * 2**20
#: Rows that Parquet keeps together.
_GROUP_ROWS = 50_000
#: The columns that identify a run within a partition.
_RUN = ("board_name", "run_number", "run_name", "recorded_at")


def _type_of(column: str) -> str:
    """Return the type of a column in Parquet, by DuckDB's name."""
    if column == "recorded_at":
        return "TIMESTAMP WITH TIME ZONE"
    if column in UNITS:
        return "DOUBLE" if UNITS[column] in FRACTIONAL else "BIGINT"
    return {"int64": "BIGINT", "bool": "BOOLEAN", "float64": "DOUBLE"}.get(
        TYPES.get(column, "").lower(), "VARCHAR"
    )


#: Key: column; value: its type. `board` is the partition, whose value readers may take for a number
#: or a missing one; `board_name` is the exact name.
PARQUET_COLUMNS = {
    "board_name" if column == "board" else column: _type_of(column)
    for column in WIDE_RESULT_COLUMNS
}


def write_parquet(runs: Sequence[RunSummary], folder: Path) -> list[str]:
    """Write the partitions of these runs, and return a line for each run that is left out."""
    groups: dict[tuple[str, str], list[RunSummary]] = {}
    missing = []
    for run in runs:
        if run.is_finished:
            groups.setdefault((run.board, _month_of(run)), []).append(run)
        else:
            missing.append(f"{run}: it is not finished")
    try:
        with _work_folder(folder) as work, _database(work / "rows.part") as database:
            for (_, month), members in groups.items():
                missing += _write_month(folder, month, members, database)
    except OSError as error:
        raise _cannot_write(Path(error.filename or folder), error.strerror or str(error)) from None
    return missing


def _month_of(run: RunSummary) -> str:
    return run.recorded_at[: len("2026-11")]


def _cannot_write(path: Path, reason: str) -> ReportError:
    return ReportError(
        f"cannot write {printable(str(path))} ({reason}). Name another folder with --output DIR"
    )


def partition_of(board: str, month: str) -> str:
    """Return the folder of a partition."""
    name = _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", board) or _UNNAMED
    folder = f"board={name}"
    encoded = folder.encode()
    if len(encoded) > _MOST_BYTES:
        digest = hashlib.sha256(encoded).hexdigest()[:_DIGITS]
        start = encoded[: _MOST_BYTES - _DIGITS - 1].decode(errors="ignore")
        # An escape that is cut is left out as a whole.
        folder = f"{re.sub('%.?$', '', start)}-{digest}"
    return f"{folder}/month={month}"


@contextlib.contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """Yield the folder for unfinished files, which one export at a time has."""
    work = folder / _WORK
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        # Some network file systems have no locks.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_parts(work)
        try:
            yield work
        finally:
            _remove_parts(work)


def _remove_parts(work: Path) -> None:
    """Remove what this export, or one that was killed, has left."""
    for path in work.glob("*.part*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _write_month(
    folder: Path, month: str, runs: Sequence[RunSummary], database: duckdb.DuckDBPyConnection
) -> list[str]:
    """Write the partitions of runs of one month, and return a line for each unreadable run."""
    missing: list[str] = []
    columns = ", ".join(f'"{name}" {kind}' for name, kind in PARQUET_COLUMNS.items())
    database.execute(f"CREATE OR REPLACE TABLE new ({columns})")
    for batch in _batches(runs, missing):
        _insert(results_frame(batch, METRICS_OF["results"], wide=True), database)
    partitions: dict[str, list[str]] = {}
    for (board,) in database.execute("SELECT DISTINCT board_name FROM new").fetchall():
        partitions.setdefault(partition_of(board, month), []).append(board)
    for partition, boards in partitions.items():
        whole = folder / _WORK / "whole.part"
        _write_partition(folder / partition / FILE_NAME, boards, database, whole)
    return missing


def _write_partition(
    file: Path, boards: Sequence[str], database: duckdb.DuckDBPyConnection, whole: Path
) -> None:
    """Write the new rows of the boards, behind those of other runs that the file has already."""
    names = ", ".join(map(quoted, boards))
    rows = f"SELECT * FROM new WHERE board_name IN ({names})"
    if file.exists():
        rows = f"{_rows_of_others(file, database)} UNION ALL BY NAME {rows}"
    try:
        database.execute(
            f"COPY ({rows}) TO {quoted(str(whole))}"
            f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP_ROWS})"
        )
    except duckdb.Error as error:
        raise _cannot_write(file, _reason(error)) from None
    with whole.open("rb") as content:
        os.fsync(content.fileno())
    file.parent.mkdir(parents=True, exist_ok=True)
    whole.replace(file)


def _rows_of_others(file: Path, database: duckdb.DuckDBPyConnection) -> str:
    """Return the query for the rows of runs that are not among the new ones."""
    # Characters of a pattern stand for themselves in brackets.
    pattern = re.sub(r"[\[*?]", r"[\g<0>]", str(file))
    former = f"read_parquet({quoted(pattern)}, hive_partitioning = false)"
    try:
        database.execute(f"DESCRIBE SELECT {', '.join(_RUN)} FROM {former}")
    except duckdb.Error as error:
        raise ReportError(
            f"{printable(str(file))} is no file of an earlier export ({_reason(error)}). Move it"
            " away, or name another folder with --output DIR"
        ) from None
    equal = " AND ".join(f"new.{key} IS NOT DISTINCT FROM former.{key}" for key in _RUN)
    return f"SELECT * FROM {former} AS former WHERE NOT EXISTS (FROM new WHERE {equal})"


def _reason(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]


def _database(file: Path) -> duckdb.DuckDBPyConnection:
    """Return a database on disk, which holds any number of rows in little memory."""
    # One thread keeps the order of rows without holding them.
    return connect(file.with_name(f"{file.name}.tmp"), file, most_threads=1)


def _batches(runs: Iterable[RunSummary], missing: list[str]) -> Iterator[list[StoredRun]]:
    """Yield the files of the runs, a few at a time; `missing` gets those that cannot be read."""
    batch: list[StoredRun] = []
    size_bytes = 0
    for run in runs:
        file = read_run_file(run.path)
        if not isinstance(file, StoredRun):
            missing.append(str(file or run))
            continue
        batch.append(file)
        size_bytes += run.path.stat().st_size
        if size_bytes > _BATCH_BYTES:
            yield batch
            batch = []
            size_bytes = 0
    if batch:
        yield batch


def _insert(frame: pd.DataFrame, database: duckdb.DuckDBPyConnection) -> None:
    """Insert the rows of a frame, whose columns are in the order of the table."""
    database.register("frame", frame)
    database.execute("INSERT INTO new FROM frame")
    database.unregister("frame")
