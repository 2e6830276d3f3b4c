"""The search of levels: the best of all splits, with outliers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from reusebench.reports.history import level_search
from reusebench.reports.history.level_search import OUTLIER_SHARE, best_levels


def searched(values: Sequence[float], penalty: float) -> list[int]:
    return best_levels(np.array(values), penalty, np.zeros(len(values), dtype=bool))


def test_the_split_is_hardly_dearer_than_the_best_of_all() -> None:
    """No split of a short series, with any runs as outliers, costs less by more than a trifle."""
    draw = random.Random(5)
    for _ in range(60):
        levels = [draw.choice((0.0, 8.0, 20.0)) for _ in range(2)]
        values = [level + draw.gauss(0, 1) for level in levels for _ in range(draw.randint(3, 5))]
        if draw.random() < 0.5:
            values[draw.randrange(len(values))] += draw.choice((-30, 30))
        penalty = draw.choice((10.0, 16.0, 25.0))
        splits = []
        for count in range(3):
            for bounds in combinations(range(1, len(values)), count):
                splits.append([0, *bounds, len(values)])
        best = min(_cost(values, split, penalty) for split in splits)
        assert _cost(values, searched(values, penalty), penalty) <= best + 1


def test_levels_do_not_depend_on_the_unit_of_large_steps() -> None:
    """A step of a million deviations hides none of ten."""
    values = [0.0] * 10 + [10.0] * 10 + [1e6] * 10
    assert searched(values, 16.0) == [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([0.0] * 8 + [9.0], [0, 9]),
        ([0.0] * 8 + [9.0] * 2, [0, 8, 10]),
        ([0.0] * 6 + [9.0] * 2 + [0.0] * 6, [0, 14]),
        ([0.0] * 6 + [9.0] * 3 + [0.0] * 6, [0, 6, 9, 15]),
        ([0.0] * 6 + [9.0] * 2 + [18.0] * 6, [0, 6, 8, 14]),
    ],
)
def test_a_level_holds_for_some_runs(values: list[float], bounds: list[int]) -> None:
    """One run is no level; two are one at an end or on the way to another, three everywhere."""
    assert searched(values, 16.0) == bounds


def test_an_excluded_run_is_an_outlier() -> None:
    """What an excluded run has does not count."""
    values = np.array([0.0] * 8 + [9.0] * 2)
    is_excluded = np.arange(10) == 9
    assert best_levels(values, 16.0, is_excluded) == [0, 10]


def _cost(values: Sequence[float], split: Sequence[int], penalty: float) -> float:
    """Return the cost of a split, with the outliers that make each level the cheapest."""
    cost = penalty * (len(split) - 2)
    for start, end in zip(split, split[1:]):
        level = values[start:end]
        costs = [OUTLIER_SHARE * penalty * len(level)]
        for count in range(1, len(level) + 1):
            for inliers in combinations(level, count):
                mean = sum(inliers) / count
                squares = sum((value - mean) ** 2 for value in inliers)
                costs.append(squares + OUTLIER_SHARE * penalty * (len(level) - count))
        cost += min(costs)
    return cost


def test_the_number_of_runs_at_once_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels are the same whether the search looks ahead at three runs or at all of them."""
    draw = random.Random(7)
    for _ in range(20):
        levels = [draw.choice((0.0, 4.0, 9.0, 30.0)) for _ in range(12)]
        values = [level + draw.gauss(0, 1) for level in levels for _ in range(draw.randint(1, 9))]
        at_once = searched(values, 16.0)
        with monkeypatch.context() as patch:
            patch.setattr(level_search, "_LEAST_AHEAD", 1)
            patch.setattr(level_search, "_MOST_AHEAD", 3)
            assert searched(values, 16.0) == at_once
