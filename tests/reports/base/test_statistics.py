"""Figures over repeats, and what is calculated with them."""

from __future__ import annotations

import pytest

from reports.base.statistics import Figure, difference, known_mean, known_sum, rounded, rounded_spread, total


def test_median_and_half_range() -> None:
    """A figure is the median of its repeats, with half their range as the spread; missing values are left out."""
    assert Figure.of([10, 14, 11]) == Figure(11, 2)
    assert Figure.of([None, 4, None, 6]) == Figure(5, 1)
    assert Figure.of([None, None]) is None


def test_single_repeat_has_no_spread() -> None:
    """One repeat gives a figure without a spread, not a spread of zero."""
    assert Figure.of([10]) == Figure(10, None)


def test_spreads_of_sums_and_differences_add() -> None:
    """They are as uncertain as both parts together, and of unknown spread where one is."""
    assert Figure(10, 1) - Figure(4, 2) == Figure(6, 3)
    assert Figure(10, 1) + Figure(4, 2) == Figure(14, 3)
    assert Figure(10, None) - Figure(4, 2) == Figure(6, None)
    assert difference(None, Figure(4, 2)) is None
    assert total([Figure(10, 1), None, Figure(4, 2)]) == Figure(14, 3)
    assert total([None]) is None


def test_percent_is_of_the_whole() -> None:
    """Median and spread are shares of the whole's median; of nothing there is no share."""
    assert Figure(30, 3).percent_of(Figure(120, 50)) == Figure(25, 2.5)
    assert Figure(30, 3).percent_of(Figure(0)) is None


def test_relative_spreads_add_in_a_quotient() -> None:
    """80 of 100 is 20 % less; spreads of 2.5 % and 1 % are 2.8 of its 80 %."""
    change = Figure(80, 2).percent_above(Figure(100, 1))
    assert change is not None
    assert (change.median, change.spread) == pytest.approx((-20, 2.8))
    assert Figure(80).percent_above(Figure(100, 1)) == Figure(-20, None)
    assert Figure(80).percent_above(Figure(0)) is None


def test_a_difference_within_its_spread_cannot_be_measured() -> None:
    """Whatever its sign."""
    assert [Figure(median, 2).exceeds_spread for median in (3, -3, 2, -1)] == [True, True, False, False]
    assert Figure(1, None).exceeds_spread


def test_what_is_not_known_is_left_out() -> None:
    """A sum and a mean are of what is known."""
    assert (known_sum([1, None, 3]), known_mean([1, None, 3])) == (4, 2)
    assert (known_sum([None]), known_mean([])) == (None, None)


def test_exported_numbers_are_rounded() -> None:
    """To whole numbers, or to so many digits; what is not known stays empty."""
    assert (rounded(Figure(1.6, 0.4)), rounded_spread(Figure(1.6, 0.4)), rounded(1.23456, 3)) == (2, 0, 1.235)
    assert (rounded(None), rounded_spread(Figure(1.6)), rounded_spread(None)) == (None, None, None)
