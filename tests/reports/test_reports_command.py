from __future__ import annotations

from pathlib import Path

import pytest

from reports.__main__ import main
from storage.mechanisms import write_trials
from tests.reports.stored import even, full_run, result, tried, write_run


def run(storage: Path, output: Path) -> int:
    return main(["--storage", str(storage), "--output", str(output)])


def test_report_of_a_storage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes page and tables, prints the table, and says where the page is."""
    full_run(tmp_path / "storage")
    output = tmp_path / "report"
    assert run(tmp_path / "storage", output) == 0
    assert {path.name for path in output.iterdir()} == {"index.html", "index.zh-CN.html", "tables"}
    printed = capsys.readouterr().out
    assert "330.0" in printed
    assert printed.rstrip().endswith(str(output / "index.html"))


def test_no_storage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A storage that is not there ends with exit code 2 and says what to run."""
    assert run(tmp_path / "none", tmp_path / "out") == 2
    assert "Run `pytest bench/` first" in capsys.readouterr().err


def test_empty_storage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A storage without results ends with exit code 2."""
    (tmp_path / "storage").mkdir()
    assert run(tmp_path / "storage", tmp_path / "out") == 2
    assert "no results in" in capsys.readouterr().err


def test_corrupt_file_is_named_and_the_rest_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file cut short is named, the others are reported, and the exit code is not zero."""
    storage = tmp_path / "storage"
    path = full_run(storage)
    (path.parent / "0002_cut.json").write_text(path.read_text()[:500])
    assert run(storage, tmp_path / "out") == 1
    assert (tmp_path / "out" / "index.html").exists()
    assert "0002_cut.json: cannot be read" in capsys.readouterr().err


def test_other_schema_version_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of another schema version is named with the version that this program reads."""
    storage = tmp_path / "storage"
    full_run(storage)
    other = result(storage, "no_reuse", even(40))
    other["schema"] = "reusebench-result-99"
    write_run(storage, [other], number=2)
    assert run(storage, tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert "reusebench-result-99" in error
    assert "reusebench-result-1" in error


def test_several_boards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with the storages of two boards is refused, and both are named."""
    for board in ("board-a", "board-b"):
        full_run(tmp_path / board)
    assert run(tmp_path, tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "board-a" in error
    assert "board-b" in error


def test_a_folder_with_one_board_is_that_board(tmp_path: Path) -> None:
    """A folder that holds one board's storage needs no further words, also where that has trials."""
    full_run(tmp_path / "boards" / "board-a")
    write_trials(tmp_path / "boards" / "board-a", tried())
    assert run(tmp_path / "boards", tmp_path / "out") == 0
    assert "no allocator" in (tmp_path / "out" / "tables" / "mechanisms.csv").read_text()


def test_unwritable_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An output folder that cannot be made ends with exit code 2 and the option that names another."""
    full_run(tmp_path / "storage")
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "storage", tmp_path / "file" / "out") == 2
    assert "--output DIR" in capsys.readouterr().err
