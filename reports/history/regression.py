"""The least squares of a series: a mean for each level, and columns that go through all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: What is added to the squares of columns, as a share of the number of runs: columns that others
#: can make must not end in an error.
_RIDGE = 1e-11


class Regression:
    """The runs of a series in levels with these bounds; those that are no inliers do not count."""

    def __init__(self, values: np.ndarray, bounds: Sequence[int], is_inlier: np.ndarray) -> None:
        self.is_inlier = is_inlier
        self._values = values
        self._starts = bounds[:-1]
        self._lengths = np.diff(bounds)
        self._weights = is_inlier.astype(float)
        self._ridge = _RIDGE * max(1.0, float(self._weights.sum()))
        self._counts = np.add.reduceat(self._weights, self._starts) + self._ridge
        self._means, self._centred = self._without_levels(values)

    def factors_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the values of the levels, then the factors of the columns, each of which is a row.

        What the levels explain is taken from values and columns first: few equations are left.
        """
        if not len(columns):
            return self._means
        means, centred = self._without_levels(columns)
        squares = centred @ centred.T
        squares.flat[:: len(squares) + 1] += self._ridge
        factors = np.linalg.solve(squares, centred @ self._centred)
        return np.concatenate([self._means - factors @ means, factors])

    def by_run(self, levels: np.ndarray) -> np.ndarray:
        """Return the value of the level of each run."""
        return np.repeat(levels, self._lengths)

    def _without_levels(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means in the levels, and the distances from them; those of outliers are 0."""
        means = np.add.reduceat(rows * self._weights, self._starts, axis=-1) / self._counts
        return means, (rows - np.repeat(means, self._lengths, axis=-1)) * self._weights
