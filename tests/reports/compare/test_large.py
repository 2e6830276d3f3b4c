"""Comparisons of many rows: what changed is shown, the rest is counted; boards are told apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reusebench.reports.compare.changes import Changes, compare_runs
from reusebench.reports.compare.comment import as_markdown
from reusebench.reports.compare.records import as_csv, comparison_document
from reusebench.reports.compare.sides import side
from reusebench.reports.compare.text import as_text
from reusebench.storage.metrics import find_metric
from reusebench.storage.runs import Measured
from tests.reports.compare.short_runs import FULL_DUP, MIB, SHORT, compared, measured, run

MEMORY = find_metric("application_memory")
LATENCY = find_metric("latency")
#: A name, and MiB before and after.
_SAME = [(f"plan_{number}", 50.0, 50.0) for number in range(498)]


def on_board(board: str, mib: float, name: str = "full_dup", outcome: str = "ok") -> Measured:
    """Return a configuration that was measured on a board."""
    values = {"application_memory": [mib * MIB] * 3}
    return measured(values, replace(FULL_DUP, name=name), outcome, board=board)


def between(base: Sequence[Measured], head: Sequence[Measured]) -> Changes:
    """Return the comparison of two runs that may have several boards."""
    return compare_runs([run(1, *base)], [run(2, *head)], [], [MEMORY])


def names_in(text: str) -> list[str]:
    """Return the names in the rows of tables, in their order."""
    return re.findall(r"^(\S+(?: on \S+)?) {2,}.*\([0-9]+\)", text, re.MULTILINE)


def test_a_large_comparison_shows_what_changed() -> None:
    """Worse rows come first, the largest change before others; the rest is one line."""
    changes, _ = compared([*_SAME, ("better", 50, 30), ("worse", 50, 60), ("worst", 50, 90)])
    text = as_text(changes, None)
    assert names_in(text) == ["worst", "worse", "better"]
    assert text.splitlines()[-1] == (
        "501 compared: 2 higher, 1 lower, 498 without a change that could be shown; --all shows"
        " every row"
    )


def test_all_rows_are_shown_on_request() -> None:
    """They are in the order of the runs."""
    changes, _ = compared([("worse", 50, 60), *_SAME])
    text = as_text(changes, None, shows_all=True)
    assert names_in(text) == ["worse", *(name for name, *_ in _SAME)]
    assert "--all" not in text


@pytest.mark.parametrize(("count", "shown"), [(20, 20), (21, 1)])
def test_a_small_comparison_is_shown_as_a_whole(count: int, shown: int) -> None:
    """Up to 20 rows are a table that a reader takes in."""
    changes, _ = compared([("worse", 50, 60), *_SAME[: count - 1]])
    assert len(names_in(as_text(changes, None))) == shown


def test_nothing_changed_in_a_large_comparison() -> None:
    """There is no table, and no empty one."""
    text = as_text(compared(_SAME)[0], None)
    assert names_in(text) == []
    assert "verdict" not in text
    assert "498 compared: 498 without a change" in text


def test_changes_without_a_verdict_come_last() -> None:
    """A change on a busy machine is shown; a figure that stayed there is counted only."""
    sides = []
    for slower, busy in ((1.0, 0.0), (3.0, 50.0)):
        levels = [(name, 1.0, busy) for name, *_ in _SAME[:30]]
        levels += [("busy", 2 * slower, busy), ("slower", slower, 0.0), ("faster", 1 / slower, 0.0)]
        side_values = []
        for name, factor, busy_percent in levels:
            values = {"latency": [factor * 20e6] * 3}
            configuration = replace(FULL_DUP, name=name)
            side_values.append(measured(values, configuration, busy_percent=busy_percent))
        sides.append(side_values)
    base, head = (run(number, *each) for number, each in enumerate(sides, start=1))
    text = as_text(compare_runs([base], [head], [], [LATENCY]), None)
    assert names_in(text) == ["slower", "faster", "busy"]
    assert "31 of speed on a busy machine, without a verdict" in text
    short, _ = compared([*_SAME, ("worse", 50, 60)], shortage_signs=SHORT)
    assert names_in(as_text(short, None)) == ["worse"]
    assert "499 measured while memory was short" in as_text(short, None)


def test_a_large_comment_counts_the_rows_without_a_change() -> None:
    """The folded table of a small one would be longer than a reader reads."""
    levels = [*_SAME, ("worse", 50, 90)]
    text = as_markdown(*compared(levels, ["application_memory:30%"]))
    assert "- 498 without a change that could be shown; --all shows every row" in text
    assert "plan_1`" not in text
    whole = as_markdown(*compared(levels, ["application_memory:30%"]), shows_all=True)
    assert "<summary>498 without a change that could be shown</summary>" in whole
    assert "`plan_1`" in whole


def test_forms_for_programs_have_every_row() -> None:
    """CSV and JSON do not depend on the number of rows."""
    changes, _ = compared([*_SAME, ("worse", 50, 90)])
    assert len(as_csv(changes, None).splitlines()) == 1 + 499
    assert len(comparison_document(changes, None)["changes"]) == 499


def test_each_board_is_compared_with_itself() -> None:
    """A configuration of several boards has a row for each, with the board's name."""
    base = [on_board("rock", 50), on_board("pico", 20)]
    head = [on_board("rock", 50), on_board("pico", 30)]
    changes = between(base, head)
    assert not changes.differing
    text = as_text(changes, None)
    assert names_in(text) == ["full_dup on rock", "full_dup on pico"]
    (worse,) = (change for change in changes.rows if change.is_worse)
    assert worse.subject.board == "pico"
    records = comparison_document(changes, None)["changes"]
    assert [record["board"] for record in records] == ["rock", "pico"]
    assert "application memory of full_dup on pico" in as_markdown(changes, None)


def test_one_board_is_not_named_in_rows() -> None:
    """The line of the side names it; records have it."""
    changes = between([on_board("rock", 50)], [on_board("rock", 50)])
    assert names_in(as_text(changes, None)) == ["full_dup"]
    assert comparison_document(changes, None)["changes"][0]["board"] == "rock"


def test_a_board_that_fails_now_is_told_beside_one_that_does_not() -> None:
    """The good board of a run hides no other."""
    base = [on_board("rock", 50), on_board("pico", 20)]
    head = [on_board("rock", 50), on_board("pico", 0, outcome="crashed")]
    changes = between(base, head)
    (lost,) = changes.unmeasured
    assert (str(lost.subject), lost.is_broken) == (f"{FULL_DUP} on pico", True)
    assert len(changes.rows) == 1


def test_a_board_that_only_one_side_has_is_listed() -> None:
    """It is no reason to compare two boards with each other."""
    changes = between([on_board("rock", 50), on_board("pico", 20)], [on_board("rock", 51)])
    assert [change.subject.board for change in changes.rows] == ["rock"]
    assert "only in the base: onnxruntime full_dup on pico" in as_text(changes, None)


def test_two_boards_are_compared_on_request_alone() -> None:
    """Sides without a common board are refused, unless the user lets the board differ."""
    base, head = run(1, on_board("rock", 50)), run(2, on_board("pico", 50))
    (differing,) = compare_runs([base], [head], [], [MEMORY]).differing
    assert differing.conditions == {"board": ("rock", "pico")}
    (row,) = compare_runs([base], [head], [], [MEMORY], ["board"]).rows
    assert row.subject.board == "pico"


def test_many_with_the_same_difference_are_one_line() -> None:
    """A new version of a runtime is told once, and not for each configuration."""
    base, head = (
        [
            measured(
                {"application_memory": [1]}, replace(FULL_DUP, name=name), runtime_version=text
            )
            for name, *_ in _SAME
        ]
        for text in ("1.0", "1.1")
    )
    refused = compare_runs([run(1, *base)], [run(2, *head)], [], [MEMORY])
    line = f"498 such as {base[0].configuration}: runtime_version 1.0 -> 1.1"
    text = as_text(refused, None)
    assert text.count("not compared:") == 1
    assert f"not compared: {line}" in text
    allowed = compare_runs([run(1, *base)], [run(2, *head)], [], [MEMORY], ["runtime_version"])
    assert f"compared although they differ: {line}" in as_text(allowed, None)
    assert len(allowed.rows) == 498


def test_a_side_of_many_runs_names_the_first() -> None:
    """Runs of one name are named once, and of many boards the first three."""
    runs = [
        replace(run(7, on_board(board, 50)), boards=(board,)) for board in ("a", "b", "c", "d", "e")
    ]
    words = side(runs)
    assert words.startswith(f"{runs[0]}, 2026-01-01 07:00, commit 000")
    assert words.endswith(", boards a, b, c and 2 more")
    assert side(runs[:1]).endswith(", board a")
    assert side([replace(runs[0], boards=("a", "b"))]).endswith(", boards a, b")
