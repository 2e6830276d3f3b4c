"""The terminal's line for a finished configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from reusebench.harness.result_text import equal_text, is_equal, result_text
from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import Placement
from reusebench.storage.result import PAGES, PSS, Result
from reusebench.targets.outcome import Failure
from tests.reports.stored import (
    MIB,
    MODELS,
    NOT_SUPPORTED,
    changed,
    even,
    npu_account,
    result,
    with_memory,
    with_short_memory,
    with_speed,
)
from tests.reports.stored_streams import streams_result


@pytest.fixture
def baseline(tmp_path: Path) -> Result:
    """Return a result of 100 MiB, give or take 2."""
    return _of_memory(tmp_path, "no_reuse_one_model", 98, 100, 102)


def _of_memory(storage: Path, scenario: str, *mib: float) -> Result:
    stored = result(storage, scenario, [[0] * 12] * len(mib))
    slow = with_speed(stored, latency_median_ns=[40_000_000] * len(mib))
    return with_memory(slow, application_memory_bytes=[round(size * MIB) for size in mib])


def test_memory_saving_and_speed(tmp_path: Path, baseline: Result) -> None:
    """The line has the median with its spread, the saving against the baseline, and the latency."""
    own = _of_memory(tmp_path, "full_dup", 25.0, 25.2, 25.1)
    assert (
        result_text(own, baseline)
        == "25.1 ±0.1 MiB, 74.9 % less than No reuse, one model, 40.00 ±0.00 ms"
    )
    assert result_text(baseline, None) == "100.0 ±2.0 MiB, 40.00 ±0.00 ms"
    assert result_text(own, None) == "25.1 ±0.1 MiB, 40.00 ±0.00 ms"


@pytest.mark.parametrize("on_npu", [{}, {"CONV_2D": 1}], ids=["none", "some"])
def test_a_model_that_the_npu_does_not_run(baseline: Result, on_npu: dict[str, int]) -> None:
    """The line says so; what is in part on the NPU has no remark."""
    model = baseline.plan.models[0]
    placement = Placement(on_npu, {"SOFTMAX": 1}, len(on_npu), 0)
    placed = replace(baseline, placements={model.digest: placement})
    remark = f"NOTE: no operator of {model.name} runs on the NPU"
    assert (remark in result_text(placed, None)) == (not on_npu)


@pytest.mark.parametrize("count", [2, 3])
def test_several_models_have_several_latencies(tmp_path: Path, count: int) -> None:
    """Two are named; of more the lowest and the highest are shown."""
    info = result(tmp_path, "no_reuse", even(10, repeats=2), models=MODELS[:count])
    latencies = tuple((number + 1) * 10**6 for number in range(count))
    timed = with_speed(info, latency_median_ns=[None] * 2, model_latency_ns=[latencies] * 2)
    named = f"{MODELS[0].name} 1.00 ±0.00 ms, {MODELS[1].name} 2.00 ±0.00 ms"
    words = named if count == 2 else "1.00 ... 3.00 ms"
    assert result_text(timed, None).endswith(f" MiB, {words}")


def test_a_baseline_is_called_what_it_was_measured_as(tmp_path: Path) -> None:
    """A result that is equal to another scenario has no line; the saving names the scenario with
    the line.
    """
    plain = changed(_of_memory(tmp_path, "plain", 99.9, 100.1), measured_as="no_reuse_one_model")
    for mib, words in (
        (25.0, "75.0 % less than"),
        (100.0, "as much as"),
        (200.0, "100.0 % more than"),
    ):
        own = _of_memory(tmp_path, "lean", mib - 0.1, mib + 0.1)
        assert f"{words} No reuse, one model" in result_text(own, plain)


def test_equal_scenarios_are_named_once(baseline: Result) -> None:
    """Each equal scenario stands with the one that has its line; runtimes are named if not all have
    it.
    """
    mnn = changed(baseline, runtime="mnn")
    plain = changed(baseline, scenario="plain", measured_as=baseline.scenario)
    assert equal_text([baseline]) == ""
    words = "Equal to others, and measured once: Plain (as No reuse, one model)"
    assert (
        equal_text([baseline, plain])
        == equal_text([baseline, plain, mnn, changed(plain, runtime="mnn")])
        == words
    )
    lean = changed(plain, scenario="lean", runtime="mnn", measured_as="full_dup")
    assert (
        equal_text([baseline, plain, mnn, lean])
        == f"{words} on onnxruntime; Lean (as Full dup) on mnn"
    )


def test_what_failed_or_is_asked_for_again_has_its_line(baseline: Result) -> None:
    """A failure has a line of its own, and so has its equal."""
    failed = changed(
        baseline, measured_as="no_reuse", outcome="not_supported", failure=NOT_SUPPORTED
    )
    again = changed(baseline, measured_as=baseline.scenario)
    assert not is_equal(failed)
    assert not is_equal(again)
    assert equal_text([baseline, failed, again]) == ""


@pytest.mark.parametrize(
    ("mib", "words"),
    [
        ((98.5, 99.5), "as much as No reuse, one model, as far as can be measured"),
        ((109.9, 110.1), "10.0 % more than No reuse, one model"),
        ((100.0,), "as much as No reuse, one model, as far as can be measured"),
    ],
)
def test_what_is_not_saved(
    tmp_path: Path, baseline: Result, mib: tuple[float, ...], words: str
) -> None:
    """A difference that is no larger than both spreads is none; more memory is called more."""
    assert words in result_text(_of_memory(tmp_path, "full_dup", *mib), baseline)


def test_npu_memory_comes_first(tmp_path: Path) -> None:
    """With NPU memory the saving is the NPU's; it has two decimals, since it is counted."""
    whole, own = (
        with_memory(
            result(tmp_path, name, [[MIB] * 12] * 2, npu=npu_account, computes=False),
            npu_memory_bytes=[size * MIB] * 2,
        )
        for name, size in (("no_reuse_one_model", 120), ("full_dup", 30))
    )
    assert (
        result_text(own, whole)
        == "30.00 ±0.00 MiB NPU memory, 75.0 % less than No reuse, one model"
    )


def test_streams_say_how_many_frames_they_kept(tmp_path: Path) -> None:
    """Streams have their rate out of the frames that are due in a second."""
    text = result_text(streams_result(tmp_path, "streams_full_dup"), None)
    assert text.endswith("44.0 ±0.0 of 120 frames/s")


def test_failures_are_said_in_words(baseline: Result) -> None:
    """A missing mechanism is no failure; a failure tells its phase."""
    message = Message("process_ended_by_signal", {"signal": "SIGKILL"})
    for kind, words in (
        ("not_supported", "not supported: "),
        ("crashed", "crashed in phase 'steady'"),
    ):
        failed = changed(baseline, outcome=kind, failure=Failure(kind, "steady", None, message))
        text = result_text(failed, None)
        assert text.startswith(words)
        assert "SIGKILL" in text


def test_short_memory_is_said(tmp_path: Path) -> None:
    """Figures that read too small come with the reason."""
    short = with_short_memory(_of_memory(tmp_path, "full_dup", 25.0, 25.2))
    assert result_text(short, None).endswith(
        "MEMORY WAS SHORT, its figures are too small: 30.0 MiB of its mapped files were evicted"
    )


def test_short_memory_leaves_npu_memory_exact(tmp_path: Path) -> None:
    """A figure of a ledger is not called too small."""
    text = result_text(
        with_short_memory(result(tmp_path, "full_dup", even(1), npu=npu_account)), None
    )
    assert "NPU memory is exact: 30.0 MiB of its mapped files were evicted" in text
    assert "too small" not in text


def test_a_remark_stands_beside_the_memory_that_it_concerns(tmp_path: Path) -> None:
    """Sharers change PSS alone, not memory whose pages count once each, nor that of an NPU."""
    sharers = Message("sharers_changed", {"mib": "9.4"})
    children = Message("children_counted", {"count": 1, "mib": "5.0"})

    def notes(stored: Result, counted_by: str = PAGES) -> list[str]:
        repeats = tuple(replace(one, remarks=(sharers, children)) for one in stored.repeats)
        remarked = changed(stored, repeats=repeats, counted_by=counted_by)
        return result_text(remarked, None).split("NOTE: ")[1:]

    own = _of_memory(tmp_path, "full_dup", 25.0, 25.2)
    assert notes(own) == [str(children)]
    assert notes(own, PSS) == [f"{sharers}, ", str(children)]
    assert notes(result(tmp_path, "full_dup", even(1), npu=npu_account)) == []


def test_outputs_that_are_not_compared_are_said(tmp_path: Path) -> None:
    """The line of a result has the reason."""
    own = _of_memory(tmp_path, "full_dup", 25.0, 25.2)
    reason = Message("outputs_vary_by_operators", {"operators": "Multinomial"})
    text = result_text(changed(own, not_compared={own.models[0].digest: reason}), None)
    assert "outputs not compared: the model has Multinomial" in text
