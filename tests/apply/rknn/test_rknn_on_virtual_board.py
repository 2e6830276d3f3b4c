"""The preload library of apply with Rockchip's own librknnrt on the virtual board.

The tests need the library in the user's cache, models of its chips, `reusebench board install`,
and the library of apply, which the first `reusebench apply --target vboard:...` compiles.
"""

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
from reusebench.system.cache import cache_root
from reusebench.targets.errors import TargetError
from reusebench.targets.machine import Reach
from reusebench.targets.programs import APPLY
from reusebench.targets.resolve import user_board
from tests.helpers.support import CHECKOUT, PROGRAM_LIMIT_S

pytestmark = pytest.mark.process

_PROGRAM = Path(__file__).with_name("inference.py")
_CACHE = cache_root()  # the user's, which tests do not have later
_ARCHITECTURE = "aarch64"


@dataclass(frozen=True)
class Run:
    """A program on the virtual board: its output, its NPU memory, and the report."""

    output: str
    ledger: Ledger
    report: Optional[ProcessReport]

    @property
    def left_bytes(self) -> int:
        """NPU memory at the end."""
        return self.ledger.live_bytes(self.ledger.timeline()[-1][0])


def _models(chip: str, count: int) -> list[str]:
    found = sorted((_CACHE / "models").glob(f"tiny-*-seed1-{chip}-toolkit*.rknn"))
    if not APPLY.is_built(_ARCHITECTURE) or len(found) < count:
        pytest.skip(f"no models for {chip}, or no library of apply, in the user's cache")
    return [*map(str, found[:count])]


def _run(folder: Path, chip: str, models: Sequence[str], is_applied: bool) -> Run:
    folder.mkdir()
    words = ["python3", str(_PROGRAM), *models]
    preloaded = (str(APPLY.path(_ARCHITECTURE)),) if is_applied else ()
    variables = {
        "LD_PRELOAD": ":".join(preloaded),
        "PYTHONPATH": str(CHECKOUT / "src"),
        "REUSEBENCH_APPLY_REPORT": str(folder / "report"),
        "REUSEBENCH_LEDGER": str(folder / "ledger"),
    }
    try:
        board = user_board(f"vboard:{chip}", None, words, Reach())
        reach = Reach((*preloaded, *models), (str(folder),))
        command, environment = board.confine(words, variables, reach)
    except TargetError as error:
        pytest.skip(str(error))
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
    return Run(done.stdout, ledger, reports[0] if reports else None)


@pytest.mark.parametrize(("chip", "count"), [("rk3588", 2), ("rk3576", 1), ("rk3566", 1)])
def test_a_program_is_told_the_same_in_less_memory(tmp_path: Path, chip: str, count: int) -> None:
    """All answers and codes are equal, and the NPU memory is less by what the report tells."""
    models = _models(chip, count)
    as_is = _run(tmp_path / "as_is", chip, models, is_applied=False)
    applied = _run(tmp_path / "applied", chip, models, is_applied=True)
    assert applied.output == as_is.output
    assert applied.ledger.wrong_reads() == []
    assert applied.left_bytes == 0
    assert applied.report is not None
    assert applied.report.failures == {}
    saved = sum(applied.report.saved_bytes.values())
    assert as_is.ledger.peak_bytes() - applied.ledger.peak_bytes() == saved
    assert applied.report.saved_bytes["weights"] > 0
    assert applied.report.saved_bytes["internal"] > 0
