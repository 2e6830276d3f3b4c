"""Readings over time, or over cycles: the slope with the confidence in it, and whether they are
level or still grow.

Readings of memory depend on those before: an interval that takes each as a new one is far too
narrow. So points are first taken together in at most 60 batches, a median each (B. Schmeiser, Batch
size effects in the analysis of simulation output, 1982). A line is fitted to these by generalised
least squares, with errors that keep a share of the one before (Prais and Winsten, 1954); a share
that may be 1 is taken as 1 (P. Perron and T. Yabu, Estimating deterministic trends with an
integrated or stationary noise component, 2009). Growth in k equal steps has then k ** 0.5 standard
errors. Where one step fits better than a line, growth counts only as far as it is seen besides the
step.

The verdict, by the first rule that holds:

1. growing: the whole series grows at 99 %, and the last half at 75 % and half as fast at least; or
   the last half grows at 99.5 %, and ends higher than the first ever was. Falling is the same, the
   other way round;
2. grew_then_level: from the step on that fits better than a line, growth and fall above the
   resolution, and above Precision.least_growth, can be excluded at 97.5 % each; that part is 45 %
   of the series or more, and lies higher than what came before it, by more than the noise;
3. level: the same can be excluded for the whole series. Where only for the last half or more of it:
   grew_then_level where that lies higher than what came before it, level where it does not;
4. unknown.

benchmarks/trend_accuracy.py measures how often that is right.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reusebench.reports.base.student import lower_tail, quantile

#: Fewer points have no slope with an error.
LEAST_POINTS = 5
_BATCHES = 60
#: One-sided confidence: of a growth, of the last half where the whole grows, of each end of an
#: interval, and of finding a growth of the size of the resolution.
_SURE = 0.99
_LIKELY = 0.75
_END = 0.975
_FOUND = 0.80
#: By so much a growth must be larger than where zero alone had to be excluded, because a step may
#: fit as well and the last half must go on: measured by trend_accuracy.py on 2 minutes of white
#: noise (1.2 for 10 minutes and more).
_HARDER = 1.75
#: The last half is a second try.
_SURE_OF_HALF = (1 + _SURE) / 2
#: The slope of a last half that goes on as the whole did, as a share of that.
_GOES_ON = 0.5
#: A level has lasted for this share of the series at least: so long as what came before it, or
#: nearly.
_LEVEL_SHARE = 0.45
#: More is not claimed: it was not tried on enough series.
_MOST_PERCENT = 99.9
#: Within so many standard errors of 1, a share may be 1; chosen by trend_accuracy.py on random
#: walks.
_MAY_BE_ONE = 2.5
#: A point that is off by so many times what points are off by commonly, from the median of it and
#: its neighbours, is an outlier (the identifier of F. R. Hampel, 1974).
_OUTLIER = 10
#: A share of 1 has no constant term.
_MOST_SHARE = 0.999


@dataclass(frozen=True)
class Precision:
    """What readings of a kind can show, in their own unit."""

    #: Per unit of time: what could hide more than this is not called level.
    least_growth: float
    #: By so much a reading may be off from what is meant, one standard deviation, however little
    #: the readings differ.
    reading_error: float


@dataclass(frozen=True)
class Trend:
    """What a series of readings says, of the part that the verdict is about; an interval is of 95
    %.
    """

    #: "level", "grew_then_level", "growing", "falling" or "unknown".
    verdict: str
    #: In the series' own time; only of grew_then_level.
    level_after: float | None
    #: Per unit of time, without the one step of the part, where that fits better than a line.
    slope: float
    low: float
    high: float
    #: One-sided.
    growing_confidence_percent: float
    #: A steady growth of this size is detected at 99 % in four series of five.
    resolution: float


@dataclass(frozen=True)
class _Slope:
    """A slope and its standard error, with its degrees of freedom."""

    value: float
    error: float
    freedom: int

    def toward(self, sign: int) -> float:
        """Return the confidence that it is above zero (sign 1), or below (-1)."""
        return lower_tail(self.freedom, sign * self.value / self.error)

    def errors(self, *confidences: float) -> float:
        """Return the quantiles of Student's distribution together, in the slope's unit."""
        return sum(quantile(self.freedom, confidence) for confidence in confidences) * self.error

    @property
    def steepness(self) -> float:
        """In standard errors, without its sign."""
        return abs(self.value) / self.error

    def is_level(self, least_growth: float) -> bool:
        """Whether neither grows nor falls by so much."""
        detectable = self.errors(_SURE, _FOUND)
        return abs(self.value) + self.errors(_END) <= min(detectable, least_growth)


@dataclass(frozen=True)
class _Part:
    """A series from one point to its end, in batches; readings are in units of their error."""

    times: np.ndarray
    readings: np.ndarray
    #: Of a line alone; and of one beside the step, where that leaves less of growth or fall.
    line: _Slope
    steady: _Slope
    #: The first batch after the step; None if a line fits better.
    step: int | None


def trend(times: Sequence[float], readings: Sequence[float], precision: Precision) -> Trend | None:
    """Return the slope and the verdict of one reading for each unit of time, or fewer; None below
    LEAST_POINTS.
    """
    return _trend(tuple(times), tuple(readings), precision)


# A page asks for each series several times, and in each language. An hour of streams is 3,600
# readings.
@functools.lru_cache(maxsize=256)
def _trend(
    times: tuple[float, ...], readings: tuple[float, ...], precision: Precision
) -> Trend | None:
    if len(times) < LEAST_POINTS:
        return None
    unit = precision.reading_error
    calmed = _calmed(np.array(readings, dtype=float) / unit)
    whole = _part(times, calmed, 0)
    late = _part(times, calmed, len(times) // 2) if len(times) >= 2 * LEAST_POINTS else whole
    verdict, level_after, slope = (
        _moving(whole, late)
        or _level(whole, times, calmed, precision.least_growth / unit)
        or ("unknown", None, min(whole.steady, late.steady, key=lambda slope: slope.steepness))
    )
    return Trend(
        verdict,
        level_after,
        unit * slope.value,
        unit * (slope.value - slope.errors(_END)),
        unit * (slope.value + slope.errors(_END)),
        min(100 * slope.toward(1), _MOST_PERCENT),
        unit * _HARDER * slope.errors(_SURE, _FOUND),
    )


def _calmed(readings: np.ndarray) -> np.ndarray:
    """Return the series with each outlier replaced by the median of it and its neighbours."""
    medians = readings.copy()
    medians[1:-1] = np.median([readings[:-2], readings[1:-1], readings[2:]], axis=0)
    off = abs(readings - medians)
    common = np.sort(off)[: len(off) * 3 // 4].mean()
    return np.where(off > max(_OUTLIER * common, 1), medians, readings)


def _moving(whole: _Part, late: _Part) -> tuple[str, None, _Slope] | None:
    """Return the verdict of a series that grows or falls to its end, and the slope of the part that
    it is about.
    """
    for name, sign in (("growing", 1), ("falling", -1)):
        as_fast = sign * late.line.value >= _GOES_ON * sign * whole.line.value
        if whole.steady.toward(sign) >= _SURE and as_fast and late.line.toward(sign) >= _LIKELY:
            return name, None, whole.steady
        before = sign * whole.readings[whole.times < late.times[0]]
        ends_beyond = all(sign * late.readings[-1] > before)
        if late.steady.toward(sign) >= _SURE_OF_HALF and ends_beyond:
            return name, None, late.steady
    return None


_Level = tuple[str, "float | None", _Slope]


def _level(
    whole: _Part, times: Sequence[float], readings: np.ndarray, least_growth: float
) -> _Level | None:
    """Return the verdict of a series that is level, since when if it grew before, and the slope of
    that part.
    """
    count = len(times)
    step = 0 if whole.step is None else whole.step * count // len(whole.times)
    stepped = _level_from(step, times, readings, least_growth)
    if stepped is not None and stepped[0] == "grew_then_level":
        return stepped
    if whole.line.is_level(least_growth):
        return "level", None, whole.line
    later = (
        _level_from(count * eighth // 8, times, readings, least_growth) for eighth in range(1, 5)
    )
    return stepped or next(filter(None, later), None)


def _level_from(
    start: int, times: Sequence[float], readings: np.ndarray, least_growth: float
) -> _Level | None:
    """Return the verdict where the series is level from this point on, and that is long enough."""
    count = len(times)
    if not start or count - start < max(_LEVEL_SHARE * count, LEAST_POINTS):
        return None
    part = _part(times, readings, start)
    if not part.line.is_level(least_growth):
        return None
    noise = max(1.0, part.readings.std(ddof=1))
    if np.median(part.readings) - np.median(readings[:start]) > 2 * noise:
        return "grew_then_level", times[start], part.line
    return "level", None, part.line


def _part(times: Sequence[float], readings: np.ndarray, start: int) -> _Part:
    at = _batches(times[start:])
    values = _batches(readings[start:].tolist())
    ones = np.ones(len(at))
    line = steady = _slope(values, ones, at)
    step = _step(at, values)
    if step is not None:
        beside = _slope(values, ones, np.arange(len(at)) >= step, at)
        steady = min(line, beside, key=lambda slope: slope.steepness)
    return _Part(at, values, line, steady, step)


def _batches(values: Sequence[float]) -> np.ndarray:
    """Return medians of as many neighbours each."""
    count = min(_BATCHES, len(values))
    bounds = [batch * len(values) // count for batch in range(count + 1)]
    return np.array(
        [statistics.median(values[low:high]) for low, high in zip(bounds, bounds[1:])], dtype=float
    )


def _step(at: np.ndarray, values: np.ndarray) -> int | None:
    """Return where a step fits best, two batches at least from the ends; None if a line fits
    better.
    """
    count = len(values)
    splits = np.arange(2, len(values) - 1)
    centred = values - values.mean()
    # What the two means leave: the sums before and behind a place are each other's, with the other
    # sign.
    before = centred.cumsum()[splits - 1]
    squares = centred @ centred - before**2 * count / (splits * (count - splits))
    best = int(np.argmin(squares))
    _, residuals, _ = _regression(values, np.ones(count), at)
    return int(splits[best]) if squares[best] < residuals @ residuals else None


def _slope(values: np.ndarray, *columns: np.ndarray) -> _Slope:
    """Return the coefficient of the last column, which is time, by generalised least squares."""
    at = columns[-1]
    _, residuals, _ = _regression(values, *columns)
    share = _share(residuals)
    coefficient, residuals, weight = _regression(
        _whitened(values, share), *(_whitened(column, share) for column in columns)
    )
    freedom = len(at) - len(columns) - 1
    kept = _kept(
        residuals
    )  # batches of a random walk keep a quarter of each other's steps (H. Working, 1960)
    error = math.sqrt(residuals @ residuals / freedom / weight * (1 + kept) / (1 - kept))
    return _Slope(coefficient, math.hypot(error, 1 / (at[-1] - at[0])), freedom)


def _kept(residuals: np.ndarray) -> float:
    """Return how much of an error is in the next one."""
    squares = residuals @ residuals
    return max(0.0, float(residuals[1:] @ residuals[:-1] / squares)) if squares else 0.0


def _share(residuals: np.ndarray) -> float:
    """Return what the errors keep; the estimate is (2 + 4 share) / count too low beside a line."""
    kept = _kept(residuals)
    count = len(residuals)
    share = kept + (2 + 4 * kept) / count
    may_be_one = share + _MAY_BE_ONE * math.sqrt((1 - kept**2) / count) >= 1
    return _MOST_SHARE if may_be_one else share


def _whitened(values: np.ndarray, share: float) -> np.ndarray:
    """Return the series without what each value keeps of the one before."""
    return np.append(values[0] * math.sqrt(1 - share**2), values[1:] - share * values[:-1])


def _regression(values: np.ndarray, *columns: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Return the coefficient of the last column, the residuals, and the weight of the
    coefficient.
    """
    basis, sizes = np.linalg.qr(np.column_stack(columns))
    parts = basis.T @ values
    return float(parts[-1] / sizes[-1, -1]), values - basis @ parts, float(sizes[-1, -1] ** 2)
