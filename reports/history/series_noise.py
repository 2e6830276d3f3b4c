"""The noise of a series that has outliers, changes of level, a drift or a wave.

None of them is noise: they must neither hide a change nor make one. So the largest distances are
left out, and the deviation follows from the others as that of a bell curve would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from reusebench.reports.compare.noise import (
    ENOUGH_RUNS,
    Noise,
    least_deviation_of_runs,
    noise_of,
)
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric

#: Share of outliers among runs, or among repeats. An outlier makes two large differences of
#: neighbours.
_OUTLIERS = 0.1
#: Number of large differences of neighbours in a series with an outlier and a step.
_LARGE_DIFFERENCES = 3
#: What a product of a share and a number may lack of a whole number.
_ROUNDING = 1e-9
#: Share of the last run that independent runs hardly keep, times the root of their number.
_SHARE_BY_CHANCE = 2
#: Highest share that is taken for noise.
_MOST_SHARE = 0.8


@dataclass(frozen=True)
class Fitted:
    """What is known of a series when something was fitted to it."""

    #: Values without drift and wave, and distances from the levels, by run.
    steady: np.ndarray
    residuals: np.ndarray
    #: Whether the run is no outlier, and the first runs of new levels.
    is_inlier: np.ndarray
    steps: Sequence[int]
    #: Number of factors of drift and wave.
    trend_count: int


def series_noise(metric: Metric, runs: SeriesRuns, fitted: Fitted | None = None) -> Noise:
    """Return the noise of the runs.

    Without a fit it may be too small in a short series, whose largest differences may be changes.
    """
    if len(runs) < ENOUGH_RUNS:
        return noise_of(metric, (runs.lists,), runs.lists)
    trend_count = 0
    if fitted is None:
        deviation = _first_deviation(runs.means)
    else:
        deviation = _deviation_left(fitted)
        trend_count = fitted.trend_count

    freedom = runs.freedom
    repeat = trimmed_deviation(runs.distances) if freedom else 0.0
    explained = repeat**2 * runs.share_of_repeats
    between = math.sqrt(max(0.0, deviation**2 - explained))
    least = least_deviation_of_runs(metric, float(runs.values.mean()))
    if between > least or not freedom:
        # Differences of neighbours do not depend on the levels.
        freedom = max(1, len(runs) - 1 - trend_count)
    return Noise(repeat, max(between, least), freedom, len(runs))


def _first_deviation(means: np.ndarray) -> float:
    """Return the standard deviation of runs by the differences of neighbours."""
    differences = np.diff(means)
    changes = min(_LARGE_DIFFERENCES, len(differences) // _LARGE_DIFFERENCES)
    dropped = max(changes, math.floor(2 * _OUTLIERS * len(differences) + _ROUNDING))
    return _deviation_of_smallest(differences, dropped, changes) / math.sqrt(2)


def _deviation_left(fitted: Fitted) -> float:
    """Return the standard deviation of runs by what the fit leaves."""
    count = len(fitted.steady)
    residuals = trimmed_deviation(fitted.residuals)
    factors = len(fitted.steps) + 1 + fitted.trend_count
    residuals *= math.sqrt(count / max(1, count - factors))
    residuals *= _memory_factor(fitted.residuals[fitted.is_inlier])
    # Neighbours of one level, without outliers.
    is_pair = fitted.is_inlier[1:] & fitted.is_inlier[:-1]
    is_pair[[step - 1 for step in fitted.steps]] = False
    differences = trimmed_deviation(np.diff(fitted.steady)[is_pair]) / math.sqrt(2)
    return max(residuals, differences)


def _memory_factor(residuals: np.ndarray) -> float:
    """Return by how much noise that keeps a share of the last run widens the error of a mean.

    A share that independent runs have by chance is none.
    """
    squares = float((residuals**2).sum())
    if not squares:
        return 1.0
    share = float((residuals[1:] * residuals[:-1]).sum()) / squares
    if share <= _SHARE_BY_CHANCE / math.sqrt(len(residuals)):
        return 1.0
    share = min(share, _MOST_SHARE)
    return math.sqrt((1 + share) / (1 - share))


def trimmed_deviation(distances: np.ndarray) -> float:
    """Return the standard deviation of distances from zero, without the largest of them."""
    return _deviation_of_smallest(
        distances, max(1, math.floor(_OUTLIERS * len(distances) + _ROUNDING)), 0
    )


def _deviation_of_smallest(distances: np.ndarray, dropped: int, strange: int) -> float:
    """Return the standard deviation of distances from zero by the smallest of them.

    `strange` of those that are dropped do not come from the same noise.
    """
    kept = len(distances) - dropped
    if kept < 1:
        return 0.0
    squares = np.sort(distances**2)[:kept]
    kept_share = kept / (len(distances) - strange)
    if kept_share == 1:
        return math.sqrt(float(squares.mean()))
    bound = NormalDist().inv_cdf((1 + kept_share) / 2)
    # The variance of a standard normal value that lies between -bound and bound.
    variance = 1 - 2 * bound * NormalDist().pdf(bound) / kept_share
    return math.sqrt(float(squares.mean()) / variance)
