"""Programs with the preload library of apply, and as they are, on the virtual board."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest

from reusebench.accounting.ledger import Ledger, read_ledger
from reusebench.apply.report import ProcessReport, read_reports
from reusebench.targets.errors import TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.programs import APPLY
from reusebench.targets.resolve import user_board
from tests.helpers.support import CHECKOUT, PROGRAM_LIMIT_S

__all__ = ["BoardRun", "as_is_and_applied"]


@dataclass(frozen=True)
class BoardRun:
    """A program on the virtual board: its output, its NPU memory, and the report."""

    output: str
    ledger: Ledger
    report: Optional[ProcessReport]

    @property
    def left_bytes(self) -> int:
        """NPU memory at the end."""
        return self.ledger.live_bytes(self.ledger.timeline()[-1][0])

    @property
    def used_bytes(self) -> int:
        """The most NPU memory that there was when a job began."""
        return max(self.ledger.live_bytes(submit.at_ns) for submit in self.ledger.submits)


def as_is_and_applied(
    folder: Path, chip: str, architecture: str, script: Path, models: Sequence[str]
) -> tuple[BoardRun, BoardRun]:
    """Run the script of Python on both sides; skip the test if the board or its library lack."""
    if not APPLY.is_built(architecture):
        pytest.skip(f"no library of apply for {architecture} in the user's cache")
    words = ["python3", str(script), *models]
    library = str(APPLY.path(architecture))
    try:
        return (
            _run(folder / "as_is", chip, words, []),
            _run(folder / "applied", chip, words, [library]),
        )
    except TargetError as error:
        pytest.skip(str(error))


def _run(folder: Path, chip: str, words: Sequence[str], preloaded: Sequence[str]) -> BoardRun:
    folder.mkdir()
    variables = {
        "LD_PRELOAD": ":".join(preloaded),
        "PYTHONPATH": str(CHECKOUT / "src"),
        "REUSEBENCH_APPLY_REPORT": str(folder / "report"),
        "REUSEBENCH_LEDGER": str(folder / "ledger"),
    }
    board = user_board(f"vboard:{chip}", None, words, Reach())
    command, environment = board.confine(words, variables, Reach(tuple(preloaded), (str(folder),)))
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reports = read_reports(folder / "report")
    ledger = read_ledger((folder / "ledger").read_bytes())
    return BoardRun(done.stdout, ledger, reports[0] if reports else None)
