"""Runs of several boards: one file, in which each result has a board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

from reusebench.reports.results.grouping import group_results
from reusebench.storage.frames import load
from reusebench.storage.run_file import BOARDS, BadFile, StoredRun, read_run_file
from reusebench.storage.runs import run_of
from tests.reports.boards.stored_boards import three_boards
from tests.reports.stored import even, result, write_run


def _read(path: Path) -> StoredRun:
    file = read_run_file(path)
    assert isinstance(file, StoredRun), str(file)
    return file


def test_the_board_is_a_condition_of_each_result(tmp_path: Path) -> None:
    """A run has all its boards; comparisons, histories and data frames have the result's."""
    path = three_boards(tmp_path)
    run = run_of(_read(path))
    assert run.board == "rock5a, rock5b, pico"
    outcomes: dict[Optional[str], set[str]] = {}
    for measured in run.measured:
        outcomes.setdefault(measured.conditions["board"], set()).add(measured.outcome)
    assert outcomes == {"rock5a": {"ok"}, "rock5b": {"ok"}, "pico": {"not_measured"}}
    frame = load(path, metrics="application_memory_bytes", wide=True)
    assert set(frame.loc[frame.outcome == "ok", "board"].astype(str)) == {"rock5a", "rock5b"}


def test_a_report_shows_the_boards_apart(tmp_path: Path) -> None:
    """Each board is a group with its own machine; one that was never reached has none."""
    groups = group_results([_read(three_boards(tmp_path))])
    assert {group.board for group in groups} == {"rock5a", "rock5b"}
    for group in groups:
        assert group.newest.machine.reusebench.board == group.board
        assert {row.info.target for row in group.rows} == {group.board}


def test_a_run_of_one_board_is_read_as_before(tmp_path: Path) -> None:
    """Its results have no board of their own: it is the run's."""
    file = _read(write_run(tmp_path, [result(tmp_path, "no_reuse", even(20))]))
    assert (file.board, file.by_board()) == ("board-123456", [file])
    assert file.board_of(file.results[0].info) == "board-123456"


def test_a_board_without_a_machine_is_damage(tmp_path: Path) -> None:
    """A result of a board that the file does not have is not guessed."""
    path = three_boards(tmp_path)
    document = json.loads(path.read_bytes())
    del document[BOARDS]["rock5b"]
    path.write_text(json.dumps(document), encoding="utf-8")
    file = read_run_file(path)
    assert isinstance(file, BadFile)
    assert "'rock5b'" in str(file)
