from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports.base.texts import texts_of
from reports.page.opening import opening
from storage.result import Result
from tests.reports.stored import dup, even, group_of, npu_account, result, with_memory, with_speed

ENGLISH = texts_of("en")


def sentences(storage: Path, infos: Sequence[Result]) -> list[str]:
    return opening([group_of(storage, *infos)], ["here"], ENGLISH)


def full_dup(storage: Path, throughput: float = 1.0, **options: Any) -> list[Result]:
    """Return a full dup that saves 330 of 480 MiB, so much faster than its baseline."""
    baseline = result(storage, "no_reuse_one_model", even(40, spread=0.1), **options)
    faster = result(storage, "full_dup", dup(40, 10), **options)
    rates = [rate and throughput * rate for rate in faster.speed.throughput_per_s]
    return [baseline, with_speed(faster, throughput_per_s=rates)]


def test_what_saves_most_and_less_than_promised(tmp_path: Path) -> None:
    """The first sentence names the largest saving, the second what (N-1)/N would have been, of the same memory."""
    most, promise, _ = sentences(tmp_path, full_dup(tmp_path))
    assert "Full dup saves the most on here: 68.8 % of application memory above the do-nothing baseline" in most
    assert "91.7 % and 68.8 % on here" in promise


def test_a_promise_that_is_kept_is_said_to_be(tmp_path: Path) -> None:
    """Where full dup saves (N-1)/N of everything the second sentence does not deny it."""
    infos = full_dup(tmp_path)
    nothing = with_memory(infos[1], application_memory_bytes=[0] * 3, application_memory_over_baseline_bytes=[0] * 3)
    assert "cost as little as one, as promised" in sentences(tmp_path, [infos[0], nothing])[1]


def test_a_saving_within_its_spread_is_not_the_most(tmp_path: Path) -> None:
    """What repeats differ by more than it saves is no answer."""
    infos = [result(tmp_path, "no_reuse", even(40, spread=5)), result(tmp_path, "partial_dup", even(39, spread=5))]
    assert not any("saves the most" in sentence for sentence in sentences(tmp_path, infos))


def test_a_saving_that_costs_frames_is_named(tmp_path: Path) -> None:
    """The third sentence names what saves memory and is slower; where nothing is, it says so."""
    slower = sentences(tmp_path / "slower", full_dup(tmp_path / "slower", throughput=0.5))[-1]
    assert slower == "Saves memory but costs frames: Full dup (here)."
    assert sentences(tmp_path / "equal", full_dup(tmp_path / "equal"))[-1] == ENGLISH("opening_as_fast")


def test_speed_is_not_answered_where_it_cannot_be(tmp_path: Path) -> None:
    """On a busy machine, and where nothing computes, the third sentence says that and nothing of frames."""
    busy = full_dup(tmp_path / "busy", throughput=0.5, idle_cpu_percent=80.0)
    assert sentences(tmp_path / "busy", busy)[-1] == ENGLISH("opening_disturbed")
    virtual = full_dup(tmp_path / "virtual", npu=npu_account, computes=False)
    assert sentences(tmp_path / "virtual", virtual)[-1] == ENGLISH("opening_no_speed")
