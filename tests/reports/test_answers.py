from __future__ import annotations

from pathlib import Path

from reports.answers import answers, warnings
from reports.texts import texts_of
from tests.reports.stored import FAILED, dup, even, result, write_run
from tests.reports.test_comparison import groups_of

ENGLISH = texts_of("en")


def answer(storage: Path) -> str:
    (sentence,) = answers(groups_of(storage)[0].rows, ENGLISH)
    return sentence


def test_a_saving_is_said_with_its_whole_and_spread(tmp_path: Path) -> None:
    """The sentence names what is saved, of how much, against what, in both percentages."""
    write_run(
        tmp_path,
        [result(tmp_path, "no_reuse_one_model", even(40, spread=0.25)), result(tmp_path, "full_dup", dup(40, 10))],
    )
    assert answer(tmp_path).startswith(
        "Full dup saves 330.0 MiB ±3.0 of 510.0 MiB application memory against No reuse, one model: 64.7 %, or 68.8 %"
    )


def test_a_saving_within_the_spread_is_no_saving(tmp_path: Path) -> None:
    """A difference that is smaller than the spreads of both is not called a saving."""
    write_run(
        tmp_path,
        [result(tmp_path, "no_reuse_one_model", even(40, spread=1)), result(tmp_path, "full_dup", even(39.5))],
    )
    assert answer(tmp_path).startswith("Full dup saves nothing that these repeats could show: 6.0 MiB ±12.0")


def test_a_cost_is_said_as_a_cost(tmp_path: Path) -> None:
    """A mechanism that takes more memory than its baseline is said to."""
    write_run(tmp_path, [result(tmp_path, "no_reuse_one_model", even(40)), result(tmp_path, "full_dup", even(41))])
    assert answer(tmp_path).startswith("Full dup takes 12.0 MiB ±0.0 more application memory")


def test_a_missing_baseline_is_said(tmp_path: Path) -> None:
    """Without its baseline in the storage a scenario is not compared, and the sentence says what to run."""
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10))])
    assert "its baseline No reuse, one model with the same models is not in this storage" in answer(tmp_path)


def test_a_failure_is_said(tmp_path: Path) -> None:
    """A configuration that failed has a sentence too, with what happened."""
    write_run(tmp_path, [result(tmp_path, "full_dup", [], failure=FAILED)])
    assert answer(tmp_path) == "Full dup: crashed: the process was ended by SIGSEGV"


def test_a_busy_machine_is_warned_of(tmp_path: Path) -> None:
    """Other work before the processes started is said, with what to do; a quiet machine gives no warning."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))])
    assert warnings(groups_of(tmp_path)[0], ENGLISH) == []
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40), idle_cpu_percent=55.0)], number=2, at="2026-02-02")
    (warning,) = warnings(groups_of(tmp_path)[0], ENGLISH)
    assert "55 % busy" in warning


def test_a_single_repeat_is_warned_of(tmp_path: Path) -> None:
    """Figures of one process alone are said to have no spread."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40, repeats=1))])
    (warning,) = warnings(groups_of(tmp_path)[0], ENGLISH)
    assert "--repeats 3" in warning
