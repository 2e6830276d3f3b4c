"""Calculations with figures over repeats."""

from __future__ import annotations

from reusebench.reports.base.statistics import (
    Figure,
    difference,
    known_mean,
    known_sum,
    rounded,
    rounded_spread,
    total,
)


def test_spreads_of_sums_and_differences_add() -> None:
    """Results are as uncertain as both parts together; their spread is unknown if one part's is."""
    assert Figure(10, 1) - Figure(4, 2) == Figure(6, 3)
    assert Figure(10, 1) + Figure(4, 2) == Figure(14, 3)
    assert Figure(10, None) - Figure(4, 2) == Figure(6, None)
    assert difference(None, Figure(4, 2)) is None
    assert total([Figure(10, 1), None, Figure(4, 2)]) == Figure(14, 3)
    assert total([None]) is None


def test_unknown_values_are_left_out() -> None:
    """Sums and means are over the known values."""
    assert (known_sum([1, None, 3]), known_mean([1, None, 3])) == (4, 2)
    assert (known_sum([None]), known_mean([])) == (None, None)


def test_exported_numbers_are_rounded() -> None:
    """Figures are rounded to whole numbers or to a number of digits; unknown ones stay None."""
    assert (rounded(Figure(1.6, 0.4)), rounded_spread(Figure(1.6, 0.4)), rounded(1.23456, 3)) == (
        2,
        0,
        1.235,
    )
    assert (rounded(None), rounded_spread(Figure(1.6)), rounded_spread(None)) == (None, None, None)
