from __future__ import annotations

import pytest

from reports.base.formatting import component_mib, npu_mib, numbers, shows_in_mib
from reports.base.statistics import Figure

MIB = 2**20


@pytest.mark.parametrize(
    ("values", "text"), [((), ""), ((4,), "4"), ((2, 3), "2-3"), ((1, 4, 5, 6, 9), "1, 4-6, 9"), ((1, 3), "1, 3")]
)
def test_runs_of_numbers_are_drawn_together(values: tuple[int, ...], text: str) -> None:
    """Twelve contexts are named in a few characters."""
    assert numbers(values) == text


def test_a_page_of_npu_memory_is_more_than_nothing() -> None:
    """What two decimals would round to nothing is said to be less than they show; nothing is nothing."""
    assert npu_mib(Figure(4096, None)) == "<0.01"
    assert npu_mib(Figure(0, None)) == "0.00"
    assert npu_mib(Figure(-1, None)) == "0.00"
    assert npu_mib(Figure(-MIB, None)) == "-1.00"


@pytest.mark.parametrize(
    ("saved", "spread", "shows"),
    [
        (MIB, 0.5, True),
        (-MIB, 0.5, True),
        (MIB, 1, False),
        (0.04 * MIB, 0, False),
        (-0.04 * MIB, 0, False),
        (0, 0, False),
    ],
)
def test_a_saving_that_the_table_shows_as_nothing_is_none(saved: float, spread: float, shows: bool) -> None:
    """It must be more than repeats differ by, and more than a tenth of a MiB would round away."""
    assert shows_in_mib(Figure(saved, spread * MIB)) is shows


def test_spread_of_components_only_where_repeats_differ() -> None:
    """A ledger is mostly the same in every repeat, and its table says so by saying nothing."""
    assert component_mib(Figure(MIB, 0.0)) == "1.00"
    assert component_mib(Figure(MIB, MIB / 4)) == "1.00 ±0.25"
    assert component_mib(None) == "-"
