"""The verdict on runs of both sides."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reusebench.accounting.ledger import Buffer, Ledger, Read, Submit
from reusebench.apply.comparison.measuring import Measured
from reusebench.apply.comparison.runs import Run, Side
from reusebench.apply.comparison.task import APPLIED, AS_IT_IS
from reusebench.apply.comparison.verdict import Verdict, judge
from reusebench.recorder.program import ProgramEnding
from tests.apply.comparison.made import MIB, made_run

_EQUAL = {"a": (2, 7)}


def _verdict(as_is: list[Run], applied: list[Run], duration_s: float | None = None) -> Verdict:
    task: Any = SimpleNamespace(computes=True, duration_s=duration_s)
    checked = made_run("same", _EQUAL)
    sides = (Side(AS_IT_IS, as_is, [checked]), Side(APPLIED, applied, [checked]))
    return judge(task, Measured(*sides, Path("run.json")))


def _runs(*figures: tuple[float, float], **values: Any) -> list[Run]:
    """Return runs with these memories in MiB and times in seconds."""
    return [made_run("same", memory_mib=mib, time_s=time, **values) for mib, time in figures]


def test_what_is_saved() -> None:
    """The saving has its interval, and nothing is worse."""
    verdict = _verdict(
        _runs((985, 14.0), (990, 14.2), (980, 14.1)), _runs((473, 10.1), (470, 10.2), (476, 10.3))
    )
    first, second, last = verdict.lines()
    assert first.startswith("saves 512.0 ± ")
    assert first.endswith(" MiB of 985.0 (52 %), time 10.20 s against 14.10 (± 0.23)")
    assert second == "outputs bit-equal (2 runs of 1 model), standard output equal"
    assert last == "nothing became worse"
    assert verdict.exit_code(is_strict=True) == 0
    document = verdict.document(is_strict=True)
    assert document.verdict == "ok"
    assert document.output_equal is True
    assert document.time_ns is not None
    assert document.time_ns.outcome == "within"


def test_time_that_became_worse() -> None:
    """A change beyond the limit and beyond noise is worse; one within noise is undecided."""
    slower = _verdict(
        _runs((100, 10.0), (100, 10.1), (100, 9.9)), _runs((50, 12.0), (50, 12.1), (50, 11.9))
    )
    assert slower.problems == ["time: +20.0 ± 2.3 %, allowed 5.0"]
    assert slower.exit_code(is_strict=False) == 1
    noisy = _verdict(
        _runs((100, 10.0), (100, 14.0), (100, 7.0)), _runs((50, 12.0), (50, 8.0), (50, 13.0))
    )
    assert noisy.problems == []
    assert [doubt[:5] for doubt in noisy.doubts] == ["time:"]
    assert (noisy.exit_code(is_strict=False), noisy.exit_code(is_strict=True)) == (0, 2)


def test_the_weight_of_the_library_itself_is_no_loss() -> None:
    """A small program with nothing to share takes some pages more."""
    verdict = _verdict(_runs((5, 1.0), (5, 1.0)), _runs((6, 1.0), (6, 1.0)))
    assert verdict.problems == verdict.doubts == []
    assert next(verdict.lines()).startswith("takes 1.0 ± ")


def test_an_ending_that_it_does_not_have_by_itself() -> None:
    """A crash of the applied program is the verdict, with its last words."""
    crashed = made_run("", ending=ProgramEnding(signal_number=11), last_words="one\nlast words\n")
    verdict = _verdict(_runs((5, 1.0)), [crashed])
    assert verdict.problems[0] == (
        'as it is: exit code 0; applied: signal 11. Its last words: "last words"'
    )
    assert verdict.exit_code(is_strict=False) == 1
    hung = _verdict(_runs((5, 1.0)), _runs((5, 1.0), is_hung=True))
    assert hung.problems[0] == "as it is: exit code 0; applied: it did not end in time"


@pytest.mark.parametrize("ending", [ProgramEnding(signal_number=6), ProgramEnding(exit_code=1)])
def test_a_program_that_fails_as_it_is(ending: ProgramEnding) -> None:
    """Nothing can be told of it, even if it fails alike when applied."""
    failed = made_run("", ending=ending, last_words="no such file")
    verdict = _verdict([failed], [failed])
    assert verdict.doubts == [f'as it is: {failed.ending}. Its last words: "no such file"']
    assert verdict.exit_code(is_strict=False) == 2


def test_npu_memory_that_stays() -> None:
    """Equal bytes are no doubt; one byte more is worse."""

    def runs(held_bytes: int) -> list[Run]:
        made = made_run("same")
        made.recording.npu.add(0, held_bytes)
        return [made]

    assert not any("NPU" in doubt for doubt in _verdict(runs(4096), runs(4096)).doubts)
    assert _verdict(runs(4096), runs(4097)).problems[0].startswith("NPU memory: +0.0")


@pytest.mark.parametrize(("state", "died_ns"), [("dead", 1), ("live", None)])
def test_wrong_memory_in_the_ledger(state: str, died_ns: int | None) -> None:
    """A read of freed memory, and a buffer that is not given back, are failures."""
    buffer = Buffer(1, MIB, MIB, 0, "rknpu", 0, died_ns=died_ns)
    submit = Submit(0, 1, (1,), (Read("0x1070", 1, state, 1),))
    ledger = Ledger({1: buffer}, (submit,), "virtual")
    clean = Ledger({}, (), "virtual")
    verdict = _verdict(_runs((5, 1.0), ledger=clean), _runs((5, 1.0), ledger=ledger))
    expected = "reads memory that was freed" if state == "dead" else "not given back at the end"
    assert [expected in problem for problem in verdict.problems] == [True]
    assert verdict.exit_code(is_strict=False) == 1


def test_time_of_a_program_that_is_ended() -> None:
    """If each run has the same duration, its time is no figure."""
    runs = _runs((5, 1.0), (5, 1.0))
    assert "time" not in next(_verdict(runs, runs, duration_s=1.0).lines())


def test_a_crash_after_the_duration() -> None:
    """SIGTERM may end the program, and no other signal that it does not have as it is."""

    def ended_by(number: int) -> Run:
        run = made_run("same", ending=ProgramEnding(signal_number=number))
        run.recording.is_cut = True
        return run

    assert _verdict([ended_by(15)], [ended_by(15)], duration_s=1.0).problems == []
    crashed = _verdict([ended_by(15)], [ended_by(11)], duration_s=1.0)
    assert crashed.problems[0].startswith(
        "as it is: exit code 0 or signal 15 after its duration; applied: signal 11 after"
    )
    assert _verdict([ended_by(11)], [], duration_s=1.0).exit_code(is_strict=False) == 2
