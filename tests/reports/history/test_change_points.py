"""Change points of series with known changes."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from reusebench.reports.history.change_points import ChangePoint, best_split, change_points
from reusebench.storage.metrics import find_metric

MIB = 2**20
_MEMORY = find_metric("application_memory_trimmed_over_baseline")
_NPU = find_metric("npu_memory")


def noisy(*levels: tuple[int, float], deviation: float = 0.05, seed: int = 1) -> list[list[float]]:
    """Return runs of three repeats in bytes, for levels of (number of runs, MiB)."""
    draw = random.Random(seed)
    runs = []
    for count, mib in levels:
        for _ in range(count):
            runs.append([(mib + draw.gauss(0, deviation)) * MIB for _ in range(3)])
    return runs


def found(runs: list[list[float]], series: int = 1) -> list[ChangePoint]:
    return change_points(_MEMORY, runs, series)


def test_a_step_is_found_where_it_is() -> None:
    """The first run of the new level is exact, with the size of the change."""
    (point,) = found(noisy((30, 50), (20, 51)))
    assert (point.run, point.start, point.end, point.earliest, point.latest) == (30, 0, 50, 30, 30)
    assert point.difference.change == pytest.approx(MIB, rel=0.1)
    assert point.difference.error is not None
    assert point.difference.error < 0.2 * MIB
    assert point.p_value < 0.0001


def test_steps_up_and_down_are_apart() -> None:
    """Each change point has the difference of its two levels."""
    points = found(noisy((20, 50), (20, 51), (20, 49.5)))
    assert [point.run for point in points] == [20, 40]
    assert [round(point.difference.change / MIB, 1) for point in points] == [1.0, -1.5]


def test_nothing_is_found_where_nothing_changes() -> None:
    """At most one of 50 series without a change has a change point."""
    assert sum(bool(found(noisy((60, 50), seed=seed))) for seed in range(50)) <= 1


def test_one_odd_run_is_no_change() -> None:
    """An outlying run is no change of level, but two consecutive runs are."""
    runs = noisy((40, 50))
    runs[17] = [value + 3 * MIB for value in runs[17]]
    assert found(runs) == []
    runs[18] = [value + 3 * MIB for value in runs[18]]
    assert [point.run for point in found(runs)] == [17, 19]


@pytest.mark.parametrize("new", [2, 3])
def test_two_runs_at_a_new_level_are_enough(new: int) -> None:
    """A large change is reported after two runs; the newest run alone shows nothing."""
    runs = noisy((20, 50), (new, 52))
    assert [point.run for point in found(runs)] == [20]
    assert found(runs[:21]) == []


def test_a_place_that_is_not_sure_is_a_range() -> None:
    """If a step is hardly larger than the noise, the range of its place includes the true one."""
    (point,) = found(noisy((40, 50), (40, 50.6), deviation=0.7))
    assert point.earliest <= 40 <= point.latest
    assert point.latest - point.earliest > 2


def test_two_valued_noise_is_no_change() -> None:
    """Repeats that show one of two values at random have no change points."""
    draw = random.Random(3)
    runs = [[draw.choice((49.4, 50.6)) * MIB for _ in range(3)] for _ in range(100)]
    assert found(runs) == []


def test_exact_figures_change_by_any_amount() -> None:
    """A ledger has no noise: 4 KiB is a change, even next to a change of 100 MiB."""
    runs = [
        [float(level)] * 3 for level in [64 * MIB] * 4 + [64 * MIB + 4096] * 4 + [164 * MIB] * 4
    ]
    assert [point.run for point in change_points(_NPU, runs)] == [4, 8]
    assert change_points(_NPU, runs[:4]) == []


def test_what_shows_no_noise_has_no_change_points() -> None:
    """Three runs, or four of one repeat each, cannot show the noise."""
    assert found(noisy((1, 50), (2, 60))) == []
    assert change_points(_MEMORY, [[50.0], [50.0], [60.0], [60.0]]) == []


def test_more_series_ask_for_more() -> None:
    """A change that is just significant in one series is not in ten thousand."""
    runs = noisy((20, 50), (20, 50.6), deviation=0.5)
    assert len(found(runs)) == 1
    assert found(runs, series=10_000) == []


def test_the_split_is_the_best_of_all() -> None:
    """No other split of a short series into levels of at least two values costs less."""
    draw = random.Random(5)
    for _ in range(50):
        levels = [draw.choice((0.0, 1.0, 2.5)) for _ in range(3)]
        values = np.array(
            [level + draw.gauss(0, 0.4) for level in levels for _ in range(draw.randint(2, 3))]
        )
        penalty = draw.choice((0.2, 1.0, 3.0))
        # Nine values have four levels at most.
        splits = []
        for count in range(4):
            for bounds in combinations(range(1, len(values)), count):
                splits.append([0, *bounds, len(values)])
        allowed = [split for split in splits if np.diff(split).min() >= 2]
        best = min(allowed, key=lambda split: _cost(values, split, penalty))
        assert best_split(values, least_length=2, penalty=penalty) == best


def _cost(values: np.ndarray, split: list[int], penalty: float) -> float:
    """Return the sum of squares around the levels, plus a penalty for each change."""
    levels = [values[start:end] for start, end in zip(split, split[1:])]
    return sum(float(((level - level.mean()) ** 2).sum()) for level in levels) + penalty * (
        len(levels) - 1
    )
