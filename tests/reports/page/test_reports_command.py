from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.base.texts import texts_of
from reports.commands.report import FORMATS
from tests.reports.stored import changed, dup, even, full_run, machine, result, write_run

_EVERY_FORMAT = [argument for each in FORMATS for argument in ("--format", each)]


def run(storage: Path, output: Path) -> int:
    return main(["--storage", str(storage), "--output", str(output)])


def rows_of(output: Path, table: str) -> list[dict[str, str]]:
    with (output / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_report_of_a_storage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes page and tables, prints the table, and says where the page is."""
    full_run(tmp_path / "storage")
    output = tmp_path / "report"
    assert run(tmp_path / "storage", output) == 0
    assert {path.name for path in output.iterdir()} == {"index.html", "tables"}
    printed = capsys.readouterr().out
    assert "330.0" in printed
    assert f"Report: {output / 'index.html'}" in printed
    assert printed.index("The answer") < printed.index("Most is saved by: Full dup") < printed.index("Report: ")


def test_results_of_before_contexts_had_memory_are_reported(tmp_path: Path) -> None:
    """What was stored before there were further mechanisms, copies and accounts has a whole report, explained too."""
    storage = tmp_path / "storage"
    path = write_run(
        storage, [result(storage, "no_reuse_one_model", even(40)), result(storage, "full_dup", dup(40, 10))]
    )
    document = json.loads(path.read_text())
    for benchmark in document["benchmarks"]:
        info = benchmark["extra_info"]
        for name in ("copies", "chip", "driver_version", "computes", "measured_as", "frames"):
            del info[name]
        for repeat in info["repeats"]:
            del repeat["npu"]
        kept = ("stream", "model", "mechanism", "source")
        info["plan"]["contexts"] = [{name: context[name] for name in kept} for context in info["plan"]["contexts"]]
    path.write_text(json.dumps(document))
    assert main(["--storage", str(storage), "--output", str(tmp_path), *_EVERY_FORMAT]) == 0
    explained = [row for row in rows_of(tmp_path, "explanations") if row["component"] == "total"]
    assert [(row["scenario"], row["error_bytes"]) for row in explained] == [("full_dup", "0")]


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
    assert "0002_cut.json" in capsys.readouterr().err


def test_other_schema_version_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of another schema version is named with the version that this program reads."""
    storage = tmp_path / "storage"
    full_run(storage)
    write_run(storage, [changed(result(storage, "no_reuse", even(40)), schema="reusebench-result-99")], number=2)
    assert run(storage, tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert "reusebench-result-99" in error
    assert "reusebench-result-1" in error


def test_several_boards_stand_beside_each_other(tmp_path: Path) -> None:
    """The folder above several boards' storages is all of them; each board has its groups, and no row is of two."""
    for board in ("board-a", "board-b"):
        full_run(tmp_path / "boards" / board, machine=machine(board=board))
    assert run(tmp_path / "boards", tmp_path / "out") == 0
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for board in ("board-a", "board-b"):
        assert f"ONNX Runtime 1.2.3, python, {board}" in html
    assert "Boards: board-b; board-a." in html
    rows = rows_of(tmp_path / "out", "comparison")
    assert {row["board"] for row in rows if row["scenario"] == "full_dup"} == {"board-a", "board-b", ""}


def test_storages_are_named_one_by_one(tmp_path: Path) -> None:
    """--storage may be repeated; the report is of all that are named."""
    arguments = ["--output", str(tmp_path / "out"), "--format", "csv"]
    for board in ("board-a", "board-b"):
        full_run(tmp_path / board, machine=machine(board=board))
        arguments += ["--storage", str(tmp_path / board)]
    assert main(arguments) == 0
    assert {row["board"] for row in rows_of(tmp_path / "out", "comparison")} == {"board-a", "board-b", ""}


def test_runs_are_chosen_and_stand_each_for_itself(tmp_path: Path) -> None:
    """--run takes numbers, with or without zeros, and `latest`; equal configurations of two runs both stand."""
    storage = tmp_path / "storage"
    for number in (1, 2, 3):
        write_run(storage, [result(storage, "no_reuse", even(40 + number))], number, at=f"2026-01-0{number}T00:00:00")
    for runs, numbers in ((["1", "0002"], ["2", "1"]), (["latest"], ["3"]), (["latest", "3"], ["3"])):
        arguments = [argument for each in runs for argument in ("--run", each)]
        assert main([*arguments, "--storage", str(storage), "--output", str(tmp_path), "--format", "csv"]) == 0
        rows = [row for row in rows_of(tmp_path, "comparison") if row["outcome"] == "ok"]
        assert [row["run_number"] for row in rows] == numbers


def test_a_run_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that no storage has ends with exit code 2 and the numbers that there are."""
    full_run(tmp_path / "storage")
    assert main(["--storage", str(tmp_path / "storage"), "--run", "7"]) == 2
    assert re.search(r"there is no run '7'\. Valid: a number, .* Stored: 1 run; numbers 1", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("formats", "written"),
    [
        (["html"], {"index.html"}),
        (["json"], {"tables"}),
        (["svg"], {"figures"}),
        (["csv", "svg", "html"], {"index.html", "tables", "figures"}),
    ],
)
def test_formats_are_chosen(tmp_path: Path, formats: list[str], written: set[str]) -> None:
    """Only what was asked for is written; tables in the formats that were named alone."""
    full_run(tmp_path / "storage")
    arguments = [argument for each in formats for argument in ("--format", each)]
    output = tmp_path / "out"
    assert main([*arguments, "--storage", str(tmp_path / "storage"), "--output", str(output)]) == 0
    assert {path.name for path in output.iterdir()} == written
    assert {path.suffix[1:] for path in output.glob("tables/*")} == set(formats) & {"csv", "md", "json"}


def test_everything_is_in_the_language_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--lang is the language of the terminal, of the page's first view and of the figures in files."""
    full_run(tmp_path / "storage")
    arguments = ["--storage", str(tmp_path / "storage"), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--lang", "zh-CN", "--format", "html", "--format", "svg"]) == 0
    chinese = texts_of("zh-CN")
    assert chinese("terminal_scenario") in capsys.readouterr().out
    assert '<html lang="zh-CN">' in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    figure = (tmp_path / "out" / "figures" / "onnx-runtime-1.2.3-python-dup-explanation.svg").read_text("utf-8")
    assert chinese.scenario("full_dup") in figure
    assert texts_of("en").scenario("full_dup") not in figure


def test_a_folder_with_one_board_is_that_board(tmp_path: Path) -> None:
    """A folder that holds one board's storage needs no further words."""
    full_run(tmp_path / "boards" / "board-a")
    assert run(tmp_path / "boards", tmp_path / "out") == 0
    assert "330.0" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_unwritable_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An output folder that cannot be made ends with exit code 2 and the option that names another."""
    full_run(tmp_path / "storage")
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "storage", tmp_path / "file" / "out") == 2
    assert "--output DIR" in capsys.readouterr().err
