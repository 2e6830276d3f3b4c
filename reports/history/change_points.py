"""Where a series changed its level: with the size, the runs in between, and how sure it is.

The best split of a series into levels has the least sum of squares of the runs' means around them,
and a penalty for each change point (B. Jackson and others, An algorithm for optimal partitioning of
data on an interval, 2005). The penalty is the square of the quantile that a t test of two levels
needs, so every change point of the search is significant.
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

#: Runs of a level: one run that is off is no change.
_LEAST_LENGTH = 2
#: A shorter series has no change points.
LEAST_RUNS = 2 * _LEAST_LENGTH
#: A run's values are held between those of so many runs before it and after it.
_NEIGHBOURS = 2
#: Twice the logarithm of the likelihood that other places of a change point may have less, at 95 %:
#: B. E. Hansen, Sample splitting and threshold estimation, Econometrica 68 (2000), table I.
_LIKELIHOOD_BOUND = 7.35
#: Of the range of the means: below it the search would count in rounding errors.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class ChangePoint:
    """One change of level; runs are counted from 0."""

    #: The first run of the new level.
    run: int
    #: The level before it begins at this run, the one after it ends before that one.
    start: int
    end: int
    #: The first run of the new level is one of these at 95 %.
    earliest: int
    latest: int
    #: Of the two levels; its interval is at CONFIDENCE for this change alone.
    difference: Difference
    #: The share of tables of as many series without a change that have one as clear as this, at
    #: most.
    p_value: float


def change_points(metric: Metric, runs: Sequence[RunValues], series: int = 1) -> list[ChangePoint]:
    """Return the change points of a series of runs, the oldest first; none where none is
    significant at CONFIDENCE.

    The confidence is that of a table of so many series.
    """
    if len(runs) < LEAST_RUNS:
        return []
    noise = noise_of(metric, (runs,), runs)
    calm = calmed(runs)
    means = _in_standard_deviations([statistics.fmean(run) for run in calm], _of_a_run(noise, runs))
    tests = series * (len(runs) - 1)
    if not noise.freedom or not means.any():
        return []
    bounds = _search(means, -quantile(noise.freedom, (1 - CONFIDENCE) / tests / 2))
    points = [
        _change_point(metric, runs, calm, means, *three, tests)
        for three in zip(bounds, bounds[1:], bounds[2:])
    ]
    return [
        point
        for point in points
        if point.p_value <= 1 - CONFIDENCE and point.difference.verdict != NO_CHANGE
    ]


def calmed(runs: Sequence[RunValues]) -> list[RunValues]:
    """Return the runs with each value held between the least and the most of the runs around it.

    What is off in one run alone goes; a level that two runs in a row have stays.
    """
    calm: list[RunValues] = []
    for position, run in enumerate(runs):
        before = runs[max(0, position - _NEIGHBOURS) : position]
        after = runs[position + 1 : position + 1 + _NEIGHBOURS]
        around = [value for neighbour in (*before, *after) for value in neighbour]
        calm.append([min(max(value, min(around)), max(around)) for value in run])
    return calm


def _of_a_run(noise: Noise, runs: Sequence[RunValues]) -> float:
    """Return the standard deviation of a run's mean; where their repeats are not as many, of all
    runs together.
    """
    return float(statistics.fmean(noise.error([run]) ** 2 for run in runs) ** 0.5)


def _in_standard_deviations(means: Sequence[float], noise: float) -> np.ndarray:
    distances = np.array(means) - means[0]
    return distances / (max(noise, _LEAST_NOISE * np.ptp(distances)) or 1.0)


def _search(means: np.ndarray, quantile: float) -> list[int]:
    """Return the bounds of the levels: 0, the first run of each further level, and the number of
    runs.
    """
    bounds = best_split(means, _LEAST_LENGTH, quantile**2)
    # The split that is best as a whole may have a point between neighbours that do not bear it out.
    while len(bounds) > 2:
        clearness = [_clearness(means, *three) for three in zip(bounds, bounds[1:], bounds[2:])]
        least = min(clearness)
        if least >= quantile:
            break
        del bounds[clearness.index(least) + 1]
    return bounds


def best_split(values: np.ndarray, least_length: int, penalty: float) -> list[int]:
    """Return the bounds of the levels, which are not shorter than `least_length`, of the split that
    costs least.

    >>> best_split(np.array([1.0, 1.0, 1.0, 5.0, 5.0]), least_length=2, penalty=3.0)
    [0, 3, 5]
    """
    #: By number of values from the first: the cost of their best split, and the index at which its
    #: last level begins.
    costs = np.full(len(values) + 1, np.inf)
    costs[0] = -penalty
    begins = [0] * (len(values) + 1)
    for end in range(least_length, len(values) + 1):
        # Last levels by their length, less one. Distances from the last value: equal values cost
        # exactly nothing.
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
    sides = calm[start:run], calm[run:end]
    difference = difference_of_means(metric, *sides, runs, CONFIDENCE)
    error = difference.noise.error(*sides)
    freedom = difference.noise.freedom
    p_value = 2 * lower_tail(freedom, -abs(difference.change) / error) if error else 0.0
    earliest, latest = _range(means, start, run, end)
    return ChangePoint(run, start, end, earliest, latest, difference, min(1.0, tests * p_value))


def _range(means: np.ndarray, start: int, run: int, end: int) -> tuple[int, int]:
    """Return the first and the last place at which a split would be hardly less likely."""
    gains = {
        position: _clearness(means, start, position, end) ** 2 for position in range(start + 1, end)
    }
    likely = [
        position for position, gain in gains.items() if gains[run] - gain <= _LIKELIHOOD_BOUND
    ]
    return min(likely), max(likely)
