"""The preload library of apply with Rockchip's own librknnrt on the virtual board.

The tests need the library in the user's cache, models of its chips, `reusebench board install`,
and the library of apply, which the first `reusebench apply --target vboard:...` compiles.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.system.cache import cache_root
from tests.apply.board_runs import as_is_and_applied

pytestmark = pytest.mark.process

_PROGRAM = Path(__file__).with_name("inference.py")
_CACHE = cache_root()  # the user's, which tests do not have later


def _models(chip: str, count: int) -> list[str]:
    found = sorted((_CACHE / "models").glob(f"tiny-*-seed1-{chip}-toolkit*.rknn"))
    if len(found) < count:
        pytest.skip(f"no models for {chip} in the user's cache")
    return [*map(str, found[:count])]


@pytest.mark.parametrize(("chip", "count"), [("rk3588", 2), ("rk3576", 1), ("rk3566", 1)])
def test_a_program_is_told_the_same_in_less_memory(tmp_path: Path, chip: str, count: int) -> None:
    """All answers and codes are equal, and the NPU memory is less by what the report tells."""
    models = _models(chip, count)
    as_is, applied = as_is_and_applied(tmp_path, chip, "aarch64", _PROGRAM, models)
    assert applied.output == as_is.output
    assert applied.ledger.wrong_reads() == []
    assert applied.left_bytes == 0
    assert applied.report is not None
    assert applied.report.failures == {}
    saved = sum(applied.report.saved_bytes.values())
    assert as_is.ledger.peak_bytes() - applied.ledger.peak_bytes() == saved
    assert applied.report.saved_bytes["weights"] > 0
    assert applied.report.saved_bytes["internal"] > 0
