"""`reusebench report`: stored files in; a page, tables, figures and an exit code out."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.reports.base.texts import texts_of
from tests.helpers.support import Reusebench
from tests.reports.sections.test_leaks import cycles_result
from tests.reports.stored import changed, even, full_run, machine, result, write_run
from tests.reports.stored_stacks import RKNN_MODEL, TEFLON_MODEL, rknn_results, teflon_results

pytestmark = pytest.mark.process

PAGES = {"index.html", "index.zh-CN.html"}


def formats(*names: str) -> list[str]:
    return [word for name in names for word in ("--format", name)]


def rows_of(output: Path, table: str) -> list[dict[str, str]]:
    with (output / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_report_of_a_storage(tmp_path: Path, reusebench: Reusebench) -> None:
    """The command writes page and tables, prints the answer, and names the page's path."""
    full_run(tmp_path / "storage")
    output = tmp_path / "report"
    done = reusebench("report", "--storage", tmp_path / "storage", "--output", output)
    assert (done.exit_code, done.err) == (0, "")
    assert {path.name for path in output.iterdir()} == {*PAGES, "tables"}
    index = f"Report: {output / 'index.html'}"
    assert done.out.index("dup further contexts") < done.out.index(index)
    assert "330.0" not in done.out
    arguments = ("--storage", tmp_path / "storage", "--output", output, "--details")
    assert "330.0" in reusebench("report", *arguments).out


def test_no_results(tmp_path: Path, reusebench: Reusebench) -> None:
    """A storage that is not there, or is empty, is a mistake, and the sentence says what to run."""
    for words in ("no storage at ", "no results in "):
        done = reusebench("report", "--storage", tmp_path / "storage", "--output", tmp_path / "out")
        assert (done.exit_code, done.out) == (2, "")
        assert done.err.startswith(f"Error: {words}")
        assert "Run `reusebench bench` first" in done.err
        (tmp_path / "storage").mkdir(exist_ok=True)


def test_damaged_files_are_named_and_the_rest_is_reported(
    tmp_path: Path, reusebench: Reusebench
) -> None:
    """One cut short, and one of another version of the schema; the exit code is 1."""
    storage = tmp_path / "storage"
    path = full_run(storage)
    (path.parent / "0002_cut.json").write_text(path.read_text()[:500])
    write_run(
        storage,
        [changed(result(storage, "no_reuse", even(40)), schema="reusebench-result-99")],
        number=3,
    )
    done = reusebench("report", "--storage", storage, "--output", tmp_path / "out")
    assert done.exit_code == 1
    assert (tmp_path / "out" / "index.html").exists()
    assert re.search(r"^Warning: .*0002_cut\.json: cannot be read", done.err, re.MULTILINE)
    of_another_form = (
        "its format is reusebench-result-99, and this version reads reusebench-result-2"
    )
    assert re.search(rf"^Warning: .*{of_another_form}", done.err, re.MULTILINE)


def test_several_boards(tmp_path: Path, reusebench: Reusebench) -> None:
    """Each has its groups and no row is of two, whether their folder or each storage is named."""
    boards = ("board-a", "board-b")
    for board in boards:
        full_run(tmp_path / "boards" / board, machine=machine(board=board))
    assert (
        reusebench(
            "report", "--storage", tmp_path / "boards", "--output", tmp_path / "folder"
        ).exit_code
        == 0
    )
    html = (tmp_path / "folder" / "index.html").read_text(encoding="utf-8")
    for board in boards:
        assert f"ONNX Runtime 1.2.3, {board}" in html
    assert "Boards: board-b; board-a." in html
    storages = [word for board in boards for word in ("--storage", tmp_path / "boards" / board)]
    assert (
        reusebench("report", *storages, "--output", tmp_path / "named", "--format", "csv").exit_code
        == 0
    )
    for output in (tmp_path / "folder", tmp_path / "named"):
        rows = rows_of(output, "comparison")
        assert {row["board"] for row in rows if row["scenario"] == "full_dup"} == set(boards)


def test_runs_are_chosen_and_stand_each_for_itself(tmp_path: Path, reusebench: Reusebench) -> None:
    """--run takes numbers, with or without zeros, and `latest`; equal configurations of two runs
    both stand.
    """
    storage = tmp_path / "storage"
    for number in (1, 2, 3):
        write_run(
            storage,
            [result(storage, "no_reuse", even(40 + number))],
            number,
            at=f"2026-01-0{number}T00:00:00",
        )
    command = ["report", "--storage", storage, "--output", tmp_path, "--format", "csv"]
    for runs, numbers in (
        (["1", "0002"], ["2", "1"]),
        (["latest"], ["3"]),
        (["latest", "3"], ["3"]),
    ):
        assert (
            reusebench(*command, *(word for run in runs for word in ("--run", run))).exit_code == 0
        )
        rows = [row for row in rows_of(tmp_path, "comparison") if row["outcome"] == "ok"]
        assert [row["run_number"] for row in rows] == numbers
    done = reusebench(*command, "--run", "7")
    assert done.exit_code == 2
    assert re.match(
        r"Error: there is no run '7'\. Valid: a number, .* Stored: 3 runs; numbers 1", done.err
    )


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (["html"], PAGES),
        (["json"], {"tables"}),
        (["svg"], {"figures"}),
        (["csv", "svg", "html"], {*PAGES, "tables", "figures"}),
    ],
)
def test_formats_are_chosen(
    tmp_path: Path, names: list[str], written: set[str], reusebench: Reusebench
) -> None:
    """Only what was named is written; tables in the formats that were named alone."""
    full_run(tmp_path / "storage")
    output = tmp_path / "out"
    assert (
        reusebench(
            "report", "--storage", tmp_path / "storage", "--output", output, *formats(*names)
        ).exit_code
        == 0
    )
    assert {path.name for path in output.iterdir()} == written
    assert {path.suffix[1:] for path in output.glob("tables/*")} == set(names) & {
        "csv",
        "md",
        "json",
    }


def test_everything_is_in_the_language_of_the_user(tmp_path: Path, reusebench: Reusebench) -> None:
    """--lang is the language of the terminal, of the page's first view and of the figures in
    files.
    """
    full_run(tmp_path / "storage")
    arguments = ["--storage", tmp_path / "storage", "--output", tmp_path / "out", "--lang", "zh-CN"]
    done = reusebench("report", *arguments, *formats("html", "svg"), "--details")
    assert done.exit_code == 0
    chinese = texts_of("zh-CN")
    assert chinese("terminal_scenario") in done.out
    assert '<html lang="zh-CN">' in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    figure = (tmp_path / "out" / "figures" / "onnx-runtime-1.2.3-dup-explanation.svg").read_text(
        "utf-8"
    )
    assert chinese.scenario("full_dup") in figure
    assert texts_of("en").scenario("full_dup") not in figure


def test_output_that_cannot_be_written(tmp_path: Path, reusebench: Reusebench) -> None:
    """It is a mistake, and the sentence names the option."""
    full_run(tmp_path / "storage")
    (tmp_path / "file").write_text("")
    done = reusebench(
        "report", "--storage", tmp_path / "storage", "--output", tmp_path / "file" / "out"
    )
    assert done.exit_code == 2
    assert re.match(r"Error: cannot write the report into .*--output DIR$", done.err)


def test_leaks_at_the_rates_of_the_user(tmp_path: Path, reusebench: Reusebench) -> None:
    """The same stored cycles are level or not by the limit that is given; a wrong one is named."""
    write_run(tmp_path, [cycles_result(tmp_path)])
    options = ("report", "--storage", tmp_path, "--output", tmp_path / "out", "--format", "csv")
    told = " ".join(reusebench(*options, "--details").out.split())
    assert "Nothing grows in 25 cycles" in told
    assert "no leak was found" in told
    assert "30 inferences in each second, and 60 cycles of the other kinds in each hour" in told
    strict = reusebench(*options, "--leak-cycles", "6000", "--leak-limit", "1KiB", "--details").out
    assert "whether memory leaks cannot be told yet" in " ".join(strict.split())
    assert "less than 1.0 KiB a day" in " ".join(strict.split())
    wrong = reusebench(*options, "--leak-limit", "much")
    assert wrong.exit_code == 2
    assert "is not a size; valid: a number with B, KiB" in " ".join(wrong.err.split())


def test_two_stacks_with_files_of_other_names(tmp_path: Path, reusebench: Reusebench) -> None:
    """The user says which models are one network; the terminal has their leanest layouts."""
    rknn = replace(RKNN_MODEL, name="yolo", origin=None)
    teflon = replace(TEFLON_MODEL, name="yolo_full_integer", origin=None)
    write_run(tmp_path, rknn_results(tmp_path, rknn), 1)
    write_run(tmp_path, teflon_results(tmp_path, teflon), 2, at="2026-01-02T00:00:00")
    options = ("report", "--storage", tmp_path, "--output", tmp_path / "out", "--format", "csv")
    assert "Side by side" not in reusebench(*options).out
    paired = reusebench(*options, "--network", "yolo_full_integer=yolo")
    assert "Side by side: yolo on rk3588 at least: RKNN 54.00 MiB" in " ".join(paired.out.split())
    assert {row["network"] for row in rows_of(tmp_path / "out", "side_by_side")} == {"yolo"}
    wrong = reusebench(*options, "--network", "yolo")
    assert wrong.exit_code == 2
    assert "'yolo' is not valid; valid: MODEL=NETWORK" in " ".join(wrong.err.split())
