from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from reports.terminal import print_group
from reports.texts import texts_of
from tests.reports.stored import full_run, npu_run
from tests.reports.test_comparison import groups_of


def printed(storage: Path) -> str:
    """Return what a terminal of 80 characters shows."""
    console = Console(file=io.StringIO(), width=80)
    for group in groups_of(storage):
        print_group(group, texts_of("en"), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("computes", [False, True])
def test_npu_memory_fits_a_terminal(tmp_path: Path, computes: bool) -> None:
    """Every scenario stands on one line of 80 characters with its NPU memory, what is saved of it, and nothing cut."""
    npu_run(tmp_path, computes=computes)
    text = printed(tmp_path)
    line = next(line for line in text.splitlines() if line.startswith("full_dup_internal_reuse"))
    assert line.split()[2:6] == ["34.00", "86.00", "71.7", "1,110.0"]
    assert "…" not in text
    assert ("latency" in text) == computes
    assert ("Virtual board" in text) != computes


def test_application_memory_and_speed_elsewhere(tmp_path: Path) -> None:
    """Where there is no NPU the table is that of application memory, with latency and rate."""
    full_run(tmp_path)
    heads = printed(tmp_path).splitlines()[1].split()
    assert heads == ["application", "saved", "saved", "system", "latency", "rate"]
