"""The verdict on quantities over cycles, at the rates and the limit of a user."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from reusebench.reports.results.drift import Drift, drift_of
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits

CYCLES = 20
INFERENCES = 100
KIB = 2**10
MIB = 2**20


def drift(
    shape: Callable[[int], float],
    quantity: str = "heap",
    limits: LeakLimits = DEFAULT_LEAK_LIMITS,
    cycles: int = CYCLES,
) -> Drift:
    """Return the drift of a quantity that is `shape` after each cycle of inferences."""
    readings = [shape(INFERENCES * cycle) for cycle in range(cycles + 1)]
    per_day = limits.inferences_per_day
    return drift_of(quantity, readings, INFERENCES, per_day, limits.bytes_per_day)


def pieces(size: int, every: int, begin: int = 0) -> Callable[[int], float]:
    """Return a leak of pieces of `size`, each `every` inferences."""
    return lambda inferences: size * ((begin + inferences) // every)


@pytest.mark.parametrize(
    ("size", "every", "mib_per_day"),
    [(32, 1, 79.1), (80, 1, 197.8), (800, 1, 1977.5), (4 * KIB, 50, 202.5), (MIB, 500, 5184)],
)
@pytest.mark.parametrize("begin", [0, 17, 333])
def test_a_leak_is_told_in_a_day(size: int, every: int, mib_per_day: float, begin: int) -> None:
    """Its true growth lies in the interval, however its pieces fall into the cycles."""
    leak = drift(pieces(size, every, begin))
    assert leak.verdict == "growing"
    assert leak.trend is not None
    assert leak.trend.low <= size / every <= leak.trend.high
    assert leak.trend.low * leak.times_per_day <= mib_per_day * MIB
    assert leak.most_per_day is not None
    assert leak.most_per_day >= mib_per_day * MIB


def test_level_is_below_the_limit() -> None:
    """Nothing that grows is level; what grows by less than the limit is level, and can be told."""
    flat = drift(lambda _: 0.0)
    assert flat.verdict == "level"
    assert flat.most_per_day is not None
    assert 0 < flat.most_per_day < 10 * MIB
    slow = pieces(2, 1)
    assert drift(slow).verdict == "level"
    assert drift(slow, limits=LeakLimits(bytes_per_day=MIB)).verdict == "growing"
    assert drift(slow, limits=LeakLimits(inferences_per_s=300)).verdict == "growing"


def test_a_flat_series_is_not_level_below_what_it_can_show() -> None:
    """At 300 inferences a second, or with ten to a cycle, the same readings allow more growth."""
    fast = drift(lambda _: 0.0, limits=LeakLimits(inferences_per_s=3000))
    assert fast.verdict == "unknown"
    assert fast.cycles_needed is not None
    longer = drift(
        lambda _: 0.0, limits=LeakLimits(inferences_per_s=3000), cycles=fast.cycles_needed
    )
    assert longer.verdict == "level"


def test_one_piece_is_not_level() -> None:
    """1 MiB that was taken once may be a leak of each 2000th inference: more cycles tell."""
    once = drift(lambda inferences: MIB * (inferences > 900))
    assert once.verdict == "unknown"
    assert once.most_per_day is not None
    assert once.most_per_day > MIB / 1100 * once.times_per_day * 0.9


def test_memory_too_restless_for_any_number_of_cycles() -> None:
    """No number of cycles is advised if it would be more than the largest that is allowed."""
    draw = random.Random(1)
    restless = drift(lambda _: draw.uniform(0, 4000 * MIB), "memory")
    assert restless.verdict == "unknown"
    assert restless.cycles_needed is None
