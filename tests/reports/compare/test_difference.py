"""The difference of a figure between two sides."""

from __future__ import annotations

import random

import pytest

from reusebench.reports.compare.difference import (
    HIGHER,
    LOWER,
    NO_CHANGE,
    TOO_FEW,
    difference_of_means,
)
from reusebench.storage.metrics import find_metric

MIB = 2**20
METRIC = find_metric("application_memory_trimmed_over_baseline")
NPU = find_metric("npu_memory")


def mib(*values: float) -> list[float]:
    return [value * MIB for value in values]


def test_a_rise_that_stands_out_is_higher() -> None:
    """A rise beyond the interval is reported with its size and its share of the base."""
    found = difference_of_means(METRIC, [mib(50, 50.1, 49.9)], [mib(55, 55.1, 54.9)], [], 0.99)
    assert found.verdict == HIGHER
    assert found.change == pytest.approx(5 * MIB)
    assert found.percent == pytest.approx(10)
    assert (found.base_count, found.head_count) == (3, 3)


def test_a_fall_is_lower() -> None:
    """With the sides exchanged, the figure is lower by the same size."""
    up = difference_of_means(METRIC, [mib(50, 50.1, 49.9)], [mib(55, 55.1, 54.9)], [], 0.99)
    down = difference_of_means(METRIC, [mib(55, 55.1, 54.9)], [mib(50, 50.1, 49.9)], [], 0.99)
    assert down.verdict == LOWER
    assert down.change == -up.change


def test_what_noise_explains_is_no_change() -> None:
    """A difference within the interval is no change; the interval shows the detectable size."""
    found = difference_of_means(METRIC, [mib(50, 52, 48)], [mib(51, 53, 49)], [], 0.99)
    assert found.verdict == NO_CHANGE
    assert found.error is not None
    assert found.error > found.change


def test_two_single_numbers_are_not_compared() -> None:
    """One repeat on each side has no verdict, whatever the ratio."""
    found = difference_of_means(METRIC, [mib(50)], [mib(100)], [], 0.99)
    assert (found.verdict, found.error) == (TOO_FEW, None)


def test_single_repeats_are_compared_by_what_earlier_runs_show() -> None:
    """Earlier runs of the series make one repeat enough for a large change."""
    rolled = random.Random(1)
    earlier = [mib(rolled.gauss(50, 0.1)) for _ in range(20)]
    assert difference_of_means(METRIC, [mib(50)], [mib(55)], earlier, 0.99).verdict == HIGHER
    assert difference_of_means(METRIC, [mib(50)], [mib(50.1)], earlier, 0.99).verdict == NO_CHANGE


def test_a_count_that_differs_by_one_byte_is_told() -> None:
    """A counted figure that is equal in all repeats needs no interval."""
    found = difference_of_means(NPU, [[100.0] * 3], [[101.0] * 3], [], 0.99)
    assert (found.verdict, found.change, found.error) == (HIGHER, 1, 0)


def test_a_page_is_no_change() -> None:
    """A difference of one page is no change of a figure that the kernel counts in pages."""
    assert (
        difference_of_means(METRIC, [[4096.0] * 3], [[8192.0] * 3], [], 0.99).verdict == NO_CHANGE
    )


def test_more_repeats_show_smaller_changes() -> None:
    """The smallest change that could have been shown falls with the number of repeats."""
    rolled = random.Random(1)
    few, many = ([mib(*(rolled.gauss(50, 1) for _ in range(count)))] for count in (3, 30))
    errors = [difference_of_means(METRIC, side, side, [], 0.99).error or 0 for side in (few, many)]
    assert errors[1] < errors[0] / 2


def test_intervals_hold_what_they_say() -> None:
    """About one of a hundred 99 % intervals misses, with normal noise and no change."""
    rolled = random.Random(1)
    alarms = 0
    for _ in range(1000):
        runs = [mib(*(rolled.gauss(50, 1) for _ in range(3))) for _ in range(12)]
        alarms += (
            difference_of_means(METRIC, [runs[-2]], [runs[-1]], runs[:-1], 0.99).verdict
            != NO_CHANGE
        )
    assert alarms <= 20


def test_the_percent_of_nothing_is_none() -> None:
    """A base of zero has no percentage."""
    assert difference_of_means(NPU, [[0.0] * 3], [[10.0] * 3], [], 0.99).percent is None
