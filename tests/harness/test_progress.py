"""The line of progress, as a terminal gets it; that only a terminal gets one is in tests/bench."""

from __future__ import annotations

import time

import pytest

from harness.progress import Progress


def test_configuration_repeat_step_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts count from 1; the time left is that of processes so far, times those to come, of this one the rest."""
    lines: list[str] = []
    monkeypatch.setattr(Progress, "_write", lambda _, line: lines.append(" ".join(line.split())))
    now_s = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    progress = Progress()
    progress.expect(12)
    progress.begin("onnxruntime full_dup", 2)
    progress.step(1, 0.5, "first_inference", 2)
    now_s += 10
    progress.step(2, 0.5, "steady", None)
    progress.end()
    progress.begin("onnxruntime lean", 2)
    now_s += 10
    # A failure ends a configuration: its other processes are not to come.
    progress.step(1, 0.0, "imported", None)
    progress.end()
    progress.begin("onnxruntime plain", 2)
    progress.step(1, 0.25, "imported", None)
    assert lines == [
        "onnxruntime full_dup preparing",
        "onnxruntime full_dup repeat 1/2 first inference 3",
        "onnxruntime full_dup repeat 2/2 steady about 1 min 45 s left",
        "",
        "onnxruntime lean preparing",
        "onnxruntime lean repeat 1/2 imported about 50 s left",
        "",
        "onnxruntime plain preparing",
        "onnxruntime plain repeat 1/2 imported about 26 s left",
    ]
