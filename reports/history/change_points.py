"""The changes of a series: its change points, drift, wave and outliers, each with its confidence.

series_fit.py finds them. Here are the noise that they are measured by, their sizes, and the range
of runs in which a change may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from reusebench.reports.base.student import lower_tail, quantile
from reusebench.reports.compare.changes import CONFIDENCE
from reusebench.reports.compare.difference import NO_CHANGE, Difference
from reusebench.reports.history.series_fit import SeriesFit, fit_series, refitted
from reusebench.reports.history.series_noise import Fitted, series_noise
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric

#: Least length of a series with change points.
LEAST_RUNS = 4
#: Bound at 95 % for twice the log-likelihood that other places of a change point may lack: B. E.
#: Hansen, Sample splitting and threshold estimation, Econometrica 68 (2000), table I.
_LIKELIHOOD_BOUND = 7.35
#: Least noise as a share of the range of the means; below it rounding errors would count.
_LEAST_NOISE = 1e-6
#: Limit of fits: each is measured by the noise that the one before left.
_MOST_FITS = 4
#: Change of the noise that needs no other fit.
_SAME_NOISE = 0.15
#: Largest distance of a run on two axes, as a share of the series, that makes no difference.
_SAME_AXIS = 0.01
#: Number of runs that are no level if they are higher, or lower, than both levels around.
_LONGEST_EXCURSION = 2
#: Number of places of a period at which a wave's height is looked up.
_PLACES = 200


@dataclass(frozen=True)
class ChangePoint:
    """One change of level; runs are counted from 0."""

    #: The first run of the new level.
    run: int
    #: The first run of the old level.
    start: int
    #: The first run after the new level.
    end: int
    #: Range at 95 % of the first run of the new level.
    earliest: int
    latest: int
    #: Difference of the two levels at this run, without the wave, with an interval at CONFIDENCE
    #: for this change only.
    difference: Difference
    #: Upper bound of the share of tables, of as many series without a change, that show a change as
    #: clear as this one.
    p_value: float


@dataclass(frozen=True)
class Drift:
    """A steady rise or fall beside the changes of level."""

    #: Rise from the first run to the last, and half the width of its interval at CONFIDENCE.
    rise: float
    error: float
    #: From the first run to the last. The seconds are None if it is steady by the number of runs.
    seconds: float | None
    runs: int


@dataclass(frozen=True)
class Wave:
    """A rise and fall that returns."""

    #: Half the distance of the lowest and the highest value, and half the width of its interval at
    #: CONFIDENCE.
    amplitude: float
    error: float
    #: Length of a period. The seconds are None if it is steady by the number of runs.
    seconds: float | None
    runs: float
    #: Number of periods in the series.
    periods: float


@dataclass(frozen=True)
class SeriesChanges:
    """What the runs of a series have beside noise."""

    #: Oldest first.
    points: tuple[ChangePoint, ...] = ()
    drift: Drift | None = None
    wave: Wave | None = None
    #: Key: a run that is far from its level, without being one; value: its distance.
    outliers: dict[int, float] = field(default_factory=dict)
    #: By run: the level with the drift, and what the wave adds.
    levels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    waves: np.ndarray = field(default_factory=lambda: np.zeros(0))


def series_changes(
    metric: Metric,
    runs: SeriesRuns,
    times: Sequence[float] | np.ndarray | None = None,
    series: int = 1,
) -> SeriesChanges:
    """Return the significant changes of a series of runs, the oldest first.

    Their confidence is that of a table with `series` series. `times` are in seconds and in order;
    without them the runs are at equal distances.
    """
    if not len(runs):
        return SeriesChanges()
    tests = series * (len(runs) - 1)
    judged = [_Judged(metric, runs, axis, tests) for axis in _axes(times, len(runs))]
    return min(judged, key=lambda one: one.cost).changes()


def _axes(
    times: Sequence[float] | np.ndarray | None, count: int
) -> Iterator[tuple[np.ndarray, float | None]]:
    """Yield the positions of the runs from 0 to 1 by time, and by number if that is different.

    Each with the number of seconds from the first to the last.
    """
    numbers = np.linspace(0.0, 1.0, count)
    if times is None or times[-1] <= times[0]:
        yield numbers, None
        return
    seconds = float(times[-1] - times[0])
    by_time = (np.array(times) - times[0]) / seconds
    yield by_time, seconds
    if np.abs(by_time - numbers).max() > _SAME_AXIS:
        yield numbers, None


class _Judged:
    """A series on one axis."""

    def __init__(
        self,
        metric: Metric,
        runs: SeriesRuns,
        axis: tuple[np.ndarray, float | None],
        tests: int,
    ) -> None:
        self._metric = metric
        self._runs = runs
        self._means = runs.means
        self._times, self._seconds = axis
        self._tests = tests
        self._noise = series_noise(metric, runs)
        #: Whether a run is taken for an outlier whatever the fit says.
        self._is_excluded = np.zeros(len(runs), dtype=bool)
        self._fit: SeriesFit | None = None
        self._significant: list[ChangePoint] = []
        #: In the metric's unit: the first run, and the standard deviation of a run.
        self._first = float(runs.means[0])
        self._deviation = self._deviation_of_runs()
        if len(runs) >= LEAST_RUNS and self._noise.freedom and np.ptp(runs.means):
            self._search()

    @property
    def cost(self) -> float:
        """The squares that are left, and the price of the parts; the better axis costs less."""
        if self._fit is None:
            return 0.0
        return self._fit.cost * self._deviation**2

    def changes(self) -> SeriesChanges:
        """Return levels, drift, waves and outliers in the metric's unit."""
        fit = self._fit
        if fit is None:
            levels = np.full(len(self._runs), self._means.mean())
            return SeriesChanges(levels=levels, waves=np.zeros(len(levels)))
        far = np.flatnonzero(~fit.is_inlier)
        rest = fit.residuals * self._deviation
        levels = self._first + (fit.levels + fit.drift) * self._deviation
        return SeriesChanges(
            points=tuple(self._significant),
            drift=self._drift(fit),
            wave=self._wave(fit),
            outliers={int(run): float(rest[run]) for run in far},
            levels=levels,
            waves=fit.wave * self._deviation,
        )

    def _search(self) -> None:
        """Find the fit, with the noise that it leaves, and drop what is not significant."""
        self._fit_with_noise()
        while True:
            excursions = self._short_excursions()
            if not excursions.any():
                break
            self._is_excluded |= excursions
            self._fit_with_noise()
        while True:
            fit = self._best_fit()
            self._significant = list(self._points(fit))
            doubtful = [point for point in self._significant if not _is_significant(point)]
            if not doubtful:
                break
            least = max(doubtful, key=lambda point: point.p_value)
            bounds = [bound for bound in fit.bounds if bound != least.run]
            self._fit = refitted(fit, bounds, self._quantile() ** 2, self._is_excluded)

    def _fit_with_noise(self) -> None:
        for _ in range(_MOST_FITS):
            before = self._deviation
            values = (self._means - self._first) / before
            fit = fit_series(self._times, values, self._quantile() ** 2, self._is_excluded)
            fitted = Fitted(
                self._means - fit.trend * before,
                fit.residuals * before,
                fit.is_inlier,
                fit.bounds[1:-1],
                fit.trend_count,
            )
            self._noise = series_noise(self._metric, self._runs, fitted)
            self._deviation = self._deviation_of_runs()
            self._fit = fit.scaled(before / self._deviation)
            if abs(self._deviation / before - 1) <= _SAME_NOISE:
                break

    def _short_excursions(self) -> np.ndarray:
        """Return whether each run is one of two that are higher, or lower, than both levels around.

        The search takes them for a level if the levels around are different.
        """
        fit = self._best_fit()
        is_excursion = np.zeros(len(self._runs), dtype=bool)
        levels = fit.factors[: fit.level_count]
        for number in range(1, fit.level_count - 1):
            start, end = fit.bounds[number : number + 2]
            around = (levels[number - 1], levels[number + 1])
            is_between = min(around) <= levels[number] <= max(around)
            if fit.is_inlier[start:end].sum() <= _LONGEST_EXCURSION and not is_between:
                is_excursion[start:end] = True
        return is_excursion

    def _best_fit(self) -> SeriesFit:
        assert self._fit is not None
        return self._fit

    def _quantile(self) -> float:
        """Return the least size of a significant change in standard errors."""
        return -quantile(self._noise.freedom, (1 - CONFIDENCE) / self._tests / 2)

    def _errors(self) -> float:
        """Return half the width of an interval at CONFIDENCE in standard errors."""
        return -quantile(self._noise.freedom, (1 - CONFIDENCE) / 2)

    def _deviation_of_runs(self) -> float:
        """Return the standard deviation of a run: runs may differ in the number of repeats."""
        variance = self._noise.repeat**2 * self._runs.share_of_repeats + self._noise.run**2
        return max(variance**0.5, _LEAST_NOISE * float(np.ptp(self._means))) or 1.0

    def _points(self, fit: SeriesFit) -> Iterator[ChangePoint]:
        if fit.level_count == 1:
            return
        covariance = fit.covariance()
        steady = self._first + fit.drift * self._deviation
        for number, run in enumerate(fit.bounds[1:-1]):
            start = fit.bounds[number]
            end = fit.bounds[number + 2]
            change = fit.factors[number + 1] - fit.factors[number]
            pair = covariance[number : number + 2, number : number + 2]
            error = float(pair[0, 0] + pair[1, 1] - 2 * pair[0, 1]) ** 0.5
            p_value = 2 * lower_tail(self._noise.freedom, -abs(float(change)) / error)
            earliest, latest = _range(fit, start, run, end)
            before = self._runs.between(start, run)
            after = self._runs.between(run, end)
            yield ChangePoint(
                run=run,
                start=start,
                end=end,
                earliest=earliest,
                latest=latest,
                difference=Difference(
                    base_median=float(np.median(before)),
                    head_median=float(np.median(after)),
                    base_count=len(before),
                    head_count=len(after),
                    base_mean=float(steady[run] + fit.factors[number] * self._deviation),
                    change=float(change) * self._deviation,
                    error=max(self._errors() * error * self._deviation, self._metric.resolution),
                    noise=self._noise,
                ),
                p_value=min(1.0, self._tests * p_value),
            )

    def _drift(self, fit: SeriesFit) -> Drift | None:
        if not fit.shape.has_drift:
            return None
        place = fit.level_count
        error = float(fit.covariance()[place, place]) ** 0.5
        return Drift(
            rise=float(fit.factors[place]) * self._deviation,
            error=self._errors() * error * self._deviation,
            seconds=self._seconds,
            runs=len(self._runs) - 1,
        )

    def _wave(self, fit: SeriesFit) -> Wave | None:
        frequency = fit.shape.frequency
        if not fit.shape.tones:
            return None
        heights = fit.wave_at(np.linspace(0, 1 / frequency, _PLACES))
        error = (2 / int(fit.is_inlier.sum())) ** 0.5
        return Wave(
            amplitude=float(np.ptp(heights)) / 2 * self._deviation,
            error=self._errors() * error * self._deviation,
            seconds=None if self._seconds is None else self._seconds / frequency,
            runs=(len(self._runs) - 1) / frequency,
            periods=frequency,
        )


def _is_significant(point: ChangePoint) -> bool:
    return point.p_value <= 1 - CONFIDENCE and point.difference.verdict != NO_CHANGE


def _range(fit: SeriesFit, start: int, run: int, end: int) -> tuple[int, int]:
    """Return the first and the last run at which the change would be hardly less likely.

    An outlier says nothing: beside a change it may belong to either level.
    """
    inliers = np.flatnonzero(fit.is_inlier[start:end]) + start
    values = (fit.values - fit.trend)[inliers]
    split = int(np.searchsorted(inliers, run))
    counts = np.arange(1, len(values))
    means = np.cumsum(values)[:-1] / counts
    means_after = np.cumsum(values[::-1])[::-1][1:] / counts[::-1]
    gains = (means_after - means) ** 2 / (1 / counts + 1 / counts[::-1])
    likely = np.flatnonzero(gains[split - 1] - gains <= _LIKELIHOOD_BOUND)
    return int(inliers[likely[0]]) + 1, int(inliers[likely[-1] + 1])
