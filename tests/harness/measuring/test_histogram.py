"""Percentiles in a fixed amount of memory."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import astuple

from reusebench.harness.measuring.histogram import Histogram
from tests.helpers.support import known

_DRAW = random.Random(7)
_DISTRIBUTIONS = {
    "uniform": [_DRAW.randrange(10**9) for _ in range(20_000)],
    "one value": [33_333_333] * 1000,
    "over nine magnitudes": [round(10 ** _DRAW.uniform(0, 10)) for _ in range(20_000)],
    "two": [5, 10**12],
    "small": list(range(256)),
}


@pytest.mark.parametrize("name", _DISTRIBUTIONS)
def test_percentiles_are_within_half_a_percent(name: str) -> None:
    """A percentile is the duration that this percentage does not exceed; the maximum is exact."""
    durations = _DISTRIBUTIONS[name]
    histogram = Histogram()
    for duration_ns in durations:
        histogram.add(duration_ns)
    percentiles = known(histogram.percentiles())
    ranked = sorted(durations)
    for percent, value in ((50, percentiles.p50), (90, percentiles.p90), (99, percentiles.p99)):
        true = ranked[-(-percent * len(ranked) // 100) - 1]
        assert value == pytest.approx(true, rel=0.005, abs=0)
    assert percentiles.max == ranked[-1]


def test_percentiles_do_not_cross() -> None:
    """No percentile is larger than the next or than the maximum, even of few durations."""
    for count in range(1, 6):
        histogram = Histogram()
        for more_ns in range(count):
            histogram.add(1_000_000_007 + more_ns)
        percentiles = known(histogram.percentiles())
        values = astuple(percentiles)
        assert list(values) == sorted(values)


def test_its_memory_does_not_grow_with_durations() -> None:
    """From a millisecond to a second there are ten doublings of 128 buckets each, for any number of
    durations.
    """
    histogram = Histogram()
    draw = random.Random(1)
    for _ in range(50_000):
        histogram.add(draw.randrange(2**20, 2**30))
    assert len(histogram._counts) <= 10 * 128


def test_nothing_was_counted() -> None:
    """Without durations there are no percentiles."""
    assert Histogram().percentiles() is None
