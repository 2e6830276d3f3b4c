"""Memory over time: its slope with the confidence in it, and whether it grew and is level, or is growing still.

Readings of memory depend on those before: an interval that takes each as a new one is far too narrow. So points are
first taken together in at most 60 batches, a median each (B. Schmeiser, Batch size effects in the analysis of
simulation output, 1982). A line is fitted to these by generalised least squares, with errors that keep a share of the
one before (Prais and Winsten, 1954); a share that may be 1 is taken as 1 (P. Perron and T. Yabu, Estimating
deterministic trends with an integrated or stationary noise component, 2009). Growth in k equal steps has then k ** 0.5
standard errors. Where one step fits better than a line, growth counts only as far as it is seen besides the step.

The verdict, by the first rule that holds:

1. growing: the whole series grows at 99 %, and the last half at 75 % and half as fast at least; or the last half grows
   at 99.5 %, and ends higher than the first ever was. Falling is the same, the other way round;
2. grew_then_level: from the step on that fits better than a line, growth and fall above the resolution, and above
   LEAST_GROWTH_BYTES_PER_S, can be excluded at 97.5 % each; that part is 45 % of the series or more, and lies higher
   than what came before it, by more than the noise;
3. level: the same can be excluded for the whole series. Where only for the last half or more of it: grew_then_level
   where that lies higher than what came before it, level where it does not;
4. unknown.

benchmarks/trend_accuracy.py measures how often that is right.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEAST_GROWTH_BYTES_PER_S", "LEAST_POINTS", "Trend", "trend"]

#: What could hide more than this is not called level: the leak that a run of 2 minutes must find, 1 MB a minute.
LEAST_GROWTH_BYTES_PER_S = 1e6 / 60
#: Fewer points have no slope with an error.
LEAST_POINTS = 5
_BATCHES = 60
#: By so much the kernel's counter of 2 CPUs may be off between two times, one standard deviation: it is folded in
#: batches of 32 pages for each (lib/percpu_counter.c). What more CPUs do shows in the noise.
_COUNTER_ERROR_BYTES = 128 * 1024
#: One-sided confidence: of a growth, of the last half where the whole grows, of each end of an interval, and of finding
#: a growth of the size of the resolution.
_SURE, _LIKELY, _END, _FOUND = 0.99, 0.75, 0.975, 0.80
#: By so much a growth must be larger than where zero alone had to be excluded, because a step may fit as well and the
#: last half must go on: measured by trend_accuracy.py on 2 minutes of white noise (1.2 for 10 minutes and more).
_HARDER = 1.75
#: The last half is a second try.
_SURE_OF_HALF = (1 + _SURE) / 2
#: The slope of a last half that goes on as the whole did, as a share of that.
_GOES_ON = 0.5
#: A level has lasted for this share of the series at least: so long as what came before it, or nearly.
_LEVEL_SHARE = 0.45
#: More is not claimed: it was not tried on enough series.
_MOST_PERCENT = 99.9
#: Within so many standard errors of 1, a share may be 1; chosen by trend_accuracy.py on random walks.
_MAY_BE_ONE = 2.5
#: A point that is off by so many times what points are off by commonly, from the median of it and its neighbours, is
#: an outlier (the identifier of F. R. Hampel, 1974).
_OUTLIER = 10
#: A share of 1 has no constant term.
_MOST_SHARE = 0.999


@dataclass(frozen=True)
class Trend:
    """What a series of readings says; an interval is of 95 %."""

    #: Of the whole series.
    slope_bytes_per_s: float
    low_bytes_per_s: float
    high_bytes_per_s: float
    #: One-sided, of the part that the verdict is about.
    growing_confidence_percent: float
    #: "level", "grew_then_level", "growing", "falling" or "unknown".
    verdict: str
    #: In the series' own seconds; only of grew_then_level.
    level_after_s: float | None
    #: Of the part that the verdict is about, without its one step where that fits better than a line.
    last_slope_bytes_per_s: float
    last_low_bytes_per_s: float
    last_high_bytes_per_s: float
    #: A steady growth of this size is found at 99 % in four series of five.
    resolution_bytes_per_s: float


@dataclass(frozen=True)
class _Slope:
    """A slope and its standard error, with its degrees of freedom."""

    bytes_per_s: float
    error: float
    freedom: int

    def toward(self, sign: int) -> float:
        """Return the confidence that it is above zero (sign 1), or below (-1)."""
        return statistics.NormalDist().cdf(_normal(sign * self.bytes_per_s / self.error, self.freedom))

    @property
    def reach(self) -> float:
        """Half of the interval."""
        return _student(_END, self.freedom) * self.error

    @property
    def resolution(self) -> float:
        return _HARDER * self._told_from_zero

    @property
    def is_level(self) -> bool:
        return abs(self.bytes_per_s) + self.reach <= min(self._told_from_zero, LEAST_GROWTH_BYTES_PER_S)

    @property
    def _told_from_zero(self) -> float:
        return (_student(_SURE, self.freedom) + _student(_FOUND, self.freedom)) * self.error


@dataclass(frozen=True)
class _Part:
    """A series from one point to its end, in batches."""

    seconds: list[float]
    rss_bytes: list[float]
    #: Of a line alone; and of one beside the step, where that leaves less of growth or fall.
    line: _Slope
    steady: _Slope
    #: The first batch after the step; None where a line fits better.
    step: int | None


@dataclass(frozen=True)
class _Verdict:
    name: str
    slope: _Slope
    level_after_s: float | None = None


def trend(seconds: Sequence[float], rss_bytes: Sequence[int]) -> Trend | None:
    """Return the slope and the verdict of one reading a second, or fewer; None of less than LEAST_POINTS."""
    if len(seconds) < LEAST_POINTS:
        return None
    calm = _calmed(rss_bytes)
    whole = _part(seconds, calm, 0)
    late = _part(seconds, calm, len(seconds) // 2) if len(seconds) >= 2 * LEAST_POINTS else whole
    verdict = _moves(whole, late) or _level(whole, seconds, calm) or _Verdict("unknown", _less_sure(whole, late))
    last = verdict.slope
    return Trend(
        whole.line.bytes_per_s,
        whole.line.bytes_per_s - whole.line.reach,
        whole.line.bytes_per_s + whole.line.reach,
        min(100 * last.toward(1), _MOST_PERCENT),
        verdict.name,
        verdict.level_after_s,
        last.bytes_per_s,
        last.bytes_per_s - last.reach,
        last.bytes_per_s + last.reach,
        last.resolution,
    )


def _calmed(values: Sequence[float]) -> list[float]:
    """Return the series with each outlier replaced by the median of it and its neighbours."""
    inner = [statistics.median(values[place - 1 : place + 2]) for place in range(1, len(values) - 1)]
    medians = [values[0], *inner, values[-1]]
    off = [abs(value - median) for value, median in zip(values, medians)]
    most = _OUTLIER * max(statistics.fmean(sorted(off)[: len(off) * 3 // 4]), _COUNTER_ERROR_BYTES / _OUTLIER)
    return [median if each > most else value for value, median, each in zip(values, medians, off)]


def _moves(whole: _Part, late: _Part) -> _Verdict | None:
    """Return the verdict of a series that grows or falls to its end."""
    for name, sign in (("growing", 1), ("falling", -1)):
        if whole.steady.toward(sign) >= _SURE and _goes_on(whole.line, late.line, sign):
            return _Verdict(name, whole.steady)
        if late.steady.toward(sign) >= _SURE_OF_HALF and _ends_beyond(whole, late, sign):
            return _Verdict(name, late.steady)
    return None


def _goes_on(whole: _Slope, late: _Slope, sign: int) -> bool:
    as_fast = sign * late.bytes_per_s >= _GOES_ON * sign * whole.bytes_per_s
    return as_fast and late.toward(sign) >= _LIKELY


def _ends_beyond(whole: _Part, late: _Part, sign: int) -> bool:
    """Whether the last half ends higher, or lower, than all of the first."""
    before = [sign * rss for at, rss in zip(whole.seconds, whole.rss_bytes) if at < late.seconds[0]]
    return not before or sign * late.rss_bytes[-1] > max(before)


def _less_sure(whole: _Part, late: _Part) -> _Slope:
    return min(whole.steady, late.steady, key=lambda slope: abs(slope.bytes_per_s) / slope.error)


def _level(whole: _Part, seconds: Sequence[float], rss_bytes: Sequence[float]) -> _Verdict | None:
    """Return the verdict of a series that is level, from its beginning or from some point on."""
    count = len(seconds)
    step = 0 if whole.step is None else whole.step * count // len(whole.seconds)
    stepped = _level_from(step, seconds, rss_bytes)
    if stepped is not None and stepped.level_after_s is not None:
        return stepped
    if whole.line.is_level:
        return _Verdict("level", whole.line)
    later = (_level_from(count * eighth // 8, seconds, rss_bytes) for eighth in range(1, 5))
    return stepped or next(filter(None, later), None)


def _level_from(start: int, seconds: Sequence[float], rss_bytes: Sequence[float]) -> _Verdict | None:
    """Return the verdict where the series is level from this point on, and that is long enough."""
    count = len(seconds)
    if not start or count - start < max(_LEVEL_SHARE * count, LEAST_POINTS):
        return None
    part = _part(seconds, rss_bytes, start)
    if not part.line.is_level:
        return None
    rose = _rose(rss_bytes[:start], part)
    return _Verdict("grew_then_level" if rose else "level", part.line, seconds[start] if rose else None)


def _rose(before: Sequence[float], part: _Part) -> bool:
    """Whether the level lies higher than what came before, by more than the noise."""
    noise = max(_COUNTER_ERROR_BYTES, statistics.stdev(part.rss_bytes))
    return statistics.median(part.rss_bytes) - statistics.median(before) > 2 * noise


def _part(seconds: Sequence[float], rss_bytes: Sequence[float], start: int) -> _Part:
    at, values = _batches(seconds[start:]), _batches(rss_bytes[start:])
    line = _line(at, values, ())
    step = _step(at, values)
    steady = line
    if step is not None:
        beside = _line(at, values, ([float(place >= step) for place in range(len(at))],))
        steady = min(line, beside, key=lambda slope: abs(slope.bytes_per_s) / slope.error)
    return _Part(at, values, line, steady, step)


def _batches(values: Sequence[float]) -> list[float]:
    """Return medians of as many neighbours each."""
    count = min(_BATCHES, len(values))
    bounds = [batch * len(values) // count for batch in range(count + 1)]
    return [float(statistics.median(values[low:high])) for low, high in zip(bounds, bounds[1:])]


def _step(at: Sequence[float], values: Sequence[float]) -> int | None:
    """Return where a step fits best, two batches at least from the ends; None where a line fits better."""
    places = range(2, len(values) - 1)
    squares = {place: _squares(values[:place]) + _squares(values[place:]) for place in places}
    place = min(squares, key=squares.__getitem__)
    _, residuals, _ = _regression([_ones(at), at], values)
    return place if squares[place] < _dot(residuals, residuals) else None


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _line(at: Sequence[float], values: Sequence[float], beside: Sequence[Sequence[float]]) -> _Slope:
    """Return the slope by generalised least squares, beside columns of other causes."""
    columns = [_ones(at), *beside, at]
    _, residuals, _ = _regression(columns, values)
    share = _share(residuals)
    slope, residuals, weight = _regression([_whitened(each, share) for each in columns], _whitened(values, share))
    freedom = len(at) - len(columns) - 1
    kept = _kept(residuals)  # batches of a random walk keep a quarter of each other's steps (H. Working, 1960)
    error = math.sqrt(_dot(residuals, residuals) / freedom / weight * (1 + kept) / (1 - kept))
    return _Slope(slope, math.hypot(error, _COUNTER_ERROR_BYTES / (at[-1] - at[0])), freedom)


def _kept(residuals: Sequence[float]) -> float:
    """Return how much of an error is in the next one."""
    squares = _dot(residuals, residuals)
    return max(0.0, _dot(residuals[1:], residuals[:-1]) / squares) if squares else 0.0


def _share(residuals: Sequence[float]) -> float:
    """Return what the errors keep; the estimate is (2 + 4 share) / count too low beside a line."""
    found, count = _kept(residuals), len(residuals)
    share = found + (2 + 4 * found) / count
    may_be_one = share + _MAY_BE_ONE * math.sqrt((1 - found**2) / count) >= 1
    return _MOST_SHARE if may_be_one else share


def _whitened(values: Sequence[float], share: float) -> list[float]:
    """Return the series without what each value keeps of the one before."""
    first = values[0] * math.sqrt(1 - share**2)
    return [first, *(value - share * before for before, value in zip(values, values[1:]))]


def _regression(columns: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[float, list[float], float]:
    """Return the coefficient of the last column, the residuals, and the weight of the coefficient."""
    basis: list[list[float]] = []
    for column in columns:
        basis.append(_without(column, basis))
    weight = _dot(basis[-1], basis[-1])
    return _dot(basis[-1], values) / weight, _without(values, basis), weight


def _without(values: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    """Return what is orthogonal to the basis (modified Gram-Schmidt)."""
    rest = list(values)
    for each in basis:
        factor = _dot(rest, each) / _dot(each, each)
        rest = [value - factor * part for value, part in zip(rest, each)]
    return rest


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(map(operator.mul, left, right)))


def _ones(like: Sequence[float]) -> list[float]:
    return [1.0] * len(like)


# D. L. Wallace, Bounds on normal approximations to Student's and the chi-square distributions, Annals of Mathematical
# Statistics 30, 1959: within 0.5 % of the quantile from 2 degrees of freedom on.
def _normal(student: float, freedom: int) -> float:
    """Return the quantile of the normal distribution that is as rare."""
    size = math.sqrt(freedom * math.log1p(student**2 / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)
    return math.copysign(size, student)


def _student(probability: float, freedom: int) -> float:
    """Return the quantile of Student's distribution."""
    normal = statistics.NormalDist().inv_cdf(probability) * (8 * freedom + 3) / (8 * freedom + 1)
    return math.copysign(math.sqrt(freedom * math.expm1(normal**2 / freedom)), normal)
