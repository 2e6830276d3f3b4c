"""The noise of a figure without any change."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from reusebench.reports.compare.noise import ENOUGH_RUNS, noise_of
from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import find_metric
from tests.helpers.support import known

MIB = 2**20
METRIC = find_metric("application_memory")
NPU = find_metric("npu_memory")
QUIET = [[50.0 * MIB] * 3] * 2


def mib(*values: float) -> list[float]:
    return [value * MIB for value in values]


def drawn(count: int, level: float, sd: float, seed: int = 1) -> list[Sequence[float]]:
    """Return `count` runs of three repeats around the level."""
    rolled = random.Random(seed)
    return [mib(*(rolled.gauss(level, sd) for _ in range(3))) for _ in range(count)]


def test_earlier_runs_show_the_noise() -> None:
    """The spread in enough earlier runs counts, even if the repeats at hand are equal."""
    noise = noise_of(METRIC, [[run] for run in QUIET], drawn(40, 50, 2.0))
    assert noise.repeat == pytest.approx(2.0 * MIB, rel=0.25)
    assert noise.runs == 40


def test_repeats_that_end_where_they_agree_do_not_hide_the_noise() -> None:
    """The harness stops early if two repeats are close; earlier runs show the true noise."""
    rolled = random.Random(3)
    earlier = []
    for _ in range(4000):
        run = [rolled.gauss(50, 1.0), rolled.gauss(50, 1.0)]
        while len(run) < 3 and (known(Figure.of(run)).spread or 0) > 1.0:
            run.append(rolled.gauss(50, 1.0))
        earlier.append(mib(*run))
    assert len({len(run) for run in earlier}) == 2
    noise = noise_of(METRIC, [[run] for run in QUIET], earlier)
    assert noise.repeat == pytest.approx(1.0 * MIB, rel=0.05)


def test_two_values_that_no_run_shows_both_of_are_noise() -> None:
    """If each run has one of two values throughout, the noise is between runs."""
    earlier = [mib(49.4, 49.4, 49.4), mib(50.6, 50.6, 50.6)] * 4
    noise = noise_of(METRIC, [[run] for run in QUIET], earlier)
    assert noise.run > 0.9 * MIB


def test_a_change_is_no_noise() -> None:
    """A single step among the earlier runs does not widen the noise."""
    steady = drawn(20, 50, 0.1)
    rolled = random.Random(2)
    stepped = [
        [value + (10 * MIB if number >= 10 else 0) for value in run]
        for number, run in enumerate(steady)
    ]
    rolled.shuffle(steady)
    before, after = (
        noise_of(METRIC, [[run] for run in QUIET], earlier) for earlier in (steady, stepped)
    )
    assert after.run < 2 * before.run


def test_without_earlier_runs_what_is_known_of_the_figure_stands() -> None:
    """Equal repeats of as-allocated memory are no proof that there is no noise: it is often
    two-valued.
    """
    few = [mib(50, 50, 50)] * (ENOUGH_RUNS - 1)
    noise = noise_of(METRIC, [[run] for run in QUIET], few)
    assert noise.runs == 0
    assert noise.repeat > 0.5 * MIB


def test_a_repeat_that_is_far_off_widens_its_own_comparison() -> None:
    """An outlier at hand counts even if earlier runs were quiet."""
    odd = [[mib(50, 50, 50)], [mib(50, 50, 86)]]
    quiet, disturbed = (
        noise_of(METRIC, sides, drawn(20, 50, 0.1)) for sides in ([[run] for run in QUIET], odd)
    )
    assert disturbed.repeat > 20 * quiet.repeat


def test_what_is_counted_has_no_noise() -> None:
    """Bytes of the NPU's ledger are counted: equal repeats show that there is no noise."""
    noise = noise_of(NPU, [[[100.0] * 3], [[100.0] * 3]], [])
    assert (noise.repeat, noise.run) == (0, 0)
    assert noise.freedom == 4


def test_single_repeats_show_nothing() -> None:
    """Single repeats without earlier runs show no noise."""
    assert noise_of(METRIC, [[[50.0]], [[51.0]]], []).freedom == 0
