"""The figure over repeats and its spread."""

from __future__ import annotations

import random

import pytest

from storage.figure import Figure


def test_median_and_half_range() -> None:
    """A figure is the median of its repeats, with half their range as the spread; missing values are left out."""
    assert Figure.of([10, 14, 11]) == Figure(11, 2)
    assert Figure.of([None, 4, None, 6, 5, 9]) == Figure(5.5, 2.5)
    assert Figure.of([None, None]) is None


def test_two_repeats_have_their_whole_range() -> None:
    """Half of it would often be next to nothing by chance."""
    assert Figure.of([None, 4, None, 6]) == Figure(5, 2)


@pytest.mark.parametrize("second", [0.0, 8.0])
def test_two_repeats_show_a_difference_of_nothing_as_rarely_as_three(second: float) -> None:
    """Of equal configurations; a fifth of the values is normal with mean 0, or with another value that far away."""
    draw = random.Random(1)

    def wrong_share(repeats: int) -> float:
        wrong = 0
        for _ in range(4000):
            figures = []
            for _ in range(2):
                values = [draw.gauss(second * (draw.random() < 0.2), 1.0) for _ in range(repeats)]
                figures.append(Figure.of(values))
            one, other = figures
            assert one is not None
            assert other is not None
            wrong += (one - other).exceeds_spread
        return wrong / 4000

    assert wrong_share(2) < 1.25 * wrong_share(3)


def test_single_repeat_has_no_spread() -> None:
    """One repeat gives a figure without a spread, not a spread of zero."""
    assert Figure.of([10]) == Figure(10, None)


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
