"""The ± of a prediction, by made values with a known spread."""

from __future__ import annotations

import random

import pytest

from reusebench.fit.uncertainty import (
    off_the_line,
    plus_minus_of_left_over,
    plus_minus_of_process,
)

_MIB = 2**20
_FORMS = 4
_PLANS_OF_FORM = 4


@pytest.mark.parametrize("share_of_far", [0.0, 0.1])
def test_95_percent_of_other_processes_are_within(share_of_far: float) -> None:
    """Processes differ normally; in one form some have a second level far away."""
    chance = random.Random(1)
    within = total = 0
    for _ in range(300):
        forms = []
        for form in range(_FORMS):
            share = share_of_far if form == 0 else 0.0
            forms.append([_repeats(chance, share) for _ in range(_PLANS_OF_FORM)])
        plans = [plan for form in forms for plan in form]
        for form in range(_FORMS):
            own = forms[form]
            plus_minus = plus_minus_of_process(plans, own, 2)
            assert plus_minus is not None
            share = share_of_far if form == 0 else 0.0
            (value,) = _repeats(chance, share, count=1)
            within += abs(value - sum(own[0]) / 2) <= plus_minus
            total += 1
    assert within / total >= 0.95


def _repeats(chance: random.Random, share_of_far: float, count: int = 2) -> list[float]:
    values = []
    for _ in range(count):
        far = 100.0 if chance.random() < share_of_far else 0.0
        values.append((chance.gauss(0, 1) + far) * _MIB)
    return values


def test_one_form_with_large_deviations_leaves_the_others_alone() -> None:
    """What a heap of loaded contexts has left over says nothing about dups."""
    steady = [[0.0, 1.0 * _MIB]] * 12
    wild = [[0.0, 500.0 * _MIB]] * 3
    of_steady = plus_minus_of_process([*steady, *wild], steady[:4], 2)
    of_wild = plus_minus_of_process([*steady, *wild], wild, 2)
    assert of_steady is not None
    assert of_wild is not None
    assert of_steady < 10 * _MIB < 500 * _MIB < of_wild


def test_some_pages_always_differ() -> None:
    """Equal repeats of one session do not show what another one reads."""
    assert plus_minus_of_process([[5.0, 5.0]] * 20, [[5.0, 5.0]] * 4, 2) == 64 * 1024


def test_one_process_of_each_plan_tells_no_spread() -> None:
    """Without repeats the ± is unknown."""
    assert plus_minus_of_process([[1.0], [2.0]], [[1.0]], 1) is None


def test_the_bend_beside_a_number_is_taken_for_the_bend_at_it() -> None:
    """A parabola is off its chords by exactly the bend of its neighbours."""
    sizes = {count: 100.0 + 3 * count**2 for count in (1, 2, 4, 6)}
    assert off_the_line(sizes, 3) == pytest.approx(3.0)
    assert off_the_line(sizes, 5) == pytest.approx(3.0)
    assert off_the_line(sizes, 4) == 0.0


def test_memory_that_hardly_grows_cannot_bend_far() -> None:
    """The second dup costs much and the others nothing: between these nothing is far off."""
    assert off_the_line({1: 100.0, 2: 150.0, 4: 151.0, 5: 152.0}, 3) == pytest.approx(2.0)
    assert off_the_line({1: 100.0, 2: 200.0, 4: 400.0}, 3) == 0.0


def test_two_numbers_tell_no_bend() -> None:
    """One line goes through two points."""
    assert off_the_line({1: 1.0, 5: 9.0}, 3) == 0.0


def test_heaps_of_plans_that_are_alike_tell_what_is_left_over_by_chance() -> None:
    """Plans with equally many contexts should have the same left over; growth is no chance."""
    assert plus_minus_of_left_over([[5.0, 5.0, 5.0], [9.0, 9.0]], {}) == 0.0
    assert plus_minus_of_left_over([[5.0], [9.0]], {1: 0.0, 2: 2.0, 4: 6.0, 6: 10.0}) == 0.0
    assert plus_minus_of_left_over([[5.0, 7.0]], {}) >= 2.0
    assert plus_minus_of_left_over([], {1: 0.0, 2: 5.0, 3: 2.0}) >= 4.0
    assert plus_minus_of_left_over([], {}) == 0.0


def test_what_is_left_over_differs_by_more_than_a_few_plans_show() -> None:
    """The ± is larger than the largest difference, but has its scale."""
    plans = [[0.6, 0.6, 1.8, 1.8, 0.6], [2.7, 2.6]]
    plus_minus = plus_minus_of_left_over(plans, {})
    assert 1.2 < plus_minus < 2.4
    tenfold = [[10 * value for value in values] for values in plans]
    assert plus_minus_of_left_over(tenfold, {}) == pytest.approx(10 * plus_minus)
