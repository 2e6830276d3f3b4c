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
#: Distance of two candidates, in standard deviations.
_SPACING = 0.5
#: Limit of candidates: more do not make the split better, and cost time.
_MOST_CANDIDATES = 1000
#: Limits of the number of runs that are done at once.
_LEAST_AHEAD = 16
_MOST_AHEAD = 512


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
    """Return the values that a level may have: the lowest of each step of the spacing."""
    pairs = (values[1:] + values[:-1]) / 2
    candidates = np.concatenate([values, pairs])
    candidates.sort()
    is_first = np.ones(len(candidates), dtype=bool)
    steps = np.floor(candidates / _SPACING)
    np.not_equal(steps[1:], steps[:-1], out=is_first[1:])
    distinct: np.ndarray = candidates[is_first]
    if len(distinct) > _MOST_CANDIDATES:
        distinct = distinct[np.linspace(0, len(distinct) - 1, _MOST_CANDIDATES).astype(int)]
    return distinct


def _cheapest_path(losses: np.ndarray, penalty: float, outlier_cost: float) -> list[int]:
    """Return the bounds of the cheapest way through the candidates; `losses` are by run."""
    costs, switched = _costs_of_ways(losses, penalty)
    count = len(losses)
    level = int(costs[-1].argmin())
    bounds = [count]
    end = count
    while True:
        entered = np.flatnonzero(costs[: end - 1, level] > switched[: end - 1])
        if not len(entered):
            return [0, *bounds]
        run = int(entered[-1]) + 1
        inliers = np.flatnonzero(losses[run:end, level] < outlier_cost)
        if len(inliers):
            bounds.insert(0, run + int(inliers[0]))
        end = run
        level = int(costs[run - 1].argmin())


def _costs_of_ways(losses: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return by run the costs of the cheapest ways to the candidates, and to change after it.

    Many runs are done at once, as if no way that changes among them became the cheapest. Their
    costs are right up to the run at which one does; from there it is done again.
    """
    count = len(losses)
    costs = np.empty(losses.shape)
    switched = np.empty(count)
    costs[0] = losses[0]
    switched[0] = costs[0].min() + penalty
    run = 0
    ahead = _MOST_AHEAD
    while run + 1 < count:
        sums = losses[run + 1 : run + 1 + ahead].cumsum(axis=0)
        staying = costs[run] + sums
        least = staying.min(axis=1)
        changing = np.empty(sums.shape)
        changing[0] = switched[run]
        np.subtract(least[:-1, None] + penalty, sums[:-1], out=changing[1:])
        np.minimum.accumulate(changing, axis=0, out=changing)
        changing += sums
        cheapest = np.minimum(staying, changing, out=changing)
        now_least = cheapest.min(axis=1)
        overtaken = np.flatnonzero(now_least < least)
        done = int(overtaken[0]) + 1 if len(overtaken) else len(least)
        costs[run + 1 : run + 1 + done] = cheapest[:done]
        switched[run + 1 : run + 1 + done] = now_least[:done] + penalty
        run += done
        ahead = min(_MOST_AHEAD, max(_LEAST_AHEAD, 2 * done))
    return costs, switched
