"""The trend of readings over time, or over cycles: the slope, its confidence, and a verdict.

Readings of memory depend on the readings before. An interval that takes each reading as independent
is far too narrow. The slope is fitted in these steps:

- Points are grouped into at most 60 batches, and each batch is replaced by its median (B.
  Schmeiser, Batch size effects in the analysis of simulation output, 1982).
- A line is fitted by generalised least squares, with errors that keep a share of the previous error
  (Prais and Winsten, 1954). A share that may be 1 is taken as 1 (P. Perron and T. Yabu, Estimating
  deterministic trends with an integrated or stationary noise component, 2009).
- Growth in k equal steps has then k ** 0.5 standard errors. If one step fits better than a line,
  only the growth in addition to the step counts.
- A leak may come in pieces. A piece is a rise after which no reading was as low as one before it.
  The true growth may have one piece more, or one less, than the series: the interval is that much
  wider at each end. If a step is left out, or the part before it, the step may be a piece that
  comes again when the longer of the times before and after it has passed once more.

The verdict, by the first rule that holds:

1. level: the whole interval lies within Precision.least_growth, of growth and of fall.
2. growing: the whole series grows at 99 %, and its last half grows at 75 % and at least half as
   fast. Or the last half grows at 99.5 %, and ends higher than the first half ever was. Falling is
   the mirror of growing.
3. grew_then_level: the interval of the part after the step that fits better than a line, or of the
   last half or more, lies within Precision.least_growth. That part is 45 % of the series or more,
   and it is higher than the part before, by more than the noise. If it is not higher, the verdict
   is level.
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

#: The slope of fewer points has no error.
LEAST_POINTS = 5
_BATCHES = 60
#: One-sided confidence in a growth.
_SURE = 0.99
#: One-sided confidence in the growth of the last half, if the whole grows.
_LIKELY = 0.75
#: One-sided confidence in each end of an interval.
_END = 0.975
#: Probability of detecting a growth of the size of the resolution.
_FOUND = 0.80
#: Extra factor on the detectable growth over a plain "slope > 0" test, since a step may fit as well
#: and growth must continue in the last half. Measured by trend_accuracy.py on 2 minutes of white
#: noise (1.2 for 10 minutes and more).
_HARDER = 1.75
#: The confidence in the growth of the last half, which is a second try.
_SURE_OF_HALF = (1 + _SURE) / 2
#: The slope of the last half, as a share of the whole's slope, if growth continues.
_GOES_ON = 0.5
#: The least share of the series that a level lasts, nearly as long as the part before.
_LEVEL_SHARE = 0.45
#: The highest confidence that is claimed: more was not tried on enough series.
_MOST_PERCENT = 99.9
#: A share within this number of standard errors of 1 may be 1. Chosen by trend_accuracy.py on
#: random walks.
_MAY_BE_ONE = 2.5
#: An outlier is farther from the median of itself and its neighbours than the common distance by
#: this factor (the identifier of F. R. Hampel, 1974).
_OUTLIER = 10
#: The share that stands for 1, because a share of 1 has no constant term.
_MOST_SHARE = 0.999


@dataclass(frozen=True)
class Precision:
    """The precision of a kind of readings, in their own unit."""

    #: Growth per unit of time. A series that could hide more than this is not called level.
    least_growth: float
    #: The standard deviation of a reading from the true value, however little the readings differ.
    reading_error: float


@dataclass(frozen=True)
class Trend:
    """The trend of the part of a series that the verdict is about."""

    #: "level", "grew_then_level", "growing", "falling" or "unknown".
    verdict: str
    #: The series' own time when the level began; None for all verdicts but grew_then_level.
    level_after: float | None
    #: Growth per unit of time, without the step if one fits better than a line.
    slope: float
    #: The ends of the slope's 95 % interval.
    low: float
    high: float
    #: The one-sided confidence that the slope is above zero.
    growing_confidence_percent: float
    #: The steady growth that is detected at 99 % in four series of five.
    resolution: float
    #: The part of the interval that falls with the length alone: one piece more, and the error of a
    #: single reading.
    coarse: float

    def length_needed(self, least_growth: float) -> float:
        """Return the factor of length that a series needs to show growth above the limit, or none.

        The scatter of a slope falls with the length ** 1.5. A slope of noise alone lies within half
        of its scatter, which adds to it.
        """
        scatter = max(0.0, 1.5 * ((self.high - self.low) / 2 - self.coarse))
        return max(1.0, math.pow(scatter / least_growth, 2 / 3) + self.coarse / least_growth)


@dataclass(frozen=True)
class _Slope:
    """A slope and its standard error, with its degrees of freedom."""

    value: float
    error: float
    #: The part of the error that a single reading has, however little the readings differ.
    floor: float
    freedom: int

    def toward(self, sign: int) -> float:
        """Return the confidence that it is above zero (sign 1), or below (-1)."""
        return lower_tail(self.freedom, sign * self.value / self.error)

    def errors(self, *confidences: float) -> float:
        """Return the sum of these quantiles of Student's distribution, in the slope's unit."""
        return sum(quantile(self.freedom, confidence) for confidence in confidences) * self.error

    @property
    def farthest(self) -> float:
        """The end of the 95 % interval that is farther from zero, without its sign."""
        return abs(self.value) + self.errors(_END)

    @property
    def steepness(self) -> float:
        """The slope in standard errors, without its sign."""
        return abs(self.value) / self.error


@dataclass(frozen=True)
class _Part:
    """A series from one point to its end, in batches; readings are in units of their error."""

    times: np.ndarray
    readings: np.ndarray
    #: The slope of a line alone.
    line: _Slope
    #: The slope of a line in addition to the step, if that is less steep; otherwise `line`.
    steady: _Slope
    #: The first batch after the step; None if a line fits better.
    step: int | None
    #: The growth by one piece more.
    piece: float

    def is_level(self, least_growth: float, piece: float) -> bool:
        """Whether growth and fall above `least_growth` are excluded."""
        return self.line.farthest + piece <= least_growth


@dataclass(frozen=True)
class _Judged:
    """A verdict, with the slope of the part that it is about."""

    verdict: str
    slope: _Slope
    piece: float
    level_after: float | None = None


def trend(times: Sequence[float], readings: Sequence[float], precision: Precision) -> Trend | None:
    """Return the trend of readings at these times; None for fewer than LEAST_POINTS."""
    return _trend(tuple(times), tuple(readings), precision)


# A page asks for each series several times, and in each language. An hour of streams is 3,600
# readings.
@functools.lru_cache(maxsize=256)
def _trend(
    times: tuple[float, ...],
    readings: tuple[float, ...],
    precision: Precision,
) -> Trend | None:
    if len(times) < LEAST_POINTS:
        return None
    unit = precision.reading_error
    values = _without_outliers(np.array(readings, dtype=float) / unit)
    whole = _part(times, values, 0)
    last_half = whole
    if len(times) >= 2 * LEAST_POINTS:
        last_half = _part(times, values, len(times) // 2)

    least_growth = precision.least_growth / unit
    judged = None
    if whole.is_level(least_growth, whole.piece):
        judged = _Judged("level", whole.line, whole.piece)
    judged = judged or _moving(whole, last_half)
    judged = judged or _level_at_its_end(whole, times, values, least_growth)
    if judged is None:
        part = min(whole, last_half, key=lambda part: part.steady.farthest)
        judged = _Judged("unknown", part.steady, max(part.piece, _repeated(times, values)))
    slope = judged.slope
    reach = slope.errors(_END) + judged.piece
    return Trend(
        verdict=judged.verdict,
        level_after=judged.level_after,
        slope=unit * slope.value,
        low=unit * (slope.value - reach),
        high=unit * (slope.value + reach),
        growing_confidence_percent=min(100 * slope.toward(1), _MOST_PERCENT),
        resolution=unit * _HARDER * slope.errors(_SURE, _FOUND),
        coarse=unit * (judged.piece + slope.floor * slope.errors(_END) / slope.error),
    )


def _without_outliers(readings: np.ndarray) -> np.ndarray:
    """Return the series with each outlier replaced by the median of itself and its neighbours."""
    medians = readings.copy()
    neighbours = [readings[:-2], readings[1:-1], readings[2:]]
    medians[1:-1] = np.median(neighbours, axis=0)
    distances = abs(readings - medians)
    common = np.sort(distances)[: len(distances) * 3 // 4].mean()
    return np.where(distances > max(_OUTLIER * common, 1), medians, readings)


def _moving(whole: _Part, last_half: _Part) -> _Judged | None:
    """Return the verdict on a series that grows or falls to its end; None if it does not."""
    for name, sign in (("growing", 1), ("falling", -1)):
        is_sure = whole.steady.toward(sign) >= _SURE
        goes_on = sign * last_half.line.value >= _GOES_ON * sign * whole.line.value
        if is_sure and goes_on and last_half.line.toward(sign) >= _LIKELY:
            return _Judged(name, whole.steady, whole.piece)

        before = sign * whole.readings[whole.times < last_half.times[0]]
        ends_beyond = all(sign * last_half.readings[-1] > before)
        if last_half.steady.toward(sign) >= _SURE_OF_HALF and ends_beyond:
            return _Judged(name, last_half.steady, last_half.piece)
    return None


def _level_at_its_end(
    whole: _Part,
    times: Sequence[float],
    readings: np.ndarray,
    least_growth: float,
) -> _Judged | None:
    """Return the verdict on a series that is level at its end; None if it is not."""
    count = len(times)
    if whole.step is not None:
        step = whole.step * count // len(whole.times)
        after_step = _level_from(step, times, readings, least_growth)
        if after_step:
            return after_step

    for eighth in range(1, 5):
        judged = _level_from(count * eighth // 8, times, readings, least_growth)
        if judged:
            return judged
    return None


def _level_from(
    start: int,
    times: Sequence[float],
    readings: np.ndarray,
    least_growth: float,
) -> _Judged | None:
    """Return the verdict if the series is level from this point on, and for long enough."""
    count = len(times)
    if not start or count - start < max(_LEVEL_SHARE * count, LEAST_POINTS):
        return None
    part = _part(times, readings, start)
    piece = max(part.piece, _repeated(times, readings))
    if not part.is_level(least_growth, piece):
        return None
    noise = max(1.0, part.readings.std(ddof=1))
    if np.median(part.readings) - np.median(readings[:start]) > 2 * noise:
        return _Judged("grew_then_level", part.line, piece, times[start])
    return _Judged("level", part.line, piece)


def _part(times: Sequence[float], readings: np.ndarray, start: int) -> _Part:
    """Return the series from the point with this index to its end."""
    batch_times = _batches(times[start:])
    values = _batches(readings[start:].tolist())
    ones = np.ones(len(batch_times))
    line = _slope(values, ones, batch_times)
    steady = line
    step = _step(batch_times, values)
    if step is not None:
        after_step = np.arange(len(batch_times)) >= step
        with_step = _slope(values, ones, after_step, batch_times)
        steady = min(line, with_step, key=lambda slope: slope.steepness)
    piece = float(_rises(readings[start:]).max()) / (times[-1] - times[start])
    return _Part(batch_times, values, line, steady, step, piece)


def _rises(readings: np.ndarray) -> np.ndarray:
    """Return the rise before each reading but the first, if none after is as low as one before."""
    highest_before = np.maximum.accumulate(readings)[:-1]
    lowest_after = np.minimum.accumulate(readings[::-1])[::-1][1:]
    rises: np.ndarray = np.maximum(lowest_after - highest_before, 0.0)
    return rises


def _repeated(times: Sequence[float], readings: np.ndarray) -> float:
    """Return the fastest growth in pieces of which the series has only one."""
    at = np.array(times[1:], dtype=float)
    return float((_rises(readings) / np.maximum(at - times[0], times[-1] - at)).max())


def _batches(values: Sequence[float]) -> np.ndarray:
    """Return the medians of batches of neighbours, all of the same size or one more."""
    count = min(_BATCHES, len(values))
    bounds = [batch * len(values) // count for batch in range(count + 1)]
    medians = [statistics.median(values[low:high]) for low, high in zip(bounds, bounds[1:])]
    return np.array(medians, dtype=float)


def _step(times: np.ndarray, values: np.ndarray) -> int | None:
    """Return the index at which a step fits best; None if a line fits better.

    A step is at least two batches from the ends.
    """
    count = len(values)
    splits = np.arange(2, len(values) - 1)
    centred = values - values.mean()
    # The squares that remain after subtracting the two means. The sum after a split is the sum
    # before it, with the other sign.
    before = centred.cumsum()[splits - 1]
    squares = centred @ centred - before**2 * count / (splits * (count - splits))
    best = int(np.argmin(squares))
    _, residuals, _ = _regression(values, np.ones(count), times)
    if squares[best] < residuals @ residuals:
        return int(splits[best])
    return None


def _slope(values: np.ndarray, *columns: np.ndarray) -> _Slope:
    """Return the coefficient of the last column, which is time, by generalised least squares."""
    times = columns[-1]
    _, residuals, _ = _regression(values, *columns)
    share = _kept_share(residuals)
    whitened = [_whitened(column, share) for column in columns]
    coefficient, residuals, weight = _regression(_whitened(values, share), *whitened)

    freedom = len(times) - len(columns) - 1
    # Batches of a random walk keep a quarter of each other's steps (H. Working, 1960).
    kept = _correlation(residuals)
    error = math.sqrt(residuals @ residuals / freedom / weight * (1 + kept) / (1 - kept))
    floor = 1 / (times[-1] - times[0])
    return _Slope(coefficient, math.hypot(error, floor), floor, freedom)


def _correlation(residuals: np.ndarray) -> float:
    """Return the correlation of an error with the next one, at least 0."""
    squares = residuals @ residuals
    if not squares:
        return 0.0
    return max(0.0, float(residuals[1:] @ residuals[:-1] / squares))


def _kept_share(residuals: np.ndarray) -> float:
    """Return the share of an error that the next one keeps.

    The correlation of residuals of a line is (2 + 4 share) / count too low.
    """
    correlation = _correlation(residuals)
    count = len(residuals)
    share = correlation + (2 + 4 * correlation) / count
    standard_error = math.sqrt((1 - correlation**2) / count)
    if share + _MAY_BE_ONE * standard_error >= 1:
        return _MOST_SHARE
    return share


def _whitened(values: np.ndarray, share: float) -> np.ndarray:
    """Return the series without the share of the previous value in each value."""
    first = values[0] * math.sqrt(1 - share**2)
    others = values[1:] - share * values[:-1]
    return np.append(first, others)


def _regression(values: np.ndarray, *columns: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Return (coefficient of the last column, residuals, weight of the coefficient)."""
    basis, sizes = np.linalg.qr(np.column_stack(columns))
    parts = basis.T @ values
    size = sizes[-1, -1]
    residuals = values - basis @ parts
    return float(parts[-1] / size), residuals, float(size**2)
