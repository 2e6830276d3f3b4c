"""The printed summary of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.recorder.summary import print_summary
from reusebench.storage.measured_figure import DOUBT
from tests.reports.stored_programs import Repeat, program


@pytest.mark.parametrize("is_short", [False, True])
def test_short_memory(is_short: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence gives the reason; all figures are marked except those of an NPU."""
    signs = (Message("shortage_swapped", {"mib": "5.0"}),) if is_short else ()
    print_summary(
        program("pipeline", [Repeat({"run": 20}, npu=True, signs=signs)]),
        Path("run.json"),
        Path("storage"),
    )
    printed = capsys.readouterr().err
    (row,) = (line for line in printed.splitlines() if line.startswith("run "))
    assert row.count(DOUBT) == (5 if is_short else 0)
    assert not row.endswith(DOUBT)
    assert (
        ("MEMORY WAS SHORT" in printed)
        is ("5.0 MiB of its memory were swapped out" in printed)
        is is_short
    )
