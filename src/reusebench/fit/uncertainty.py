"""The ± of a prediction of a process's memory: where another process of the layout may read.

Two processes of one layout differ: by some pages, and by what a heap has left over, which is now
and then far more. So the repeats of all plans are pooled, and those of the same form again. A
number of contexts that was not measured lies off the line between those that were: by how much, its
neighbours off their own lines tell.

What heaps have left over is on no line at all, and often the same in all repeats of one session,
but not in the next one: names that are a few bytes longer are enough. By how much plans that should
be alike differ in it tells by how much sessions do.

`python -m benchmarks.fit_graphs` counts the processes that are within.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

__all__ = [
    "HEAP_BYTES",
    "off_the_line",
    "plus_minus_of_left_over",
    "plus_minus_of_process",
    "plus_minus_of_values",
]

#: Memory that glibc may leave over at the top of each heap (M_TRIM_THRESHOLD, mallopt(3)).
HEAP_BYTES = 128 * 1024
#: Processes differ by some pages from one session to the next, with other names in their memory,
#: even if the processes of one session do not.
_PAGES_BYTES = 64 * 1024
#: A few plans do not show the most that heaps may differ by.
_FEW_PLANS = 1.5
#: 95 % quantiles of Student's t for this many degrees of freedom, for two sides; fewer plans of a
#: form tell less of how processes differ.
_QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
_QUANTILE_OF_MANY = 2.0
#: Upper quartile of the absolute value of a standard normal value.
_NORMAL_QUARTILE = 1.150


def plus_minus_of_process(
    all_repeats: Iterable[Sequence[float]], of_form: Iterable[Sequence[float]], repeats: int
) -> float | None:
    """Return the ± of one more process around the median of `repeats` of a measured layout.

    `all_repeats` has the values of each plan, `of_form` those of the plans of the layout's form.
    None if no plan has two repeats.
    """
    all_deviations = _deviations(all_repeats)
    if not all_deviations:
        return None
    # Large deviations are rare, and those of their form alone: the usual one is that of all plans.
    usual = _upper_quartile(all_deviations) / _NORMAL_QUARTILE
    plus_minus = _QUANTILE_OF_MANY * usual
    own = _deviations(of_form)
    if own:
        squares = statistics.fmean(deviation**2 for deviation in own)
        plus_minus = max(plus_minus, _quantile(len(own)) * math.sqrt(squares))
    return max(plus_minus * math.sqrt(1 + 1 / max(repeats, 1)), _PAGES_BYTES)


def plus_minus_of_values(values: Sequence[float]) -> float | None:
    """Return the ± of one more process around the median of these; None if there is only one."""
    if len(values) < 2:
        return None
    plus_minus = _quantile(len(values) - 1) * statistics.stdev(values)
    return max(plus_minus * math.sqrt(1 + 1 / len(values)), _PAGES_BYTES)


def _quantile(degrees: int) -> float:
    """Return Student's quantile for this many degrees of freedom."""
    return _QUANTILES[degrees - 1] if degrees <= len(_QUANTILES) else _QUANTILE_OF_MANY


def _upper_quartile(values: Sequence[float]) -> float:
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=4, method="inclusive")[2]


def _deviations(plans: Iterable[Sequence[float]]) -> list[float]:
    """Return one estimate of the standard deviation of a process for each plan with repeats."""
    deviations = []
    for values in plans:
        if len(values) > 1:
            deviations.append(statistics.stdev(values))
    return deviations


def plus_minus_of_left_over(alike: Iterable[Sequence[float]], curve: Mapping[int, float]) -> float:
    """Return by how much what heaps have left over may differ from one session to the next.

    `alike` has what plans with equally many contexts, and the same way to have weights, have left
    over; `curve` the same of one form by number of contexts. Plans that are alike differ by chance;
    so do the points of a curve from the line between their neighbours.
    """
    distances = []
    for values in alike:
        for one, other in combinations(values, 2):
            distances.append(abs(one - other))
    counts = sorted(curve)
    for low, middle, high in zip(counts, counts[1:], counts[2:]):
        distances.append(_off_the_chord(curve, low, middle, high))
    if len(distances) < 2:
        return _FEW_PLANS * sum(distances)
    return _FEW_PLANS * statistics.quantiles(distances, n=20, method="inclusive")[-1]


def off_the_line(sizes: Mapping[int, float], count: int) -> float:
    """Return by how much the size at `count` may be off the line between its neighbours.

    `sizes` are measured, by number of contexts. The bend at each neighbour is taken for the bend
    between them. Memory that hardly grows cannot bend far either: nothing is farther off than the
    sizes around it are apart.
    """
    counts = sorted(sizes)
    if count in sizes or len(counts) < 3:
        return 0.0
    high = min(max(sum(known < count for known in counts), 1), len(counts) - 1)
    low = high - 1
    bends = []
    for middle in (low, high):
        if 0 < middle < len(counts) - 1:
            bends.append(_bend(sizes, counts[middle - 1], counts[middle], counts[middle + 1]))
    bend = max(bends, default=0.0)
    off = bend * abs(count - counts[low]) * abs(counts[high] - count)
    around = [sizes[known] for known in counts[low : high + 2]]
    is_between = counts[low] < count < counts[high]
    return min(off, max(around) - min(around)) if is_between else off


def _bend(sizes: Mapping[int, float], low: int, middle: int, high: int) -> float:
    """Return half the second derivative at `middle`."""
    return _off_the_chord(sizes, low, middle, high) / ((middle - low) * (high - middle))


def _off_the_chord(sizes: Mapping[int, float], low: int, middle: int, high: int) -> float:
    """Return the distance of the size at `middle` from the line between the two others."""
    share = (middle - low) / (high - low)
    line = sizes[low] * (1 - share) + sizes[high] * share
    return abs(sizes[middle] - line)
