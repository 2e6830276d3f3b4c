"""The table of trials on a terminal."""

from __future__ import annotations

import pytest

from harness.trial_lines import TrialLines
from storage.mechanisms import Trial

_MIB = 2**20


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        (
            Trial("full_dup", "works", "", 3 * _MIB, 0, 12 * _MIB),
            ["full_dup", "works", "3.0 of 12.0 MiB, 25 %"],
        ),
        (
            Trial("full_dup", "works", "", 3 * _MIB, 0, 12 * _MIB, "npu"),
            ["full_dup", "works", "3.0 of 12.0 MiB, 25 % (NPU)"],
        ),
        (
            Trial("zero_copy_io", "works", "", 0, 0, 12 * _MIB, copies_avoided_bytes=_MIB // 2),
            ["zero_copy_io", "works", "0.0 of 12.0 MiB, 0 %", "an inference copies 512 KiB less"],
        ),
        (
            Trial("lean", "works", "", 3 * _MIB, 0, 12 * _MIB, combined=("full_dup", "zero_copy_io")),
            ["lean", "works", "3.0 of 12.0 MiB, 25 %", "full_dup + zero_copy_io"],
        ),
        (
            Trial("device_io", "saves_nothing", "it takes as much", -3 * _MIB, 0, 12 * _MIB),
            ["device_io", "saves nothing", "-3.0 of 12.0 MiB, -25 %", "it takes as much"],
        ),
        (
            Trial("device_io", "saves_nothing", "it takes as much", -9, 20, 12 * _MIB),
            ["device_io", "saves nothing", "0.0 of 12.0 MiB, 0 %", "it takes as much"],
        ),
        (Trial("device_io", "not_supported", "none here"), ["device_io", "not supported", "none here"]),
        (Trial("device_io", "fails", "in two\n  lines"), ["device_io", "fails", "in two lines"]),
        (Trial("device_io", "fails", "x" * 300), ["device_io", "fails", f"{'x' * 200} ..."]),
    ],
)
def test_a_line_of_each_verdict(capsys: pytest.CaptureFixture[str], trial: Trial, words: list[str]) -> None:
    """The mechanism, what came of it, the saving where there is a figure, and a remark on one line."""
    TrialLines().tell(trial)
    line = capsys.readouterr().out
    assert [part.strip() for part in line.split("  ") if part.strip()] == words
    assert line.count("\n") == 1


def test_the_head_of_a_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    """Each runtime has its own table; one that cannot be tried has a line."""
    TrialLines().begin("onnxruntime", "python:/some/python")
    TrialLines().cannot_try("rknn", "it has no models")
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "onnxruntime, --target python:/some/python"
    assert second.split("  ")[0] == "mechanism"
    assert third == "rknn is not tried: it has no models"
