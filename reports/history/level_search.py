"""The best split of a series into levels, with outliers that cannot move it.

The cost of a value is the square of its distance from its level, in standard deviations, and never
more than the cost of an outlier; each change of level has a penalty (P. Fearnhead and G. Rigaill,
Changepoint detection in the presence of outliers, JASA 114, 2019). The cost of an outlier is
OUTLIER_SHARE of the penalty. So one run is never a level; two runs are none between equal levels,
but at an end of the series or between two different levels; three runs are a level everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Cost of an outlier as a share of the penalty of a change: more than two thirds, less than one.
OUTLIER_SHARE = 0.8
#: Lengths of the windows whose medians are candidates for levels.
_WINDOWS = (3, 7, 15, 31, 63)
#: Distance of two candidates, in standard deviations.
_SPACING = 0.5
#: Limit of candidates: more do not make the split better, and cost time.
_MOST_CANDIDATES = 1000


def best_levels(
    values: np.ndarray, penalty: float, is_excluded: np.ndarray, known: Sequence[float] = ()
) -> list[int]:
    """Return the bounds of the levels: the first run of each, and the number of runs.

    `values` are in standard deviations. Excluded runs are outliers whatever their values are.
    `known` are values that levels may have. A level begins with a run that is no outlier.

    >>> values = np.array([1.0, 1.0, 9.0, 1.0, 1.0, 30.0, 30.0, 30.0])
    >>> best_levels(values, 10.0, np.zeros(8, dtype=bool))
    [0, 5, 8]
    """
    outlier_cost = OUTLIER_SHARE * penalty
    candidates = np.append(_candidates(values), known)
    losses = np.minimum((values[:, None] - candidates) ** 2, outlier_cost)
    losses[is_excluded] = outlier_cost
    return _cheapest_path(losses, penalty, outlier_cost)


def _candidates(values: np.ndarray) -> np.ndarray:
    """Return the values that a level may have."""
    pairs = (values[1:] + values[:-1]) / 2
    candidates = [values, pairs]
    for window in _WINDOWS:
        if window <= len(values):
            windows = np.lib.stride_tricks.sliding_window_view(values, window)
            candidates.append(np.median(windows, axis=1))
    sorted_candidates = np.sort(np.concatenate(candidates))
    _, firsts = np.unique(np.floor(sorted_candidates / _SPACING), return_index=True)
    distinct: np.ndarray = sorted_candidates[firsts]
    if len(distinct) > _MOST_CANDIDATES:
        distinct = distinct[np.linspace(0, len(distinct) - 1, _MOST_CANDIDATES).astype(int)]
    return distinct


def _cheapest_path(losses: np.ndarray, penalty: float, outlier_cost: float) -> list[int]:
    """Return the bounds of the cheapest way through the candidates; `losses` are by run."""
    count = len(losses)
    #: By run: the cheapest candidate of the run before, and those that are entered from it.
    origins = [0] * count
    entered = np.zeros(losses.shape, dtype=bool)
    costs = losses[0].copy()
    for run in range(1, count):
        origin = int(costs.argmin())
        origins[run] = origin
        switched = costs[origin] + penalty
        np.greater(costs, switched, out=entered[run])
        np.minimum(costs, switched, out=costs)
        costs += losses[run]

    level = int(costs.argmin())
    bounds = [count]
    end = count
    for run in range(count - 1, 0, -1):
        if entered[run, level]:
            inliers = np.flatnonzero(losses[run:end, level] < outlier_cost)
            if len(inliers):
                bounds.insert(0, run + int(inliers[0]))
            end = run
            level = origins[run]
    return [0, *bounds]
