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
    count = len(losses)
    #: By run: the cost of the cheapest way to each candidate, and to one that is entered there.
    costs = np.empty(losses.shape)
    switched = np.full(count, np.inf)
    before = costs[0]
    before[:] = losses[0]
    for run, (now, loss) in enumerate(zip(costs[1:], losses[1:]), 1):
        switched[run] = least = np.minimum.reduce(before) + penalty
        np.add(np.minimum(before, least, out=now), loss, out=now)
        before = now

    level = int(costs[-1].argmin())
    bounds = [count]
    end = count
    while True:
        entered = np.flatnonzero(costs[: end - 1, level] > switched[1:end])
        if not len(entered):
            return [0, *bounds]
        run = int(entered[-1]) + 1
        inliers = np.flatnonzero(losses[run:end, level] < outlier_cost)
        if len(inliers):
            bounds.insert(0, run + int(inliers[0]))
        end = run
        level = int(costs[run - 1].argmin())
