"""Savings, and when they exceed noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.reports.base.statistics import Figure
from reusebench.storage.savings import (
    APPLICATION,
    LESS,
    MORE,
    NPU,
    SAME,
    Saving,
    best_percent,
    saving_of,
)
from tests.reports.stored import MIB, even, group_of, npu_account, result, row_of


@pytest.mark.parametrize(
    ("saved_mib", "spread_mib", "change"),
    [
        (1, 0.5, LESS),
        (-1, 0.5, MORE),
        (1, 1, SAME),
        (0.04, 0, SAME),
        (-0.04, 0, SAME),
        (0, 0, SAME),
    ],
)
def test_application_memory_differs_if_it_shows(
    saved_mib: float, spread_mib: float, change: str
) -> None:
    """A saving exceeds the spread of repeats, and a tenth of a MiB, which rounding hides."""
    saving = Saving(APPLICATION, Figure(100 * MIB), Figure(saved_mib * MIB, spread_mib * MIB))
    assert saving.change == change


def test_a_byte_of_npu_memory_is_one() -> None:
    """A ledger is exact, also with a single repeat."""
    changes = [Saving(NPU, Figure(MIB), Figure(saved)).change for saved in (1, 0, -1)]
    assert changes == [LESS, SAME, MORE]


def test_a_percentage_is_of_the_baseline() -> None:
    """It has the spread of both; none if the baseline takes nothing, or a side was not measured."""
    saving = saving_of(NPU, Figure(40 * MIB, MIB), Figure(30 * MIB, MIB))
    assert saving is not None
    assert saving.percent == Figure(25, 5)
    assert Saving(NPU, Figure(0), Figure(0)).percent is None
    assert saving_of(NPU, None, Figure(1)) is None


def test_the_best_is_of_what_can_be_measured() -> None:
    """A share within its spread, or of more memory, counts as zero."""
    figures = [Figure(25, 5), Figure(25, 30), Figure(-25, 5)]
    assert [best_percent(Saving(NPU, Figure(100), figure)) for figure in figures] == [25, 0, 0]
    assert best_percent(None) == 0


def test_npu_memory_decides_if_there_is_any(tmp_path: Path) -> None:
    """Without NPU memory, application memory decides."""
    for npu, memory in ((npu_account, NPU), (None, APPLICATION)):
        infos = [
            result(tmp_path, name, even(40, spread=1), npu=npu)
            for name in ("no_reuse", "partial_dup")
        ]
        row = row_of(group_of(tmp_path, *infos), "partial_dup")
        assert row.main_saving is not None
        assert row.main_saving.memory == memory
