"""The difference of a figure between two sides of runs: how large, how sure, and what could have
been seen at all.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.student import quantile
from reusebench.reports.compare.noise import Noise, RunValues, noise_of
from reusebench.storage.metrics import Metric

HIGHER = "higher"
LOWER = "lower"
#: None that so many repeats could show.
NO_CHANGE = "no change"
#: No side has a second repeat, and there are no earlier runs: nothing shows the noise.
TOO_FEW = "too few"


@dataclass(frozen=True)
class Difference:
    """Head against base, in the metric's unit."""

    base_median: float
    head_median: float
    #: Of all repeats.
    base_count: int
    head_count: int
    base_mean: float
    #: Of the means: of a two-valued figure the median jumps from one value to the other, the mean
    #: does not.
    change: float
    #: Half the width of the confidence interval of the change: the smallest change that would have
    #: been told from noise. None if nothing shows the noise.
    error: float | None
    noise: Noise

    @property
    def percent(self) -> float | None:
        """The change in percent of the base; None of nothing."""
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
    """Return the difference of the means with its interval at this confidence, a share of 1.

    Each side is a run or several, each run a value or several; `earlier` are the runs of the series
    before the head.
    """
    before, after = ([value for run in side for value in run] for side in (base, head))
    noise = noise_of(metric, (base, head), earlier)
    # Student's t, from below: of a confidence near 1 its own quantile would be rounded.
    errors = -quantile(noise.freedom, (1 - confidence) / 2) if noise.freedom else None
    return Difference(
        base_median=statistics.median(before),
        head_median=statistics.median(after),
        base_count=len(before),
        head_count=len(after),
        base_mean=statistics.fmean(before),
        change=statistics.fmean(after) - statistics.fmean(before),
        # One step of its source is no change of a figure.
        error=None if errors is None else max(errors * noise.error(base, head), metric.resolution),
        noise=noise,
    )
