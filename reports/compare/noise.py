"""The noise of a figure: its changes from process to process, and from run to run, by chance.

Memory does not follow a bell curve. Allocated application memory is often two-valued: with one
context of MobileNetV2 on ONNX Runtime, two of five processes had 49.4 MiB and the others 50.6 MiB
(1,200 processes). Three repeats may all show one value, and those of the next run the other.
Therefore the earlier runs of a series define the noise. Without enough of them, the noise is at
least the known one of the figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.storage.metrics import BYTES, NANOSECONDS, PER_SECOND, TOKENS_PER_SECOND, Metric

#: One run's values of a figure, one per repeat.
RunValues = Sequence[float]

#: Number of earlier runs from which they define the noise.
ENOUGH_RUNS = 5
#: Standard deviations of repeats in percent of the figure, for series without enough runs.
#: Configurations differ. In whole runs of the bench, repeats of application memory changed by 0.02
#: % on MegEngine Lite; on ONNX Runtime by 1 % at the median, and by 5 % in one of ten
#: configurations; on the virtual board by 0.04 %, and once by 9 %.
_KNOWN_PERCENT = {
    "application_memory": 3.0,
    "application_memory_over_baseline": 3.0,
    "application_memory_trimmed": 3.0,
    "application_memory_trimmed_over_baseline": 3.0,
    "application_peak_rss": 3.0,
    "application_rss": 3.0,
    "application_pss": 3.0,
    "application_uss": 3.0,
    "process_peak_rss": 3.0,
    "baseline_memory": 1.0,
    "decoder_memory": 3.0,
    "residue_memory": 20.0,
    "system_memory": 5.0,
    "latency": 10.0,
    "latency_p99": 25.0,
    "throughput": 10.0,
    "first_token": 10.0,
    "prompt_speed": 10.0,
    "generation_speed": 10.0,
    "generation_speed_all": 10.0,
}
#: Degrees of freedom of the known deviations, added to those of the runs at hand (G. K. Smyth,
#: Linear models and empirical Bayes methods, 2004: the moderated t). With two repeats only, an
#: interval would be 50 standard errors wide.
_KNOWN_FREEDOM = 8
#: Least standard deviation of runs, in percent. Other processes map some of the same files, and PSS
#: divides their pages: with other work, 50.41 MiB became 50.29 for some consecutive runs. Speed
#: depends on the clock and, on a virtual machine, on its neighbours: over 220 quiet runs, medians
#: of latency changed by 11 %.
_LEAST_RUN_PERCENT = {BYTES: 0.1, NANOSECONDS: 3.0, PER_SECOND: 3.0, TOKENS_PER_SECOND: 3.0}
#: Mean distance of two normal values, in standard deviations.
_MEAN_DISTANCE = 2 / math.pi**0.5


@dataclass(frozen=True)
class Noise:
    """The noise of one figure of one configuration, in the figure's unit."""

    #: Standard deviation of one repeat.
    repeat: float
    #: Standard deviation of a run, in addition to that of its repeats.
    run: float
    #: Degrees of freedom of both; 0 if there is no spread to estimate them from.
    freedom: int
    #: Number of earlier runs that it is estimated from; 0: from the two sides only.
    runs: int

    def error(self, *sides: Sequence[RunValues]) -> float:
        """Return the standard error of the sum or difference of the sides' means."""
        variances = []
        for side in sides:
            repeats = sum(len(run) for run in side)
            variances.append(self.repeat**2 / repeats + self.run**2 / len(side))
        return float(sum(variances) ** 0.5)


def noise_of(
    metric: Metric, sides: Sequence[Sequence[RunValues]], earlier: Sequence[RunValues]
) -> Noise:
    """Return the noise of the metric, by the two sides and the earlier runs of the series.

    `earlier` are in order.
    """
    runs = [run for side in sides for run in side]
    values = [value for run in runs for value in run]
    percent = abs(statistics.fmean(values)) / 100
    own, own_freedom = _deviation_of_repeats(runs)
    if len(earlier) < ENOUGH_RUNS:
        return _moderated(own, own_freedom, percent * _KNOWN_PERCENT.get(metric.name, 0))

    known, freedom = _deviation_of_repeats(earlier)
    between = _deviation_of_runs(earlier, known)
    least_between = least_deviation_of_runs(metric, statistics.fmean(values))
    if between > least_between or not freedom:
        freedom = len(earlier) - 1
    # An outlying repeat must not pass for a change: it widens the noise of its own comparison.
    return Noise(max(own, known), max(between, least_between), freedom, len(earlier))


def least_deviation_of_runs(metric: Metric, mean: float) -> float:
    """Return the least standard deviation of runs, in addition to that of their repeats."""
    # Counted bytes have no known noise.
    if metric.name not in _KNOWN_PERCENT:
        return 0.0
    return abs(mean) / 100 * _LEAST_RUN_PERCENT[metric.unit]


def _moderated(own: float, own_freedom: int, known: float) -> Noise:
    """Return the noise of the runs at hand, moderated by the known deviation if there is one."""
    if not own_freedom:
        return Noise(0.0, 0.0, 0, 0)
    if not known:
        return Noise(own, 0.0, own_freedom, 0)
    freedom = own_freedom + _KNOWN_FREEDOM
    moderated = ((own_freedom * own**2 + _KNOWN_FREEDOM * known**2) / freedom) ** 0.5
    return Noise(max(own, moderated), 0.0, freedom, 0)


def _deviation_of_repeats(runs: Sequence[RunValues]) -> tuple[float, int]:
    """Return the standard deviation of repeats within their runs, and its degrees of freedom."""
    freedom = 0
    squares: list[float] = []
    for run in runs:
        mean = statistics.fmean(run)
        freedom += len(run) - 1
        squares += [(value - mean) ** 2 for value in run]
    if not freedom:
        return 0.0, 0
    return (sum(squares) / freedom) ** 0.5, freedom


def _deviation_of_runs(runs: Sequence[RunValues], repeat: float) -> float:
    """Return the standard deviation of runs, in addition to that of their repeats.

    It follows from the distances of consecutive runs. The largest distance is left out: one change
    is no noise.
    """
    means = [statistics.fmean(run) for run in runs]
    distances = sorted(abs(later - earlier) for earlier, later in zip(means, means[1:]))
    deviation = statistics.fmean(distances[:-1]) / _MEAN_DISTANCE
    explained = repeat**2 * statistics.fmean(1 / len(run) for run in runs)
    return float(max(0.0, deviation**2 - explained) ** 0.5)
