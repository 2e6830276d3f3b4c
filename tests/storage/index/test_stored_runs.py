"""The runs of storages by the index: what they say is what the files say."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from reusebench.storage.index import covered, storage_index
from reusebench.storage.index.all_tables import TABLES, version
from reusebench.storage.index.parts import NewPart
from reusebench.storage.index.reading import FileRead, read_file
from reusebench.storage.index.storage_index import index_run
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.metrics import METRICS
from reusebench.storage.result import Result
from reusebench.storage.run_file import storages_in
from tests.reports.stored import even, result, write_run
from tests.storage.index.made_storages import make_storage, results_of_all_kinds

_RUNS = 12


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Result]]:
    """A storage with traces alone, and results of all kinds that have them."""
    folder = tmp_path_factory.mktemp("kinds")
    return folder, results_of_all_kinds(folder)


@pytest.fixture
def filled(storage: Path, kinds: tuple[Path, list[Result]]) -> Path:
    """A storage with some runs."""
    shutil.copytree(kinds[0], storage)
    make_storage(storage, kinds[1], random.Random(5), _RUNS)
    return storage


def _all(storage: Path) -> tuple[Any, ...]:
    """Return all that is known of a storage."""
    stored = StoredRuns.open(storages_in(storage), with_traces=True)
    return (
        stored.runs,
        stored.bad_files,
        stored.with_measured(stored.runs),
        [stored.file_of(run) for run in stored.runs],
    )


def _by_files(storage: Path) -> tuple[Any, ...]:
    """Return the same without an index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REUSEBENCH_INDEX", "off")
        return _all(storage)


def _parts(storage: Path) -> list[Path]:
    return sorted((storage / ".index" / version()).glob("[!.]*"))


@pytest.fixture
def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that this process reads for an index, as it does so."""
    paths: list[str] = []

    def noted(storage: Path, relative: str) -> FileRead | None:
        paths.append(relative)
        return read_file(storage, relative)

    monkeypatch.setattr("reusebench.storage.index.storage_index.read_file", noted)
    monkeypatch.setattr("reusebench.storage.index.writing.read_file", noted)
    return paths


@pytest.mark.parametrize("seed", range(4))
def test_the_index_has_what_the_files_have(
    storage: Path, kinds: tuple[Path, list[Result]], seed: int
) -> None:
    """Summaries, figures, bad files and sizes are equal, when the index is made and afterwards."""
    boards = ["one", "two"] if seed % 2 else ["."]
    for board in boards:
        shutil.copytree(kinds[0], storage / board)
        make_storage(storage / board, kinds[1], random.Random(f"{seed} {board}"), _RUNS)
    expected = _by_files(storage)
    assert any(run.measured for run in expected[2])
    assert _all(storage) == expected
    assert all(_parts(storage / board) for board in boards)
    assert _all(storage) == expected


def test_only_new_and_changed_files_are_read(filled: Path, files_read: list[str]) -> None:
    """The others are read once; files that cannot be stored, and runs without an end, each time."""
    _all(filled)
    files_read.clear()
    _all(filled)
    stored = StoredRuns.open([filled])
    unfinished = {run.path.name for run in stored.runs if not run.is_finished}
    always = {Path(path).name for path in files_read}
    assert always == unfinished | {path.name for path in filled.glob("*/*\udcff.json")}

    files_read.clear()
    new = write_run(filled, [result(filled, "no_reuse", even(3))], 100)
    changed = next(run.path for run in stored.runs if run.path.name not in always)
    changed.write_bytes(changed.read_bytes() + b"\n")
    _all(filled)
    assert {Path(path).name for path in files_read} - always == {new.name, changed.name}
    assert _all(filled) == _by_files(filled)


def test_figures_are_chosen_by_metric_and_by_likeness(filled: Path) -> None:
    """The same rows and values come from the index and from the files."""
    stored = StoredRuns.open([filled])
    (base,) = stored.with_measured(stored.runs[-1:])
    chosen = METRICS[::5]
    for like in (None, base.measured[:2], ()):
        for across in ((), ("board", "python_version", "npu_memory_limit_bytes")):
            with_index = stored.with_measured(stored.runs, chosen, like, across)
            whole = stored.with_measured(stored.with_measured(stored.runs), chosen, like, across)
            assert with_index == whole
    assert any(run.measured for run in stored.with_measured(stored.runs, like=base.measured))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _turn_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", ["files", "measured.parquet"])
@pytest.mark.parametrize(
    "damage",
    [Path.unlink, _cut, _turn_a_bit, _replace_by_a_folder, lambda path: path.write_text("")],
)
def test_damaged_parts_are_made_again(
    filled: Path, name: str, damage: Callable[[Path], object]
) -> None:
    """Nothing is said, and no figure changes."""
    expected = _all(filled)
    (part,) = _parts(filled)
    damage(part / name)
    assert _all(filled) == expected
    assert _all(filled) == expected
    assert [path for path in _parts(filled) if path != part]


def test_parts_that_are_gone_or_not_ours(filled: Path) -> None:
    """A part may go between the listing and the reading; others may put anything there."""
    stored = StoredRuns.open([filled])
    expected = _by_files(filled)
    shutil.rmtree(filled / ".index")
    assert stored.with_measured(stored.runs) == expected[2]
    assert _parts(filled)

    (filled / ".index" / version() / "foreign").write_text("text")
    (filled / ".index" / version() / "empty").mkdir()
    (filled / ".index" / "foreign").mkdir()
    assert _all(filled) == expected
    shutil.rmtree(filled / ".index")
    (filled / ".index").write_text("no folder")
    assert _all(filled) == expected


def test_an_index_in_the_cache(filled: Path, files_read: list[str]) -> None:
    """A storage that cannot be written has its index in the cache; without that, files are read."""
    expected = _by_files(filled)
    (filled / ".index").write_text("no folder: as in a read-only storage")
    assert _all(filled) == expected
    files_read.clear()
    assert _all(filled) == expected
    cached = len(files_read)

    cache = Path(os.environ["XDG_CACHE_HOME"])
    shutil.rmtree(cache)
    cache.write_text("no folder either")
    files_read.clear()
    assert _all(filled) == expected
    assert len(files_read) > cached


def test_a_disk_without_room(
    filled: Path, monkeypatch: pytest.MonkeyPatch, files_read: list[str]
) -> None:
    """The index goes into the cache if the storage has no room for it."""
    expected = _by_files(filled)
    finish = NewPart.finish

    def finish_in_cache(part: NewPart, *arguments: Any) -> None:
        if filled in part.folder.parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        finish(part, *arguments)

    monkeypatch.setattr(NewPart, "finish", finish_in_cache)
    assert _all(filled) == expected
    assert not list(filled.glob(".index/*/*"))
    files_read.clear()
    assert _all(filled) == expected
    assert len(files_read) < _RUNS


def test_writers_at_once(filled: Path) -> None:
    """Each finds all runs, whatever the others write, merge and remove meanwhile."""
    expected = _by_files(filled)
    answers = []

    def read() -> None:
        for _ in range(3):
            answers.append(_all(filled))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 12
    assert all(answer == expected for answer in answers)


def test_small_parts_are_merged(storage: Path) -> None:
    """A storage that is read after each run has few parts, and no past rows."""
    for number in range(1, 20):
        write_run(storage, [result(storage, "no_reuse", even(number))], number)
        StoredRuns.open([storage])
    assert 1 <= len(_parts(storage)) < 8
    assert _all(storage) == _by_files(storage)
    for path in storage.glob("*/00*.json"):
        path.unlink()
    assert _all(storage) == ([], [], [], [])
    assert _parts(storage) == []


def test_a_moved_and_a_copied_storage(filled: Path, files_read: list[str]) -> None:
    """A moved one keeps its index; of a copy all files are read, and nothing is lost."""
    _all(filled)
    moved = filled.rename(filled.with_name("moved"))
    files_read.clear()
    of_moved = _all(moved)
    assert len(files_read) < _RUNS
    assert of_moved == _by_files(moved)
    copy = moved.with_name("copy")
    shutil.copytree(moved, copy)
    assert _all(copy) == _by_files(copy)


def test_files_changed_in_one_step_of_the_clock(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was just written may change without a trace: it is not kept yet."""
    monkeypatch.setattr(covered, "_STEP_S", 3600)
    write_run(storage, [result(storage, "no_reuse", even(3))])
    before = _all(storage)
    assert not _parts(storage)
    assert before == _by_files(storage)


def test_traces_that_went(filled: Path) -> None:
    """Sizes are those of the traces that are there now."""
    before = _all(filled)
    assert any(file.trace_bytes for file in before[3])
    for trace in filled.glob("traces/0123456789ab/*.json.gz"):
        trace.unlink()
    assert _all(filled) == _by_files(filled) != before
    shutil.rmtree(filled / "traces")
    assert _all(filled) == _by_files(filled)
    assert not any(file.trace_bytes for file in _all(filled)[3])


def test_without_duckdb(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, all is read from the files."""
    expected = _by_files(filled)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert _all(filled) == expected
    assert not (filled / ".index").exists()
    stored = StoredRuns.open([filled])
    assert stored.ask("measured", lambda rows: rows.fetchall()) is None


def test_a_duckdb_that_fails(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an installation, or a database that does not start, is as none."""
    expected = _all(filled)

    def fail(*_: object) -> None:
        raise duckdb.IOException("no database")

    monkeypatch.setattr("reusebench.storage.index.queries.connect", fail)
    monkeypatch.setattr("reusebench.storage.index.writing.connect", fail)
    assert _all(filled) == expected
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for name in ("queries", "writing", "database"):
        monkeypatch.delitem(sys.modules, f"reusebench.storage.index.{name}")
    assert _all(filled) == expected
    shutil.rmtree(filled / ".index")
    assert _all(filled) == expected


def test_many_figures_are_not_kept_in_memory(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index they are read again when they are asked for."""
    monkeypatch.setenv("REUSEBENCH_INDEX", "off")
    expected = _all(filled)
    monkeypatch.setattr("reusebench.storage.index.stored_runs._MOST_ROWS", 5)
    assert _all(filled) == expected


def test_a_question_to_a_table(filled: Path) -> None:
    """A query sees the rows of all runs, of those without a part too."""
    stored = StoredRuns.open([filled])
    runs = stored.with_measured(stored.runs)
    rows = stored.ask("measured", lambda rows: rows.order("run, position").fetchall())
    assert rows is not None
    assert [row[0] for row in rows] == [
        position for position, run in enumerate(runs) for _ in run.measured
    ]
    names = stored.ask(
        "measured", lambda rows: rows.order("run, position").project("name, outcome").fetchall()
    )
    assert names == [
        (measured.configuration.name, measured.outcome) for run in runs for measured in run.measured
    ]
    assert {table.name for table in TABLES} >= {"measured"}


@pytest.mark.process
def test_a_run_that_was_just_written(storage: Path, files_read: list[str]) -> None:
    """A session leaves it in the index, for whoever reads next."""
    path = write_run(storage, [result(storage, "no_reuse", even(3))])
    time.sleep(0.06)
    index_run(path)
    assert _parts(storage)
    assert _all(storage) == _by_files(storage)
    assert files_read == [str(path.relative_to(storage))]


@pytest.mark.process
def test_large_storages_are_read_by_several_processes(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They give what one gives."""
    monkeypatch.setattr(storage_index, "_process_count", lambda _: 2)
    time.sleep(0.06)
    expected = _by_files(filled)
    assert _all(filled) == expected
    assert len(_parts(filled)) == 2
    assert _all(filled) == expected
