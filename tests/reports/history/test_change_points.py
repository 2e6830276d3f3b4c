"""Change points, drift, wave and outliers of series with known ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from reusebench.reports.history.change_points import (
    ChangePoint,
    SeriesChanges,
    series_changes,
)
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric, find_metric

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


def added(runs: list[list[float]], mib: Sequence[float]) -> list[list[float]]:
    """Return the runs with these MiB more, run by run."""
    return [[value + more * MIB for value in run] for run, more in zip(runs, mib)]


def rising(count: int, mib: float) -> list[float]:
    """Return a steady rise from 0 to this many MiB."""
    return [mib * run / (count - 1) for run in range(count)]


def waving(times: Sequence[float], mib: float, period: float) -> list[float]:
    """Return a wave of this height and period."""
    return [mib * math.sin(2 * math.pi * time / period) for time in times]


def irregular(count: int, seed: int = 1) -> list[float]:
    """Return days of runs at random times."""
    draw = random.Random(seed)
    return sorted(draw.uniform(0, count) for _ in range(count))


def seconds(days: Sequence[float]) -> list[float]:
    return [day * 86_400 for day in days]


def changes_of(
    metric: Metric,
    runs: list[list[float]],
    times: Sequence[float] | None = None,
    series: int = 1,
) -> SeriesChanges:
    return series_changes(metric, SeriesRuns.of(runs), times, series)


def found(runs: list[list[float]], series: int = 1) -> list[ChangePoint]:
    return list(changes_of(_MEMORY, runs, series=series).points)


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


def test_one_odd_run_or_two_are_no_change() -> None:
    """Outlying runs are no change of level, by themselves or two together, but three are."""
    runs = noisy((40, 50))
    for place in (17, 18):
        runs[place] = [value + 3 * MIB for value in runs[place]]
        changes = changes_of(_MEMORY, runs)
        assert changes.points == ()
        assert list(changes.outliers) == list(range(17, place + 1))
        assert changes.outliers[17] == pytest.approx(3 * MIB, rel=0.1)
    runs[19] = [value + 3 * MIB for value in runs[19]]
    assert [point.run for point in found(runs)] == [17, 20]


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
    assert [point.run for point in changes_of(_NPU, runs).points] == [4, 8]
    assert changes_of(_NPU, runs[:4]).points == ()


def test_what_shows_no_noise_has_no_change_points() -> None:
    """Three runs, or four of one repeat each, cannot show the noise."""
    assert found(noisy((1, 50), (2, 60))) == []
    assert changes_of(_MEMORY, [[50.0], [50.0], [60.0], [60.0]]).points == ()


def test_more_series_ask_for_more() -> None:
    """A change that is just significant in one series is not in ten thousand."""
    runs = noisy((20, 50), (20, 50.8), deviation=0.5)
    assert len(found(runs)) == 1
    assert found(runs, series=10_000) == []


@pytest.mark.parametrize("mib", [1.0, -4.0])
def test_a_drift_is_told_and_is_no_step(mib: float) -> None:
    """A steady change has no change point; its size is within its interval."""
    changes = changes_of(_MEMORY, added(noisy((100, 50)), rising(100, mib)))
    assert changes.points == ()
    assert changes.wave is None
    assert changes.drift is not None
    assert abs(changes.drift.rise - mib * MIB) <= changes.drift.error < 0.1 * MIB
    assert (changes.drift.runs, changes.drift.seconds) == (99, None)


@pytest.mark.parametrize("period", [7, 25, 60, 110])
def test_a_wave_is_told_and_is_no_step(period: float) -> None:
    """A wave has no change point, from several periods to less than one; its size is told."""
    changes = changes_of(_MEMORY, added(noisy((100, 50)), waving(range(100), 0.5, period)))
    assert (changes.points, changes.drift) == ((), None)
    assert changes.wave is not None
    assert changes.wave.amplitude == pytest.approx(0.5 * MIB, rel=0.1)
    assert changes.wave.runs == pytest.approx(period, rel=0.05)


def test_levels_of_the_days_of_a_week_are_a_wave() -> None:
    """A change that returns every seven runs is a wave of that period, whatever its form."""
    weekly = [1.0 if day % 7 < 2 else 0.0 for day in range(100)]
    changes = changes_of(_MEMORY, added(noisy((100, 50)), weekly))
    assert changes.points == ()
    assert changes.wave is not None
    assert changes.wave.runs == pytest.approx(7, rel=0.01)


def test_a_step_beside_drift_and_wave_is_found_where_it_is() -> None:
    """Drift, wave and step are apart, at irregular times too; the step has its own size."""
    days = irregular(120)
    runs = added(noisy((50, 50), (70, 50.8)), [day / 120 for day in days])
    runs = added(runs, waving(days, 0.5, 30))
    changes = changes_of(_MEMORY, runs, seconds(days))
    (point,) = changes.points
    assert abs(point.run - 50) <= 1
    assert point.difference.error is not None
    assert abs(point.difference.change - 0.8 * MIB) <= point.difference.error < 0.3 * MIB
    assert changes.wave is not None
    assert changes.wave.seconds == pytest.approx(30 * 86_400, rel=0.03)
    assert changes.drift is not None
    assert changes.drift.rise == pytest.approx(MIB, rel=0.3)


def test_a_drift_by_the_number_of_runs_is_steady_by_runs() -> None:
    """What each run adds is told by the run if the dates are far from regular."""
    days = [10.0 * (run // 20) + run / 100 for run in range(100)]
    runs = added(noisy((100, 50)), rising(100, 5))
    by_runs = changes_of(_MEMORY, runs, seconds(days))
    assert by_runs.points == ()
    assert by_runs.drift is not None
    assert by_runs.drift.seconds is None
    days = irregular(100)
    by_time = changes_of(_MEMORY, added(noisy((100, 50)), [day / 20 for day in days]), days)
    assert by_time.points == ()
    assert by_time.drift is not None
    assert by_time.drift.seconds == days[-1] - days[0]


@pytest.mark.parametrize("seed", range(8))
def test_lone_outliers_neither_make_nor_hide_a_step(seed: int) -> None:
    """A step is found beside outliers of any size; they alone are none, and all are told."""
    draw = random.Random(seed)
    places = [10 * number + draw.randrange(8) for number in range(1, 9)]
    far = [0.0] * 100
    for place in places:
        far[place] = draw.choice((-1, 1)) * draw.uniform(1.5, 8)
    quiet = changes_of(_MEMORY, added(noisy((100, 50), seed=seed), far))
    assert quiet.points == ()
    assert list(quiet.outliers) == places
    stepped = changes_of(_MEMORY, added(noisy((60, 50), (40, 50.5), seed=seed), far))
    assert [point.run for point in stepped.points if abs(point.run - 60) <= 1]
    assert len(stepped.points) == 1
    assert list(stepped.outliers) == places


def test_an_outlier_at_a_step_leaves_its_place_open() -> None:
    """A step may have begun at the outlier before it."""
    runs = noisy((40, 50), (40, 51))
    runs[40] = [value + 5 * MIB for value in runs[40]]
    (point,) = found(runs)
    assert (point.earliest, point.run, point.latest) == (40, 41, 41)


@pytest.mark.parametrize("start", [36, 38, 40, 41, 44])
def test_two_outliers_beside_a_step_are_no_levels(start: int) -> None:
    """Two runs above both levels around them are outliers, whatever the levels are."""
    runs = noisy((40, 50), (40, 50.4))
    for run in (start, start + 1):
        runs[run] = [value + 3 * MIB for value in runs[run]]
    (point,) = found(runs)
    assert point.earliest <= 40 <= point.latest
    assert list(changes_of(_MEMORY, runs).outliers) == [start, start + 1]


def test_a_step_of_a_short_series_is_no_drift() -> None:
    """A large step in the middle of few runs is a step."""
    for seed in range(10):
        runs = noisy((6, 50), (6, 51), seed=seed)
        changes = changes_of(_MEMORY, runs)
        assert [point.run for point in changes.points] == [6]
        assert changes.drift is None


def test_few_runs_that_rise_have_no_step() -> None:
    """Ten runs that rise steadily have a drift, and no change point."""
    for seed in range(10):
        changes = changes_of(_MEMORY, added(noisy((10, 50), seed=seed), rising(10, 3)))
        assert changes.points == ()
        assert changes.drift is not None


def test_levels_and_wave_follow_the_runs() -> None:
    """Level, drift and wave together are near each run, in the metric's unit."""
    shape = [drift + wave for drift, wave in zip(rising(100, 1), waving(range(100), 0.5, 20))]
    runs = added(noisy((50, 50), (50, 52), deviation=0.02), shape)
    changes = changes_of(_MEMORY, runs)
    for run, level, wave in zip(runs, changes.levels, changes.waves):
        assert level + wave == pytest.approx(sum(run) / 3, abs=0.1 * MIB)


def test_noise_that_lasts_for_some_runs_is_no_step() -> None:
    """Few of 20 series whose noise keeps 0.6 of that of the last run have a change point."""
    with_points = 0
    for seed in range(20):
        draw = random.Random(seed)
        lasting = [draw.gauss(0, 0.1)]
        while len(lasting) < 100:
            lasting.append(0.6 * lasting[-1] + draw.gauss(0, 0.08))
        runs = added(noisy((100, 50), seed=seed), lasting)
        with_points += bool(changes_of(_MEMORY, runs).points)
    assert with_points <= 6


def test_equal_values_have_no_spread() -> None:
    """Runs that differ in their number of equal repeats have one mean, to the last digit."""
    runs = SeriesRuns.of([[0.1] * 3, [0.1] * 5, [0.1], [0.1] * 7])
    assert set(runs.means) == {0.1}
    assert not runs.distances.any()
    assert (runs.freedom, len(runs)) == (12, 4)
