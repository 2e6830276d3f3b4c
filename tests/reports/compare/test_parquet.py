"""Parquet, partitioned by board and month, as DuckDB and pyarrow read it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pandas as pd
import pytest

import reusebench
from reusebench.reports.compare.exports.parquet import FILE_NAME, PARQUET_COLUMNS, write_parquet
from reusebench.reports.errors import ReportError
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.run_file import storages_in
from reusebench.storage.runs import RunSummary
from tests.helpers.support import CHECKOUT
from tests.reports.stored import FAILED, MACHINE, even, fleet_run, result, write_run
from tests.reports.stored_programs import Repeat, program, write_programs

#: Names of boards that are no names of folders, or that readers take for something else.
_ODD_NAMES = [
    "rock5a",
    "",
    "\u677f\u5361 \u4e00\u53f7",
    "a/b",
    "../..",
    "a=b",
    "a%2Fb",
    "a+b c",
    "007",
    "7",
    "true",
    "x" * 300,
    "\u677f" * 200,
    "q'\"\\",
    "{[*?]}",
    "unnamed",
]


def write(storage: Path, number: int, at: str, board: str = "rock5a", mib: int = 40) -> Path:
    environment = msgspec.structs.replace(MACHINE.reusebench, board=board)
    machine = msgspec.structs.replace(MACHINE, reusebench=environment)
    infos = [result(storage, "no_reuse_one_model", even(mib), run=f"run{number}")]
    return write_run(storage, infos, number, at=at, machine=machine)


def runs_in(folder: Path) -> Sequence[RunSummary]:
    return StoredRuns.open(storages_in(folder)).runs


def read(folder: Path, what: str = "*", options: str = "") -> list[tuple[Any, ...]]:
    pattern = f"{folder}/**/*.parquet"
    query = f"SELECT {what} FROM read_parquet($1, hive_partitioning = true) {options}"
    with duckdb.connect() as database:
        return database.execute(query, [pattern]).fetchall()


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the content of every file that readers take."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_rows_are_those_of_load(tmp_path: Path) -> None:
    """Every value of the wide frame is there, in the row and the column that it has there; a
    failure and a program have their rows.
    """
    storage = tmp_path / "storage"
    failed = result(storage, "partial_dup", [], failure=FAILED)
    write_run(storage, [result(storage, "no_reuse", even(40, spread=1)), failed])
    write_programs(storage, [program("camera", [Repeat({"load": 12, "steady": 30})])], 2)
    assert write_parquet(runs_in(storage), tmp_path / "out") == []

    frame = reusebench.load(storage, wide=True)
    columns = [f'"{name}"' for name in PARQUET_COLUMNS]
    columns[columns.index('"recorded_at"')] = "epoch_us(recorded_at)"
    rows = read(tmp_path / "out", ", ".join(columns), "ORDER BY recorded_at, run_number")
    frame = frame.sort_values(["recorded_at", "run_number"], kind="stable")
    frame["recorded_at"] = frame["recorded_at"].astype("int64")
    expected = frame.astype(object).where(frame.notna(), None)
    assert rows == list(expected.itertuples(index=False, name=None))
    assert len({row[-1] for row in read(tmp_path / "out", "month")}) == len(
        {run.recorded_at[:7] for run in runs_in(storage)}
    )


def test_columns_have_the_same_types_in_every_partition(tmp_path: Path) -> None:
    """They do not depend on what was measured; times are real times, and no column is an object."""
    write(tmp_path / "storage", 1, "2026-10-31T23:59:59")
    write_programs(tmp_path / "storage", [program("camera", [Repeat({"load": 12})])], 2)
    write_parquet(runs_in(tmp_path / "storage"), tmp_path / "out")
    with duckdb.connect() as database:
        for path in (tmp_path / "out").rglob(FILE_NAME):
            query = "DESCRIBE SELECT * FROM read_parquet($1, hive_partitioning = false)"
            described = database.execute(query, [str(path)]).fetchall()
            assert {name: kind for name, kind, *_ in described} == PARQUET_COLUMNS
    assert set(PARQUET_COLUMNS.values()) == {
        "BIGINT",
        "BOOLEAN",
        "DOUBLE",
        "TIMESTAMP WITH TIME ZONE",
        "VARCHAR",
    }


@pytest.fixture(scope="module")
def odd_boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a run of each board with an odd name."""
    folder = tmp_path_factory.mktemp("odd")
    runs: list[RunSummary] = []
    for index, name in enumerate(_ODD_NAMES):
        write(folder / str(index), 1, "2026-11-02T03:04:05.123456", name)
        runs += runs_in(folder / str(index))
    write_parquet(runs, folder / "out [1]")
    return folder / "out [1]"


def test_any_board_has_a_partition(odd_boards: Path) -> None:
    """Folders are names that every file system takes; boards are read by the exact name, short
    names from the partition too.
    """
    for board in odd_boards.glob("board=*"):
        assert len(board.name.encode()) <= 255
        assert [month.name for month in board.iterdir()] == ["month=2026-11"]
    # Brackets in the path are a pattern to DuckDB.
    pattern = str(odd_boards).replace("[", "[[]")
    rows = read(Path(pattern), "DISTINCT board, board_name")
    assert sorted(name for _, name in rows) == sorted(_ODD_NAMES)
    for board, name in rows:
        assert board == (name or "unnamed") or (len(name) >= 200 and board[:50] == name[:50])


def test_a_run_of_several_boards_has_a_partition_for_each(tmp_path: Path) -> None:
    """Each board's partition has its own results, beside those that it has already."""
    write(tmp_path / "storage", 1, "2026-01-01T00:00:00", "rock5a")
    fleet_run(tmp_path / "storage", ("rock5a", "rock5b"), 2)
    for _ in range(2):
        write_parquet(runs_in(tmp_path / "storage"), tmp_path / "out")
        rows = read(tmp_path / "out", "DISTINCT board, board_name, run_number")
        assert sorted(rows) == [
            ("rock5a", "rock5a", 1),
            ("rock5a", "rock5a", 2),
            ("rock5b", "rock5b", 2),
        ]
        assert read(tmp_path / "out", "count(*)") == [
            (len(reusebench.load(tmp_path / "storage", wide=True)),)
        ]


@pytest.mark.slow
def test_pyarrow_and_pandas_read_it(odd_boards: Path) -> None:
    """pyarrow finds the partitions, and pandas gets times, numbers, flags and text."""
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(odd_boards)
    assert sorted(frame["board_name"].unique()) == sorted(_ODD_NAMES)
    assert isinstance(frame["recorded_at"].dtype, pd.DatetimeTZDtype)
    assert set(frame["month"]) == {"2026-11"}
    storages = sorted(odd_boards.parent.glob("[0-9]*"))
    loaded = reusebench.load(*storages, wide=True)
    for column in ("application_memory_bytes", "pss_bytes", "latency_ns"):
        assert sorted(frame[column].dropna()) == sorted(loaded[column].dropna())


def test_only_partitions_of_the_runs_are_written(tmp_path: Path) -> None:
    """An export of one run leaves other partitions as they are, and keeps the rows of other runs
    of its own: also of those that the storage has no more.
    """
    first = write(tmp_path / "storage", 1, "2026-10-31T23:59:59")
    for number in (2, 3):
        write(tmp_path / "storage", number, f"2026-11-0{number}T00:00:00", mib=40 + number)
    out = tmp_path / "out"
    write_parquet(runs_in(tmp_path / "storage"), out)
    former = files_in(out)
    assert len(former) == 2

    first.unlink()
    write(tmp_path / "storage", 3, "2026-11-03T00:00:00", mib=70)
    write_parquet(runs_in(tmp_path / "storage")[-1:], out)
    changed = [name for name, content in files_in(out).items() if content != former[name]]
    assert changed == [f"board=rock5a/month=2026-11/{FILE_NAME}"]
    counts = dict(read(out, "run_number, count(*)", "GROUP BY ALL"))
    assert set(counts) == {1, 2, 3}
    assert len(set(counts.values())) == 1
    memory = "run_number, max(application_memory_over_baseline_bytes)"
    by_run = dict(read(out, memory, "GROUP BY ALL"))
    assert by_run[2] < by_run[3]
    assert (
        by_run[3]
        == reusebench.load(
            tmp_path / "storage", metrics="application_memory_over_baseline_bytes", runs="3"
        ).value.max()
    )


def test_an_export_is_repeated(tmp_path: Path) -> None:
    """The same runs give the same rows, whatever a killed export has left; nothing is left over."""
    write(tmp_path / "storage", 1, "2026-11-01T00:00:00")
    out = tmp_path / "out"
    for _ in range(2):
        write_parquet(runs_in(tmp_path / "storage"), out)
        rows = read(out, "count(*)")
        work = out / ".reusebench"
        assert [path.name for path in work.iterdir()] == ["lock"]
        (work / "rows.part").write_text("killed")
        (work / "whole.part").write_text("killed")
    assert rows == [(len(reusebench.load(tmp_path / "storage", wide=True)),)]


def test_columns_of_another_version_stay(tmp_path: Path) -> None:
    """A partition written by a version with other columns keeps them, and gets the new ones."""
    write(tmp_path / "storage", 1, "2026-11-01T00:00:00")
    write(tmp_path / "storage", 2, "2026-11-02T00:00:00")
    out = tmp_path / "out"
    write_parquet(runs_in(tmp_path / "storage")[:1], out)
    (path,) = out.rglob(FILE_NAME)
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE former AS SELECT * EXCLUDE (chip), 5 AS era FROM '{path}'")
        database.execute(f"COPY former TO '{path}' (FORMAT parquet)")
    write_parquet(runs_in(tmp_path / "storage")[1:], out)
    rows = read(out, "DISTINCT run_number, era, chip", "ORDER BY run_number")
    assert rows == [(1, 5, None), (2, None, None)]


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    """A file that is none of ours is not replaced; a folder that cannot be written is a mistake."""
    write(tmp_path / "storage", 1, "2026-11-01T00:00:00")
    runs = runs_in(tmp_path / "storage")
    out = tmp_path / "out"
    path = out / "board=rock5a" / "month=2026-11" / FILE_NAME
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(ReportError, match="is no file of an earlier export"):
        write_parquet(runs, out)
    assert path.read_text() == "mine"
    with pytest.raises(ReportError, match=r"cannot write .*--output DIR"):
        write_parquet(runs, path)


def test_runs_that_are_left_out_are_named(tmp_path: Path) -> None:
    """An unfinished run, whose time is not final, and a file that was damaged a moment ago."""
    info = result(tmp_path, "no_reuse_one_model", even(40))
    write_run(tmp_path, [info], 1, is_finished=False)
    path = write_run(tmp_path, [info], 2)
    runs = runs_in(tmp_path)
    path.write_text("{")
    missing = write_parquet(runs, tmp_path / "out")
    assert [line.partition(": ")[0] for line in missing] == ["0001_run", str(path)]
    assert files_in(tmp_path / "out") == {}


@pytest.mark.slow
@pytest.mark.process
def test_a_killed_export_leaves_whole_files(tmp_path: Path) -> None:
    """Readers see the former or the new rows of a partition, whenever the export is killed."""
    storage, out = tmp_path / "storage", tmp_path / "out"
    for number in range(1, 9):
        write(storage, number, f"2026-{number:02}-01T00:00:00")
    write_parquet(runs_in(storage), out)
    rows = read(out, "count(*)")
    command = [sys.executable, "-m", "reusebench", "export", "..", "--format", "parquet"]
    words = ["--storage", str(storage), "--output", str(out)]
    for delay_s in (0.5, 0.9, 1.1, 1.3):
        exporting = subprocess.Popen([*command, *words], cwd=CHECKOUT, env=os.environ)
        try:
            exporting.wait(delay_s)
        except subprocess.TimeoutExpired:
            exporting.kill()
            exporting.wait()
        assert read(out, "count(*)") == rows
