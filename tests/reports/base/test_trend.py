"""The verdict on memory over time, for series whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from reusebench.reports.base.trend import LEAST_POINTS, Precision, Trend, trend

KIB = 2**10
MIB = 2**20
LEAK_BYTES_PER_S = 1e6 / 60
READING_ERROR = 128 * KIB
PRECISION = Precision(LEAK_BYTES_PER_S, READING_ERROR)
PAGE = 4 * KIB


def trend_of(
    shape: Callable[[int], float],
    *,
    count: int = 120,
    every_s: float = 1.0,
    noise: float = 0.05 * MIB,
    seed: int = 1,
    limit: float = LEAK_BYTES_PER_S,
) -> Trend:
    """Return the trend of `shape`, bytes over 300 MiB by second, with noise, in pages.

    Growth below `limit` per second is level.
    """
    draw = random.Random(seed)
    seconds = [number * every_s for number in range(count)]
    readings = [_paged(300 * MIB + shape(int(at)) + draw.gauss(0, noise)) for at in seconds]
    fitted = trend(seconds, readings, Precision(limit, READING_ERROR))
    assert fitted is not None
    return fitted


def _paged(size: float) -> int:
    return int(size) // PAGE * PAGE


def _level(_: int) -> float:
    return 0.0


def _leak(second: int) -> float:
    return second * LEAK_BYTES_PER_S


def _verdicts(
    shape: Callable[[int], float], noise: float, limit: float = LEAK_BYTES_PER_S
) -> list[str]:
    return [trend_of(shape, noise=noise, seed=seed, limit=limit).verdict for seed in range(20)]


def test_a_leak_is_found_in_two_minutes() -> None:
    """1 MB a minute is growing, its slope is in its interval, and the confidence is high, never 100
    %.
    """
    leak = trend_of(_leak)
    assert leak.verdict == "growing"
    assert leak.low < LEAK_BYTES_PER_S < leak.high
    assert leak.slope == pytest.approx(LEAK_BYTES_PER_S, rel=0.1)
    assert 99 <= leak.growing_confidence_percent < 100
    assert leak.level_after is None


@pytest.mark.parametrize("piece", [4 * KIB, 64 * KIB, 256 * KIB])
def test_a_leak_in_pieces_is_found(piece: int) -> None:
    """The allocator's steps are the leak, if there are many."""
    assert trend_of(lambda second: _leak(second) // piece * piece).verdict == "growing"


def test_two_steps_are_no_proof() -> None:
    """1 MiB once a minute may be a leak or not: it is neither growing nor level."""
    steps = trend_of(lambda second: MIB * ((second + 25) // 60))
    assert steps.verdict == "unknown"
    assert steps.growing_confidence_percent < 99


def test_a_flat_series_is_level_and_not_beyond_doubt() -> None:
    """The kernel's counter is not exact: without any noise the resolution is not zero."""
    flat = trend_of(_level, noise=0)
    assert flat.verdict == "level"
    assert flat.slope == pytest.approx(0, abs=1e-6)
    assert flat.growing_confidence_percent == pytest.approx(50)
    assert flat.low < 0 < flat.high <= flat.resolution < PRECISION.least_growth


def test_the_resolution_is_what_is_found() -> None:
    """A growth of the size of the resolution is found at least as often as it is missed."""
    resolution = trend_of(_level, noise=MIB / 2).resolution
    verdicts = _verdicts(lambda second: second * resolution, MIB / 2, limit=resolution / 10)
    assert verdicts.count("growing") >= 10


def test_noise_is_no_growth() -> None:
    """No series of noise out of 20 is growing, and nearly all are level."""
    verdicts = _verdicts(_level, MIB / 2)
    assert "growing" not in verdicts
    assert verdicts.count("level") >= 18


def test_much_noise_hides_a_leak_and_says_so() -> None:
    """If a leak of 1 MB a minute could hide, nothing is called level."""
    noisy = trend_of(_level, noise=4 * MIB)
    assert noisy.verdict == "unknown"
    assert noisy.resolution > PRECISION.least_growth


def test_a_walk_is_not_taken_for_a_line() -> None:
    """A random walk has a slope by chance; hardly one of 20 is growing."""

    def walk(seed: int) -> list[int]:
        draw = random.Random(seed)
        rss = 300.0 * MIB
        readings = []
        for _ in range(120):
            rss += draw.gauss(0, 200 * KIB)
            readings.append(_paged(rss))
        return readings

    trends = [trend(range(120), walk(seed), PRECISION) for seed in range(20)]
    assert sum(fitted is not None and fitted.verdict == "growing" for fitted in trends) <= 1


@pytest.mark.parametrize(("size", "count"), [(MIB, 150), (3 * MIB, 300), (30 * MIB, 2000)])
def test_one_step_is_no_leak(size: int, count: int) -> None:
    """It is level from the step on if the step could not come often enough to pass the limit; the
    slope belongs to the last part, not to the whole.
    """
    step = trend_of(lambda second: size * (second >= 50), count=count)
    assert step.verdict == "grew_then_level"
    assert step.level_after is not None
    assert 50 <= step.level_after <= count * 0.55
    assert abs(step.slope) < size / count / 2
    assert step.high > step.coarse > 0.8 * size / (count - 51)


@pytest.mark.parametrize("at", [20, 60, 100])
def test_a_step_that_may_come_again_is_not_level(at: int) -> None:
    """3 MiB once in two minutes may be the first of many: the interval has room for the others."""
    step = trend_of(lambda second: 3 * MIB * (second >= at))
    assert step.verdict == "unknown"
    # The noise hides some of the step.
    assert step.low < 0.9 * 3 * MIB / max(at, 120 - at) < step.high


def test_what_could_still_grow_is_level_below_the_limit_alone() -> None:
    """Growth that is certain is level if it is small enough to be allowed."""
    verdicts = {}
    for limit in (1.2, 0.9, 0.1):
        shape = trend_of(_leak, noise=0, limit=limit * LEAK_BYTES_PER_S)
        verdicts[limit] = shape.verdict
    assert verdicts == {1.2: "level", 0.9: "growing", 0.1: "growing"}


def test_a_series_as_long_as_is_needed_tells() -> None:
    """The advised length makes an unknown series level or growing."""
    for rate, verdict in ((0.0, "level"), (0.6, "growing")):

        def shape(second: int, rate: float = rate) -> float:
            return rate * _leak(second)

        limit = LEAK_BYTES_PER_S / 4
        short = trend_of(shape, noise=2 * MIB, limit=limit)
        assert short.verdict == "unknown"
        needed = round(120 * short.length_needed(limit))
        assert trend_of(shape, noise=2 * MIB, limit=limit, count=needed).verdict == verdict


def test_a_step_is_seen_in_a_long_run() -> None:
    """A step that is small per second of an hour is detected all the same."""
    step = trend_of(
        lambda second: 3 * MIB * (second >= 1200), count=1200, every_s=3.0, limit=2 * KIB
    )
    assert step.verdict == "grew_then_level"
    assert step.level_after == pytest.approx(1200, abs=120)


def test_a_step_near_the_end_is_not_judged() -> None:
    """The part after it is too short to be called level, and a step alone is no leak."""
    assert trend_of(lambda second: 3 * MIB * (second >= 100)).verdict == "unknown"


def test_a_series_that_nears_its_level_is_level() -> None:
    """Growth that has ended by the middle is over."""
    nearing = trend_of(lambda second: 10 * MIB * (1 - math.exp(-second / 8)))
    assert nearing.verdict == "grew_then_level"
    assert nearing.level_after is not None
    assert 10 <= nearing.level_after <= 66


def test_growth_that_ends_late_is_not_called_a_leak_or_level() -> None:
    """It grew for most of the time: the last half is neither level nor a line."""
    assert trend_of(lambda second: 5 * MIB * min(second / 90, 1.0)).verdict in (
        "unknown",
        "growing",
    )


def test_growth_that_begins_late_is_growing() -> None:
    """The last half alone decides if it ends higher than the first half ever was."""
    late = trend_of(lambda second: max(0, second - 75) * 6 * LEAK_BYTES_PER_S)
    assert late.verdict == "growing"
    assert late.low > 0


@pytest.mark.parametrize("period", [20, 45, 90])
def test_a_cache_that_is_dropped_is_no_leak(period: int) -> None:
    """Memory that only returns to the size before a drop is not growing."""
    assert trend_of(lambda second: 10 * MIB * (second % period) / period).verdict in (
        "level",
        "unknown",
    )


def test_falling_is_the_mirror_of_growing() -> None:
    """Memory that is released steadily is falling, with a confidence in growth near zero."""
    falling = trend_of(lambda second: -3 * _leak(second))
    assert falling.verdict == "falling"
    assert falling.growing_confidence_percent < 1
    assert falling.high < 0


def test_a_drop_is_no_growth_that_is_over() -> None:
    """A series that is level after memory was released is level."""
    dropped = trend_of(lambda second: -3 * MIB * (second >= 50))
    assert (dropped.verdict, dropped.level_after) == ("level", None)


def test_a_spike_changes_nothing() -> None:
    """One second that is far off is an outlier."""
    spiked = trend_of(lambda second: 40 * MIB * (second == 70))
    assert spiked.verdict == "level"
    assert spiked.resolution == pytest.approx(trend_of(_level).resolution, rel=0.3)


def test_a_long_soak_sees_smaller_growth() -> None:
    """In a day of readings a minute apart, a tenth of the leak is found."""
    soak = trend_of(
        lambda second: _leak(second) / 10, count=1440, every_s=60.0, noise=MIB, limit=100
    )
    assert soak.verdict == "growing"
    assert soak.slope == pytest.approx(LEAK_BYTES_PER_S / 10, rel=0.05)
    assert soak.resolution < LEAK_BYTES_PER_S / 10


def test_the_start_of_the_clock_does_not_matter() -> None:
    """The same readings later have the same trend, and their level begins later."""
    readings = [300 * MIB + MIB // 2 * (second >= 50) + second % 3 * PAGE for second in range(120)]
    early = trend(range(120), readings, PRECISION)
    later = trend(range(1000, 1120), readings, PRECISION)
    assert early is not None
    assert later is not None
    assert early.level_after is not None
    assert later.level_after == early.level_after + 1000
    assert later.verdict == early.verdict
    assert later.slope == pytest.approx(early.slope, rel=1e-6)


def test_few_points_say_little() -> None:
    """Ten seconds are never level; fewer points than a line and its error need give no trend."""
    assert trend_of(_level, count=LEAST_POINTS).verdict == "unknown"
    assert trend_of(_level, count=10).verdict == "unknown"
    assert trend(range(LEAST_POINTS - 1), [MIB] * (LEAST_POINTS - 1), PRECISION) is None
