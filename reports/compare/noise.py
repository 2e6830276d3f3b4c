"""How far a figure moves from process to process and from run to run while nothing changes.

Memory is no bell curve. Application memory as allocated is often two-valued: of one context of
MobileNetV2 on ONNX Runtime it was 49.4 MiB in two processes of five and 50.6 MiB in the others
(1,200 processes). Three repeats may all show one value, and those of the next run the other. So the
noise is what the earlier runs of a series show; where there are too few of them it is at least what
is known of the figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.storage.metrics import BYTES, NANOSECONDS, PER_SECOND, Metric

#: One run's values of a figure, one per repeat.
RunValues = Sequence[float]

#: From so many earlier runs on they are what the noise is known from.
ENOUGH_RUNS = 5
#: Standard deviations in percent of the figure that hold before any run of a series is known.
#: Configurations differ: in whole runs of the bench the repeats of application memory moved by 0.02
#: % on MegEngine Lite, on ONNX Runtime by 1 % at the median and by 5 % in one configuration of ten,
#: on the virtual board by 0.04 %, and once by 9 %.
_KNOWN_PERCENT = {
    "application_memory": 3.0,
    "application_memory_over_baseline": 3.0,
    "application_memory_trimmed": 3.0,
    "application_memory_trimmed_over_baseline": 3.0,
    "application_peak_rss": 3.0,
    "application_rss": 3.0,
    "application_uss": 3.0,
    "process_peak_rss": 3.0,
    "baseline_memory": 1.0,
    "decoder_memory": 3.0,
    "residue_memory": 20.0,
    "system_memory": 5.0,
    "latency": 10.0,
    "latency_p99": 25.0,
    "throughput": 10.0,
}
#: How many degrees of freedom they count for beside those of the runs at hand (G. K. Smyth, Linear
#: models and empirical Bayes methods, 2004: the moderated t). With two repeats alone an interval
#: would be 50 standard errors wide.
_KNOWN_FREEDOM = 8
#: Standard deviation of runs in percent, at least. What else runs on the machine maps some of the
#: same files, and PSS divides their pages: beside other work 50.41 MiB became 50.29 for some runs
#: in a row. Speed follows the clock and, on a virtual machine, its neighbours: over 220 quiet runs
#: medians of latency moved by 11 %.
_LEAST_RUN_PERCENT = {BYTES: 0.1, NANOSECONDS: 3.0, PER_SECOND: 3.0}
#: The mean distance of two normal values from each other, in standard deviations of one.
_MEAN_DISTANCE = 2 / math.pi**0.5


@dataclass(frozen=True)
class Noise:
    """The noise of one figure of one configuration, in the figure's unit."""

    #: Standard deviation of one repeat.
    repeat: float
    #: Standard deviation of a run, beyond what its repeats explain.
    run: float
    #: Degrees of freedom of both; 0: nothing shows a spread.
    freedom: int
    #: How many runs it is known from; 0: from the two sides alone.
    runs: int

    def error(self, *sides: Sequence[RunValues]) -> float:
        """Return the standard error of the sum or difference of the sides' means."""
        squares = (self.repeat**2 / sum(map(len, side)) + self.run**2 / len(side) for side in sides)
        return float(sum(squares) ** 0.5)


def noise_of(
    metric: Metric, sides: Sequence[Sequence[RunValues]], earlier: Sequence[RunValues]
) -> Noise:
    """Return the noise that two sides, and the earlier runs of the series in their order, show of
    the metric.
    """
    runs = [run for side in sides for run in side]
    percent = abs(statistics.fmean(value for run in runs for value in run)) / 100
    own, own_freedom = _within(runs)
    if len(earlier) < ENOUGH_RUNS:
        return _moderated(own, own_freedom, percent * _KNOWN_PERCENT.get(metric.name, 0))
    known, freedom = _within(earlier)
    between = _between(earlier, known)
    # Bytes that are counted have no known noise.
    least_between = (
        percent * _LEAST_RUN_PERCENT[metric.unit] if metric.name in _KNOWN_PERCENT else 0.0
    )
    if between > least_between or not freedom:
        freedom = len(earlier) - 1
    # A repeat that is far off shall not pass for a change: it widens the noise of its own
    # comparison.
    return Noise(max(own, known), max(between, least_between), freedom, len(earlier))


def _moderated(own: float, own_freedom: int, known: float) -> Noise:
    """Return the noise of the runs at hand together with what is known; nothing stands for runs
    that show no spread.
    """
    if not own_freedom:
        return Noise(0.0, 0.0, 0, 0)
    if not known:
        return Noise(own, 0.0, own_freedom, 0)
    freedom = own_freedom + _KNOWN_FREEDOM
    moderated = ((own_freedom * own**2 + _KNOWN_FREEDOM * known**2) / freedom) ** 0.5
    return Noise(max(own, moderated), 0.0, freedom, 0)


def _within(runs: Sequence[RunValues]) -> tuple[float, int]:
    """Return the standard deviation of repeats in their runs, and its degrees of freedom."""
    freedom = sum(len(run) - 1 for run in runs)
    squares = sum((value - statistics.fmean(run)) ** 2 for run in runs for value in run)
    return ((squares / freedom) ** 0.5 if freedom else 0.0), freedom


def _between(runs: Sequence[RunValues], repeat: float) -> float:
    """Return the standard deviation of runs beyond that of their repeats, by the distances of
    neighbours.

    The largest distance is left out: one change is no noise.
    """
    means = [statistics.fmean(run) for run in runs]
    distances = sorted(abs(later - earlier) for earlier, later in zip(means, means[1:]))
    of_means = statistics.fmean(distances[:-1]) / _MEAN_DISTANCE
    explained = repeat**2 * statistics.fmean(1 / len(run) for run in runs)
    return float(max(0.0, of_means**2 - explained) ** 0.5)
