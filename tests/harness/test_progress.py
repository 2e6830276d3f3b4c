"""The lines of progress in a terminal; tests/bench tests that only a terminal gets the line that is
erased.
"""

from __future__ import annotations

import time

import pytest

from reusebench.harness.progress import Progress


class _Clock:
    """A clock that only the test advances."""

    now_s = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    """Return the clock of the progress."""
    clock = _Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now_s)
    return clock


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the written lines without their blanks."""
    lines: list[str] = []
    monkeypatch.setattr(Progress, "_write", lambda _, line: lines.append(" ".join(line.split())))
    return lines


def test_the_time_left_before_the_first_process_is_what_is_expected(lines: list[str]) -> None:
    """The time left is there from the first preparation on, and shrinks with the steps."""
    progress = Progress()
    progress.expect({"onnxruntime full_dup": 20.0, "onnxruntime lean": 70.0})
    progress.prepare("onnxruntime full_dup")
    progress.begin("onnxruntime full_dup", 2, 20.0)
    progress.step(1, 0.5, "first_inference", 2)
    assert lines == [
        "onnxruntime full_dup preparing about 1 min 30 s left",
        "onnxruntime full_dup preparing about 1 min 30 s left",
        "onnxruntime full_dup repeat 1/2 first inference 3 about 1 min 25 s left",
    ]


def test_the_time_left_follows_the_pace_of_what_has_ended(lines: list[str], clock: _Clock) -> None:
    """Contexts count from 1; processes that take half the expected time halve the time left."""
    progress = Progress()
    progress.expect({"full_dup": 20.0, "lean": 20.0, "plain": 20.0})
    progress.begin("full_dup", 2, 20.0)
    progress.step(1, 0.5, "imported", None)
    clock.now_s += 5
    progress.step(2, 0.5, "steady", None)
    clock.now_s += 5
    progress.end()
    progress.result("full_dup", "12 MiB")
    progress.begin("lean", 2, 20.0)
    # A failure ends a configuration: its other process is dropped.
    progress.step(1, 0.0, "imported", None)
    clock.now_s += 5
    progress.end()
    progress.begin("plain", 2, 20.0)
    assert lines == [
        "full_dup preparing about 1 min 0 s left",
        "full_dup repeat 1/2 imported about 55 s left",
        "full_dup repeat 2/2 steady about 22 s left",
        "",
        "",
        "lean preparing about 20 s left",
        "lean repeat 1/2 imported about 20 s left",
        "",
        "plain preparing about 10 s left",
    ]


def test_a_further_repeat_adds_its_time(lines: list[str], clock: _Clock) -> None:
    """One more repeat is made since the others differ, and is expected to take as long."""
    progress = Progress()
    progress.begin("lean", 2, 20.0)
    for repeat in (1, 2, 3):
        progress.step(repeat, 0.0, "imported", None)
        clock.now_s += 10
    assert lines[-1] == "lean repeat 3, since they differ imported about 10 s left"


def test_a_configuration_that_is_not_measured_takes_no_time(lines: list[str]) -> None:
    """The expected time of a configuration without models is dropped."""
    progress = Progress()
    progress.expect({"full_dup": 20.0, "lean": 20.0})
    progress.result("full_dup", "skipped")
    progress.prepare("lean")
    progress.result("lean", "")
    progress.prepare("nothing")
    assert lines == ["", "lean preparing about 20 s left", "", "nothing preparing"]
