"""The figure over repeats and its spread."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from reusebench.storage.measured_figure import Figure


def test_median_and_farthest_repeat() -> None:
    """The spread is the distance of the farthest repeat; missing values do not count."""
    assert Figure.of([10, 14, 11]) == Figure(11, 3)
    assert Figure.of([None, 4, None, 6, 5, 9]) == Figure(5.5, 3.5)
    assert Figure.of([None, None]) is None


def test_two_repeats_have_their_distance() -> None:
    """Their distance from the median, half of this, would often be close to zero by chance."""
    assert Figure.of([None, 4, None, 6]) == Figure(5, 2)


def _half_range(values: Sequence[float]) -> Figure:
    """Return the figure of three repeats with half their range, as in version 0.1."""
    return Figure(statistics.median(values), (max(values) - min(values)) / 2)


@pytest.mark.parametrize("second_share", [0.0, 0.2, 0.5])
def test_a_difference_of_nothing_is_as_rare_with_two_or_three_repeats(second_share: float) -> None:
    """The rate of wrong differences is about that of half the range of three repeats.

    The third repeat is only made if two differ. Values of equal configurations are normal, or a
    share of the values has a second level far away.
    """
    draw = random.Random(1)

    def values(count: int) -> list[float]:
        return [draw.gauss(20.0 * (draw.random() < second_share), 1.0) for _ in range(count)]

    def repeated() -> Figure:
        pair = values(2)
        figure = Figure.of(pair)
        assert figure is not None
        if (figure.spread or 0) > 1.0:
            figure = Figure.of([*pair, *values(1)])
        assert figure is not None
        return figure

    wrong = sum((repeated() - repeated()).exceeds_spread for _ in range(4000))
    before = sum(
        (_half_range(values(3)) - _half_range(values(3))).exceeds_spread for _ in range(4000)
    )
    assert wrong < 1.3 * before


def test_single_repeat_has_no_spread() -> None:
    """One repeat gives a figure without a spread, not a spread of zero."""
    assert Figure.of([10]) == Figure(10, None)


def test_percent_is_of_the_whole() -> None:
    """Median and spread are shares of the whole's median; zero has no shares."""
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
    """The sign of the difference does not matter."""
    assert [Figure(median, 2).exceeds_spread for median in (3, -3, 2, -1)] == [
        True,
        True,
        False,
        False,
    ]
    assert Figure(1, None).exceeds_spread
