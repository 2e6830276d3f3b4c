"""The change points of a series: the size of each change, its range of runs, and its confidence.

The best split of a series into levels has the least sum of squares of the runs' means around their
levels, plus a penalty for each change point (B. Jackson and others, An algorithm for optimal
partitioning of data on an interval, 2005). The penalty is the square of the quantile that a t test
of two levels needs, so every change point of the search is significant.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reusebench.reports.base.student import lower_tail, quantile
from reusebench.reports.compare.changes import CONFIDENCE
from reusebench.reports.compare.difference import NO_CHANGE, Difference, difference_of_means
from reusebench.reports.compare.noise import Noise, RunValues, noise_of
from reusebench.storage.metrics import Metric

#: Least number of runs of a level: a single outlying run is no change.
_LEAST_LENGTH = 2
#: Least length of a series with change points.
LEAST_RUNS = 2 * _LEAST_LENGTH
#: Number of runs before and after a run that bound its values.
_NEIGHBOURS = 2
#: Bound at 95 % for twice the log-likelihood that other places of a change point may lack: B. E.
#: Hansen, Sample splitting and threshold estimation, Econometrica 68 (2000), table I.
_LIKELIHOOD_BOUND = 7.35
#: Least noise as a share of the range of the means; below it rounding errors would count.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class ChangePoint:
    """One change of level; runs are counted from 0."""

    #: The first run of the new level.
    run: int
    #: The first run of the old level.
    start: int
    #: The first run after the new level.
    end: int
    #: Range at 95 % of the first run of the new level.
    earliest: int
    latest: int
    #: Difference of the two levels, with an interval at CONFIDENCE for this change only.
    difference: Difference
    #: Upper bound of the share of tables, of as many series without a change, that show a change as
    #: clear as this one.
    p_value: float


def change_points(metric: Metric, runs: Sequence[RunValues], series: int = 1) -> list[ChangePoint]:
    """Return the significant change points of a series of runs, the oldest first.

    Their confidence is that of a table with `series` series.
    """
    if len(runs) < LEAST_RUNS:
        return []
    noise = noise_of(metric, (runs,), runs)
    calm = calmed(runs)
    means = _in_standard_deviations([statistics.fmean(run) for run in calm], noise, runs)
    if not noise.freedom or not means.any():
        return []

    tests = series * (len(runs) - 1)
    bounds = _search(means, -quantile(noise.freedom, (1 - CONFIDENCE) / tests / 2))
    points = []
    for start, run, end in zip(bounds, bounds[1:], bounds[2:]):
        point = _change_point(metric, runs, calm, means, start, run, end, tests)
        if point.p_value <= 1 - CONFIDENCE and point.difference.verdict != NO_CHANGE:
            points.append(point)
    return points


def calmed(runs: Sequence[RunValues]) -> list[RunValues]:
    """Return the runs with each value clamped to the range of the neighbouring runs.

    Outliers in a single run vanish; a level that two consecutive runs have stays.
    """
    calm: list[RunValues] = []
    for position, run in enumerate(runs):
        before = runs[max(0, position - _NEIGHBOURS) : position]
        after = runs[position + 1 : position + 1 + _NEIGHBOURS]
        around = [value for neighbour in (*before, *after) for value in neighbour]
        lowest = min(around)
        highest = max(around)
        calm.append([min(max(value, lowest), highest) for value in run])
    return calm


def _in_standard_deviations(
    means: Sequence[float], noise: Noise, runs: Sequence[RunValues]
) -> np.ndarray:
    """Return the distances of the means from the first one, in standard deviations of a run."""
    distances = np.array(means) - means[0]
    # Runs may differ in the number of repeats: their mean variance counts.
    deviation = float(statistics.fmean(noise.error([run]) ** 2 for run in runs) ** 0.5)
    return distances / (max(deviation, _LEAST_NOISE * np.ptp(distances)) or 1.0)


def _search(means: np.ndarray, quantile: float) -> list[int]:
    """Return the bounds of the levels: the first run of each, and the number of runs."""
    bounds = best_split(means, _LEAST_LENGTH, quantile**2)
    # The best split as a whole may have a point that its neighbouring levels do not support.
    while len(bounds) > 2:
        clearness = []
        for start, run, end in zip(bounds, bounds[1:], bounds[2:]):
            clearness.append(_clearness(means, start, run, end))
        least = min(clearness)
        if least >= quantile:
            break
        del bounds[clearness.index(least) + 1]
    return bounds


def best_split(values: np.ndarray, least_length: int, penalty: float) -> list[int]:
    """Return the bounds of the levels in the split with the least cost.

    No level is shorter than `least_length`.

    >>> best_split(np.array([1.0, 1.0, 1.0, 5.0, 5.0]), least_length=2, penalty=3.0)
    [0, 3, 5]
    """
    #: Index: number of values from the first; value: the cost of their best split.
    costs = np.full(len(values) + 1, np.inf)
    costs[0] = -penalty
    #: Index: the same; value: the beginning of the last level in that split.
    begins = [0] * (len(values) + 1)
    for end in range(least_length, len(values) + 1):
        # Last levels by length - 1. Distances are from the last value, so that equal values cost
        # exactly zero.
        distances = values[end - 1 :: -1] - values[end - 1]
        squares = np.cumsum(distances**2) - np.cumsum(distances) ** 2 / np.arange(1, end + 1)
        totals = costs[end - 1 :: -1] + squares + penalty
        totals[: least_length - 1] = np.inf
        begins[end] = end - 1 - int(totals.argmin())
        costs[end] = totals.min()
    bounds = [len(values)]
    while bounds[0]:
        bounds.insert(0, begins[bounds[0]])
    return bounds


def _clearness(means: np.ndarray, start: int, run: int, end: int) -> float:
    """Return the distance of two levels in standard errors."""
    distance = abs(means[run:end].mean() - means[start:run].mean())
    return float(distance / (1 / (run - start) + 1 / (end - run)) ** 0.5)


def _change_point(
    metric: Metric,
    runs: Sequence[RunValues],
    calm: Sequence[RunValues],
    means: np.ndarray,
    start: int,
    run: int,
    end: int,
    tests: int,
) -> ChangePoint:
    sides = (calm[start:run], calm[run:end])
    difference = difference_of_means(metric, *sides, runs, CONFIDENCE)
    error = difference.noise.error(*sides)
    freedom = difference.noise.freedom
    p_value = 2 * lower_tail(freedom, -abs(difference.change) / error) if error else 0.0
    earliest, latest = _range(means, start, run, end)
    return ChangePoint(run, start, end, earliest, latest, difference, min(1.0, tests * p_value))


def _range(means: np.ndarray, start: int, run: int, end: int) -> tuple[int, int]:
    """Return the first and the last place at which a split would be hardly less likely."""
    best_gain = _clearness(means, start, run, end) ** 2
    likely = []
    for position in range(start + 1, end):
        gain = _clearness(means, start, position, end) ** 2
        if best_gain - gain <= _LIKELIHOOD_BOUND:
            likely.append(position)
    return min(likely), max(likely)
