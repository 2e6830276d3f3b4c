from __future__ import annotations

from reports.base.statistics import Figure, difference


def test_median_and_half_range() -> None:
    """A figure is the median of its repeats, with half their range as the spread."""
    assert Figure.of([10, 14, 11]) == Figure(11, 2)


def test_single_repeat_has_no_spread() -> None:
    """One repeat gives a figure without a spread, not a spread of zero."""
    assert Figure.of([10]) == Figure(10, None)


def test_missing_values() -> None:
    """Repeats without a value are left out, and no value at all gives no figure."""
    assert Figure.of([None, 4, None, 6]) == Figure(5, 1)
    assert Figure.of([None, None]) is None


def test_spreads_of_a_difference_add() -> None:
    """A difference is as uncertain as both its parts together, and of unknown spread where one is."""
    assert difference(Figure(10, 1), Figure(4, 2)) == Figure(6, 3)
    assert difference(Figure(10, None), Figure(4, 2)) == Figure(6, None)
    assert difference(None, Figure(4, 2)) is None
