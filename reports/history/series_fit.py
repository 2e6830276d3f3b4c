"""The fit of a series: levels, a drift and a wave together, and the outliers.

A drift or a wave must not become steps, and steps must not become a drift. So all of them are
fitted together, and the cheapest combination counts: the sum of squares in standard deviations
(level_search.py), plus a price for each step, for a drift, and for a wave and each of its
overtones. The cheapest of all cannot be searched; those that begin at several drifts and waves are
compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reusebench.reports.history.level_search import OUTLIER_SHARE, best_levels
from reusebench.reports.history.regression import Regression
from reusebench.reports.history.wave_search import FINENESS, LEAST_WAVE, waves_at

#: Least number of runs with a drift.
_LEAST_DRIFT = 6
#: Highest number of frequencies of a wave: the first and its overtones.
_MOST_TONES = 3
#: The first run at which a step is tried.
_FIRST_STEP = 2
#: Limits of the repetitions of the search.
_MOST_ROUNDS = 6
_MOST_PARTS = 12
_NEGLIGIBLE = 1e-9
#: A start whose first fit costs this number of steps more than the best one is given up.
_HOPELESS = 4


@dataclass(frozen=True)
class Prices:
    """What each part of a fit must explain at least, in squares of standard deviations."""

    #: A change of level.
    step: float
    #: Number of runs.
    count: int

    @property
    def outlier(self) -> float:
        """The most that a run can cost."""
        return OUTLIER_SHARE * self.step

    @property
    def drift(self) -> float:
        """A drift; it has no place, of which a step has as many as there are runs."""
        return max(0.0, self.step - 2 * math.log(self.count))

    @property
    def tone(self) -> float:
        """A wave or one of its overtones: two steps, a period of which has at least two."""
        return self.step + self.drift

    def of_parts(self, step_count: int, shape: Shape) -> float:
        """Return the price of steps with this shape."""
        return step_count * self.step + shape.has_drift * self.drift + shape.tones * self.tone


@dataclass(frozen=True)
class Shape:
    """What a series has beside levels."""

    has_drift: bool = False
    #: Periods of the wave in the whole series; 0: no wave.
    frequency: float = 0.0
    #: Number of frequencies of the wave: multiples of the first.
    tones: int = 0

    @property
    def is_level(self) -> bool:
        """Whether there is nothing beside levels."""
        return not self.has_drift and not self.tones

    def columns(self, times: np.ndarray) -> np.ndarray:
        """Return a row for each column of the regression: drift, then each tone's cosine and sine.

        >>> Shape(has_drift=True).columns(np.array([0.0, 1.0]))
        array([[-0.5,  0.5]])
        """
        columns = np.empty((self.has_drift + 2 * self.tones, len(times)))
        if self.has_drift:
            np.subtract(times, 0.5, out=columns[0])
        for tone in range(1, self.tones + 1):
            angles = 2 * np.pi * tone * self.frequency * times
            cosine, sine = columns[self.has_drift + 2 * tone - 2 :][:2]
            np.cos(angles, out=cosine)
            np.sin(angles, out=sine)
        return columns


@dataclass(frozen=True)
class SeriesFit:
    """Levels, drift, wave and outliers of one series, in the unit of its values."""

    #: From 0 to 1, in order.
    times: np.ndarray
    values: np.ndarray
    #: The first run of each level, and the number of runs.
    bounds: list[int]
    shape: Shape
    #: Values of the levels, then factors of the columns of the shape.
    factors: np.ndarray
    #: What drift and wave add to each run.
    trend: np.ndarray
    #: Whether the run is no outlier.
    is_inlier: np.ndarray
    cost: float

    @property
    def level_count(self) -> int:
        """The number of levels."""
        return len(self.bounds) - 1

    @property
    def levels(self) -> np.ndarray:
        """The level of each run, without drift and wave."""
        return np.repeat(self.factors[: self.level_count], np.diff(self.bounds))

    @property
    def drift(self) -> np.ndarray:
        """What the drift adds to each run."""
        if not self.shape.has_drift:
            return np.zeros(len(self.times))
        drift: np.ndarray = self.factors[self.level_count] * (self.times - 0.5)
        return drift

    @property
    def wave(self) -> np.ndarray:
        """What the wave adds to each run."""
        return self.wave_at(self.times)

    @property
    def residuals(self) -> np.ndarray:
        """The distance of each run from its level with drift and wave."""
        rest: np.ndarray = self.values - self.levels - self.trend
        return rest

    @property
    def trend_count(self) -> int:
        """The number of factors of drift and wave; the frequency is one."""
        return len(self.factors) - self.level_count + bool(self.shape.tones)

    def wave_at(self, times: np.ndarray) -> np.ndarray:
        """Return the values of the wave at these times."""
        first = self.level_count + self.shape.has_drift
        wave: np.ndarray = self.factors[first:] @ replace(self.shape, has_drift=False).columns(
            times
        )
        return wave

    def covariance(self) -> np.ndarray:
        """Return the covariances of the factors for noise of deviation 1."""
        design = design_of(self.times, self.bounds, self.shape)[self.is_inlier]
        return np.linalg.pinv(design.T @ design)

    def scaled(self, factor: float) -> SeriesFit:
        """Return the same fit in another unit."""
        return replace(
            self,
            values=self.values * factor,
            factors=self.factors * factor,
            trend=self.trend * factor,
        )


def fit_series(
    times: np.ndarray, values: np.ndarray, step_price: float, is_excluded: np.ndarray
) -> SeriesFit:
    """Return the cheapest fit; `values` are in standard deviations, `times` from 0 to 1.

    Excluded runs are outliers whatever their values are.
    """
    return _Search(times, values, step_price, is_excluded).best()


def refitted(
    fit: SeriesFit, bounds: Sequence[int], step_price: float, is_excluded: np.ndarray
) -> SeriesFit:
    """Return the fit of the same shape with these bounds."""
    search = _Search(fit.times, fit.values, step_price, is_excluded)
    return search.regress(list(bounds), fit.shape, fit.is_inlier)


def design_of(times: np.ndarray, bounds: Sequence[int], shape: Shape) -> np.ndarray:
    """Return the columns of the levels, then those of the shape."""
    levels = np.zeros((len(times), len(bounds) - 1))
    for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
        levels[start:end, number] = 1
    return np.hstack([levels, shape.columns(times).T])


class _Search:
    def __init__(
        self, times: np.ndarray, values: np.ndarray, step_price: float, is_excluded: np.ndarray
    ) -> None:
        self._times = times
        self._values = values
        self._prices = Prices(step_price, len(values))
        self._is_excluded = is_excluded
        self._cleaned = self._without_outliers()
        self._waves = waves_at(times)

    def best(self) -> SeriesFit:
        """Return the cheapest fit of all starts."""
        best = self._settled(Shape(), np.zeros(len(self._values)))
        assert best is not None
        if len(self._values) < _LEAST_DRIFT:
            return best
        if best.level_count == 1 and not self._has_trend():
            return best
        for shape, trend in self._starts(best):
            best = self._settled(shape, trend, best.cost) or best
        while 0 < best.shape.tones < _MOST_TONES:
            shape = replace(best.shape, tones=best.shape.tones + 1)
            if len(self._values) < LEAST_WAVE * shape.tones:
                break
            start = self.regress(best.bounds, shape, best.is_inlier)
            settled = self._settled(shape, start.trend, best.cost)
            if settled is None:
                break
            best = settled
        return best

    def _has_trend(self) -> bool:
        """Whether a drift or a wave would be worth its price in a series of one level."""
        basis = _orthonormal(np.ones((len(self._values), 1)))
        rest = self._cleaned - self._cleaned.mean()
        if self._drift_gain(basis, rest) > self._prices.drift:
            return True
        return self._waves.best(basis, rest)[1] > self._prices.tone

    def _starts(self, flat: SeriesFit) -> Iterator[tuple[Shape, np.ndarray]]:
        """Yield shapes with what they add to each run, to begin the search with."""
        one_level = [0, len(self._values)]
        greedy_bounds, greedy_shape = self._greedy()
        drift = Shape(has_drift=True)
        slope = self._slope_of_distances()
        yield drift, slope * self._times
        for bounds in _distinct(one_level, greedy_bounds):
            yield drift, self._trend(bounds, drift)
        if not greedy_shape.is_level:
            yield greedy_shape, self._trend(greedy_bounds, greedy_shape)
        if len(self._values) < LEAST_WAVE:
            return
        for has_drift in (False, True):
            for bounds in _distinct(one_level, greedy_bounds, flat.bounds):
                basis = _orthonormal(design_of(self._times, bounds, Shape(has_drift)))
                rest = self._cleaned - basis @ (basis.T @ self._cleaned)
                frequency, gain = self._waves.best(basis, rest)
                if gain > 0:
                    shape = Shape(has_drift, frequency, 1)
                    yield shape, self._trend(bounds, shape)

    def _trend(self, bounds: list[int], shape: Shape) -> np.ndarray:
        """Return the share of the shape in each run if the levels have these bounds."""
        return self.regress(bounds, shape, ~self._is_excluded).trend

    def _settled(
        self, shape: Shape, trend: np.ndarray, limit: float = math.inf
    ) -> SeriesFit | None:
        """Return the fit at which levels and trend do not change any more.

        None if it cannot become cheaper than `limit`.
        """
        best: SeriesFit | None = None
        known: list[float] = []
        for _ in range(_MOST_ROUNDS):
            steady = self._values - trend
            bounds = best_levels(steady, self._prices.step, self._is_excluded, known)
            levels = [_middle(steady[start:end]) for start, end in zip(bounds, bounds[1:])]
            rest = steady - np.repeat(levels, np.diff(bounds))
            fit = self.regress(bounds, shape, rest**2 <= self._prices.outlier)
            if best and fit.cost >= best.cost - _NEGLIGIBLE:
                break
            best = fit
            if fit.cost > limit + _HOPELESS * self._prices.step:
                return None
            shape = fit.shape
            trend = fit.trend
            known = list(fit.factors[: fit.level_count])
        assert best is not None
        return best if best.cost < limit else None

    def regress(self, bounds: list[int], shape: Shape, is_inlier: np.ndarray) -> SeriesFit:
        """Return the least squares of levels and shape, with outliers left out.

        The frequency of a wave moves to the best one near it.
        """
        best: SeriesFit | None = None
        regression = Regression(self._values, bounds, is_inlier)
        level_count = len(bounds) - 1
        outlier = self._prices.outlier
        price = self._prices.of_parts(level_count - 1, shape)
        for _ in range(_MOST_ROUNDS):
            columns = shape.columns(self._times)
            factors = regression.factors_of(columns)
            trend = factors[level_count:] @ columns
            rest = self._values - regression.by_run(factors[:level_count]) - trend
            squares = rest**2
            is_inlier = (squares <= outlier) & ~self._is_excluded
            cost = float(np.where(is_inlier, squares, outlier).sum()) + price
            if best and cost >= best.cost - _NEGLIGIBLE:
                break
            best = SeriesFit(
                self._times, self._values, bounds, shape, factors, trend, is_inlier, cost
            )
            if not np.array_equal(is_inlier, regression.is_inlier):
                regression = Regression(self._values, bounds, is_inlier)
            elif not shape.tones:
                break
            shape = self._retuned(best, columns, regression)
        assert best is not None
        return best

    def _retuned(self, fit: SeriesFit, columns: np.ndarray, regression: Regression) -> Shape:
        """Return the shape with the frequency of a step of Gauss and Newton."""
        shape = fit.shape
        if not shape.tones:
            return shape
        derivative = np.zeros(len(self._times))
        waves = columns[shape.has_drift :]
        factors = fit.factors[fit.level_count + shape.has_drift :]
        for tone in range(shape.tones):
            cosine, sine = waves[2 * tone : 2 * tone + 2]
            of_cosine, of_sine = factors[2 * tone : 2 * tone + 2]
            derivative += (tone + 1) * (of_sine * cosine - of_cosine * sine)
        derivative *= 2 * np.pi * self._times
        step = float(regression.factors_of(np.vstack([columns, derivative]))[-1])
        frequency = shape.frequency + min(max(step, -1 / FINENESS), 1 / FINENESS)
        low, high = self._waves.frequencies[[0, -1]]
        return replace(shape, frequency=float(min(max(frequency, low), high)))

    def _greedy(self) -> tuple[list[int], Shape]:
        """Return steps, drift and wave that are taken one after another, the best first."""
        values = self._cleaned
        count = len(values)
        bounds = [0, count]
        shape = Shape()
        for _ in range(_MOST_PARTS):
            basis = _orthonormal(design_of(self._times, bounds, shape))
            rest = values - basis @ (basis.T @ values)
            gains = _step_gains(basis, rest)
            best = int(gains.argmax())
            choices = {"step": gains[best] - self._prices.step}
            if not shape.has_drift:
                choices["drift"] = self._drift_gain(basis, rest) - self._prices.drift
            frequency = 0.0
            if not shape.tones and count >= LEAST_WAVE:
                frequency, gain = self._waves.best(basis, rest)
                choices["wave"] = gain - self._prices.tone
            name = max(choices, key=choices.__getitem__)
            if choices[name] <= 0:
                break
            if name == "step":
                bounds = sorted({*bounds, _FIRST_STEP + best})
            elif name == "drift":
                shape = replace(shape, has_drift=True)
            else:
                shape = replace(shape, frequency=frequency, tones=1)
        return bounds, shape

    def _drift_gain(self, basis: np.ndarray, rest: np.ndarray) -> float:
        drift = self._times - 0.5
        return float(_gains(drift @ rest, drift @ drift, drift @ basis, len(rest)))

    def _slope_of_distances(self) -> float:
        """Return the median slope between runs that are a tenth of the series apart."""
        lag = max(1, len(self._values) // 10)
        times = self._times[lag:] - self._times[:-lag]
        apart = times > 0
        if not apart.any():
            return 0.0
        rises = self._values[lag:] - self._values[:-lag]
        return float(np.median(rises[apart] / times[apart]))

    def _without_outliers(self) -> np.ndarray:
        """Return the values, those far from the median of their neighbours moved to it."""
        reach = 3
        padded = np.pad(self._values, reach, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
        medians = np.median(windows, axis=1)
        is_far = self._is_excluded | ((self._values - medians) ** 2 > self._prices.outlier)
        return np.where(is_far, medians, self._values)


def _distinct(*bounds: list[int]) -> list[list[int]]:
    return [list(one) for one in dict.fromkeys(map(tuple, bounds))]


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    return np.linalg.qr(columns)[0]


def _step_gains(basis: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return the gain of a step at each run from _FIRST_STEP on, without the last run."""
    count = len(rest)
    shown = slice(_FIRST_STEP, count - 1)
    products = rest[::-1].cumsum()[::-1][shown]
    explained = basis[::-1].cumsum(axis=0)[::-1][shown]
    return _gains(products, count - np.arange(count)[shown], explained, count)


def _gains(
    products: np.ndarray, squares: np.ndarray, explained: np.ndarray, count: int
) -> np.ndarray:
    """Return by how much each column alone lessens the sum of squares of the rest.

    By column: its product with the rest, its sum of squares, and its products with the columns of
    the orthonormal basis.
    """
    norms = squares - (explained**2).sum(axis=-1)
    is_own = norms > 1e-6 * count
    gains: np.ndarray = np.where(is_own, products**2 / np.where(is_own, norms, 1), 0)
    return gains


def _middle(values: np.ndarray) -> float:
    """Return the median, or the value below it."""
    return float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
