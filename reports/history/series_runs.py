"""The values of the runs of a series, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reusebench.reports.compare.noise import RunValues


@dataclass(frozen=True)
class SeriesRuns:
    """The repeats of all runs, one run after another; each has one or more."""

    values: np.ndarray
    #: The first value of each run, and the number of values.
    bounds: np.ndarray

    @classmethod
    def of(cls, runs: Sequence[RunValues]) -> SeriesRuns:
        """Return the columns of these runs."""
        values = np.array([value for run in runs for value in run])
        return cls(values, np.cumsum([0, *map(len, runs)]))

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.bounds) - 1

    @property
    def lists(self) -> list[list[float]]:
        """The values by run."""
        return [self.values[start:end].tolist() for start, end in zip(self.bounds, self.bounds[1:])]

    def between(self, start: int, end: int) -> np.ndarray:
        """Return the values of the runs from `start` on, before `end`."""
        return self.values[self.bounds[start] : self.bounds[end]]

    @cached_property
    def repeats(self) -> np.ndarray:
        """The number of values of each run."""
        return np.diff(self.bounds)

    @cached_property
    def means(self) -> np.ndarray:
        """The mean of each run; equal values have no other mean, whatever their number is."""
        firsts = self.values[self.bounds[:-1]]
        rest = self.values - np.repeat(firsts, self.repeats)
        means: np.ndarray = firsts + np.add.reduceat(rest, self.bounds[:-1]) / self.repeats
        return means

    @cached_property
    def distances(self) -> np.ndarray:
        """The distance of each repeat from the mean of its run, if that has several."""
        # The mean is fitted to the repeats.
        factors = np.sqrt(self.repeats / np.maximum(self.repeats - 1, 1))
        distances = np.repeat(factors, self.repeats) * (
            self.values - np.repeat(self.means, self.repeats)
        )
        several: np.ndarray = distances[np.repeat(self.repeats > 1, self.repeats)]
        return several

    @cached_property
    def freedom(self) -> int:
        """The degrees of freedom of the repeats within their runs."""
        return len(self.values) - len(self)

    @cached_property
    def share_of_repeats(self) -> float:
        """The mean share that the variance of repeats has in that of a run's mean."""
        return float((1 / self.repeats).mean())
