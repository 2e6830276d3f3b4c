"""`reusebench history` on stored files."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import change_point_accuracy
from tests.helpers.support import Reusebench
from tests.reports.history.history_storage import STEP, make_history
from tests.reports.stored import machine

pytestmark = pytest.mark.process

#: The first run at the new level.
_RUNS = 24
_FIRST_NEW = 16


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of four configurations of which two rise by 4 MiB, with gaps and a new
    version.
    """
    folder = tmp_path_factory.mktemp("history")
    make_history(folder, _RUNS, 4)
    return folder


def rows_of(output: Path, table: str) -> list[dict[str, str]]:
    with (output / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_change_points_are_printed_newest_first(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """A line has figure, size, runs and confidence; the other series are counted; the pages are
    named.
    """
    done = reusebench("history", "--storage", storage, "--output", tmp_path)
    assert (done.exit_code, done.err) == (0, "")
    *changes, counted, page, chinese_page = done.out.splitlines()
    assert (
        counted
        == f"change points: {len(changes)}, in {len(changes)} series; series without any: 12"
    )
    assert page == f"History: {tmp_path / 'history.html'}"
    assert chinese_page == f"History: {tmp_path / 'history.zh-CN.html'}"
    (line,) = (
        line
        for line in changes
        if " full_dup (4 x 3, model-a): application_memory_trimmed_over_b" in line
    )
    assert " MiB (+2." in line
    assert "by 0016" in line
    assert line.endswith("; confidence >99.99 %")
    assert {path.name for path in tmp_path.iterdir()} == {"history.html", "history.zh-CN.html"}


def test_tables_have_every_run_and_every_change(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """The plain files have a row per run and series, and per change point, in all formats, with the
    run's commits.
    """
    formats = [word for name in ("csv", "json", "markdown") for word in ("--format", name)]
    chosen = ("--metric", "application_memory", *formats)
    assert reusebench("history", "--storage", storage, "--output", tmp_path, *chosen).exit_code == 0
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        f"{table}.{name}"
        for table in ("change_points", "history", "trends")
        for name in ("csv", "json", "md")
    }
    changes = rows_of(tmp_path, "change_points")
    assert {row["name"] for row in changes} == {"no_reuse", "full_dup"}
    for row in changes:
        assert float(row["change"]) == pytest.approx(STEP, rel=0.1)
        assert int(row["before_run_number"]) < _FIRST_NEW <= int(row["after_run_number"])
        assert float(row["confidence"]) >= 0.99
        assert row["after_commit"]
    runs = rows_of(tmp_path, "history")
    assert {row["metric"] for row in runs} == {"application_memory"}
    assert {row["outcome"] for row in runs} <= {"ok", "crashed"}
    begun = {(row["name"], row["level"]) for row in runs if row["is_change"] == "True"}
    assert begun == {(row["name"], row["level_after"]) for row in changes}
    assert json.loads((tmp_path / "tables" / "history.json").read_text())["table"] == "history"


def test_only_one_configuration(storage: Path, tmp_path: Path, reusebench: Reusebench) -> None:
    """--only NAME leaves that scenario alone."""
    done = reusebench(
        "history",
        "--storage",
        storage,
        "--output",
        tmp_path,
        "--only",
        "full_dup",
        "--format",
        "csv",
    )
    assert done.exit_code == 0
    assert "no_reuse" not in done.out


def test_a_file_that_cannot_be_read(tmp_path: Path, reusebench: Reusebench) -> None:
    """A damaged file is named, the others are read, and the exit code is 1; too few runs are
    told.
    """
    make_history(tmp_path, 3, 1)
    file = next(tmp_path.glob("*/0002*"))
    file.write_text(file.read_text()[:300])
    done = reusebench("history", "--storage", tmp_path, "--output", tmp_path / "out")
    assert done.exit_code == 1
    assert "0002_run.json: cannot be read" in done.err
    assert (
        "change points: 0, in 0 series; series without any: 4, of them with fewer than 4 runs"
        in done.out
    )
    assert "0002_run.json" in (tmp_path / "out" / "history.html").read_text()


def test_boards_are_series_of_their_own(
    tmp_path: Path, reusebench: Reusebench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder above two boards has the series of both, and a change is told with its board;
    --board takes one; many changes are told by board.
    """
    for board in ("board-a", "board-b"):
        make_history(tmp_path / "boards" / board, 12, 1, machine(board=board))
    arguments = [
        "--storage",
        tmp_path / "boards",
        "--output",
        tmp_path,
        "--metric",
        "application_memory",
    ]
    done = reusebench("history", *arguments, "--format", "markdown")
    assert done.exit_code == 0
    assert {line.partition(",")[0] for line in done.out.splitlines()[:-2]} == {"board-a", "board-b"}

    one = reusebench("history", *arguments, "--format", "csv", "--board", "board-b")
    assert "board-" not in one.out
    assert {row["board"] for row in rows_of(tmp_path, "history")} == {"board-b"}
    none = reusebench("history", *arguments, "--board", "board-c")
    assert none.exit_code == 2
    assert "on board-c. Name others" in none.err
    assert "on the boards: board-a, board-b" in none.err

    monkeypatch.setattr(sys.modules["reusebench.commands.history"], "_MOST_LINES", 1)
    short = reusebench("history", *arguments, "--format", "html")
    lines = short.out.splitlines()
    assert lines[0].startswith("board-a: change points: 1, in 1 of 1 series, the newest by 00")
    assert lines[2] == "boards without any of these: 0; --board NAME tells all of one board"
    page = (tmp_path / "history.html").read_text()
    assert page.partition('id="changes-boards"')[2].count('<tr class="ok">') >= 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "fill_dup"], "throughput, .* of fill_dup. Name others .*stored are: full_dup"),
        (["--metric", "memory"], "there is no metric 'memory'; the nearest is npu_memory"),
        (["--metric", "npu_memory"], "no run has figures of npu_memory"),
        (["--storage", "{folder}/none"], "no storage at .*none"),
        (["--output", "{folder}/file/out"], "cannot write the history into .*--output DIR"),
    ],
)
def test_mistakes(
    storage: Path, tmp_path: Path, words: list[str], sentence: str, reusebench: Reusebench
) -> None:
    """They end with exit code 2 and what is valid."""
    (tmp_path / "file").write_text("")
    chosen = [word.format(folder=tmp_path) for word in words]
    done = reusebench("history", "--storage", storage, "--output", tmp_path, *chosen)
    assert done.exit_code == 2
    assert re.search(f"^Error: .*{sentence}", done.err, re.MULTILINE)


def test_the_benchmark_reads_noise_and_scores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark of accuracy locates every step that is far above the noise, and says how often
    it was wrong.
    """
    values: list[dict[str, Any]] = [
        {
            "memory": {
                name: [size + number % 7 * 1000]
                for name, size in {
                    "application_memory_bytes": 50 * 2**20,
                    "application_memory_over_baseline_bytes": 20 * 2**20,
                    "application_memory_trimmed_bytes": 40 * 2**20,
                    "baseline_memory_bytes": 30 * 2**20,
                }.items()
            },
            "speed": {"latency_median_ns": [1_000_000 + number % 5]},
        }
        for number in range(100)
    ]
    file = tmp_path / "noise.jsonl"
    file.write_text("\n".join(map(json.dumps, values)))
    change_point_accuracy.main(["--histories", "2", "--noise", str(file)])
    rows = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("3 repeats, one step")
    ]
    assert len(rows) == 4
    assert all("100.0" in row for row in rows)
