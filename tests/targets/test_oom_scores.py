"""The scores by which the kernel kills when memory runs out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reusebench.targets.process import LocalProcess

pytestmark = pytest.mark.process

_OWN = Path("/proc/self/oom_score_adj")
_TELL = "import subprocess; subprocess.run(['cat', '/proc/self/oom_score_adj']); input()"


def test_the_measured_process_is_the_first_and_the_harness_the_last(tmp_path: Path) -> None:
    """Children of the process inherit its score; the harness has its old score again at the end."""
    before = _OWN.read_text()
    process = LocalProcess(
        (sys.executable, "-c", "input();" + _TELL), tmp_path, {}, keeps_ledger=False
    )
    try:
        process.send(b"\n")
        assert process.receive(20) == b"1000\n"
        assert int(_OWN.read_text()) in (-999, int(before))  # only root may lower it
    finally:
        process.close()
    assert _OWN.read_text() == before
