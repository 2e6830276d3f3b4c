"""The difference of a figure between two sides of runs: size, verdict, and detectable size."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.student import quantile
from reusebench.reports.compare.noise import Noise, RunValues, noise_of
from reusebench.storage.metrics import Metric

HIGHER = "higher"
LOWER = "lower"
#: No change that these repeats could show.
NO_CHANGE = "no change"
#: No side has a second repeat, and there are no earlier runs: the noise is unknown.
TOO_FEW = "too few"


@dataclass(frozen=True)
class Difference:
    """The difference from base to head, in the metric's unit."""

    base_median: float
    head_median: float
    #: Number of repeats.
    base_count: int
    head_count: int
    base_mean: float
    #: Change of the means: the median of a two-valued figure jumps, its mean does not.
    change: float
    #: Half the width of the confidence interval of the change, and so the smallest change that
    #: would have been distinguished from noise. None if the noise is unknown.
    error: float | None
    noise: Noise

    @property
    def percent(self) -> float | None:
        """The change in percent of the base; None if the base is zero."""
        return 100 * self.change / abs(self.base_mean) if self.base_mean else None

    @property
    def verdict(self) -> str:
        """HIGHER, LOWER, NO_CHANGE or TOO_FEW."""
        if self.error is None:
            return TOO_FEW
        if abs(self.change) <= self.error:
            return NO_CHANGE
        return HIGHER if self.change > 0 else LOWER


def difference_of_means(
    metric: Metric,
    base: Sequence[RunValues],
    head: Sequence[RunValues],
    earlier: Sequence[RunValues],
    confidence: float,
) -> Difference:
    """Return the difference of the means, with its interval at this confidence, a share of 1.

    Each side has one or more runs, each run one or more values. `earlier` are the runs of the
    series before the head.
    """
    before = [value for run in base for value in run]
    after = [value for run in head for value in run]
    noise = noise_of(metric, (base, head), earlier)
    error = None
    if noise.freedom:
        # The lower tail of Student's t is exact; near 1 a confidence would be rounded.
        errors = -quantile(noise.freedom, (1 - confidence) / 2)
        # One step of its source is no change of a figure.
        error = max(errors * noise.error(base, head), metric.resolution)
    return Difference(
        base_median=statistics.median(before),
        head_median=statistics.median(after),
        base_count=len(before),
        head_count=len(after),
        base_mean=statistics.fmean(before),
        change=statistics.fmean(after) - statistics.fmean(before),
        error=error,
        noise=noise,
    )
