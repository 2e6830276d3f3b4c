"""The wave that explains most of a series, of all frequencies that its runs could show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np

#: Least number of runs with a wave.
LEAST_WAVE = 12
#: Number of frequencies for each that could be told apart.
FINENESS = 5
#: Least number of periods in a series.
_LEAST_PERIODS = 0.9
#: Limit of the values of a table of waves; they take 16 bytes each.
_MOST_VALUES = 2**21
#: Least determinant of a wave's cosine and sine, as a share of the square of the number of runs:
#: levels and a drift can make waves below it themselves.
_LEAST_DETERMINANT = 1e-3


class Waves:
    """The waves that a series with runs at these times may have."""

    def __init__(self, times: np.ndarray) -> None:
        self._times = times
        count = len(times)
        usual = float(np.median(np.diff(times)))
        most = count / 2 if usual <= 0 else min(0.5 / usual, float(count))
        most = max(most, 2 * _LEAST_PERIODS)
        #: Periods per series.
        self.frequencies = np.arange(_LEAST_PERIODS, most, 1 / FINENESS)

    def best(self, basis: np.ndarray, rest: np.ndarray) -> tuple[float, float]:
        """Return the frequency that explains most of the rest, and its gain.

        The columns of `basis` are orthonormal. `rest` is what they leave of the values; a wave
        counts with what they leave of it.
        """
        if len(rest) < LEAST_WAVE:
            return 0.0, 0.0
        gains = np.concatenate([table.gains(basis, rest) for table in self._tables()])
        best = int(gains.argmax())
        return float(self.frequencies[best]), float(gains[best])

    def _tables(self) -> Iterator[_WaveTable]:
        """Yield the waves; those of a very long series are made anew each time."""
        at_once = _MOST_VALUES // len(self._times) or 1
        if len(self.frequencies) <= at_once:
            yield self._table
            return
        for start in range(0, len(self.frequencies), at_once):
            yield _WaveTable(self._times, self.frequencies[start : start + at_once])

    @cached_property
    def _table(self) -> _WaveTable:
        return _WaveTable(self._times, self.frequencies)


class _WaveTable:
    """Cosines and sines of some frequencies at all times."""

    def __init__(self, times: np.ndarray, frequencies: np.ndarray) -> None:
        waves = _exponentials(times, frequencies)
        #: By run: the cosine and the sine of a frequency are neighbours.
        self._columns = waves.view(np.float64)
        self._cosine_squares = (waves.real**2).sum(axis=0)
        self._sine_squares = (waves.imag**2).sum(axis=0)
        self._products = (waves.real * waves.imag).sum(axis=0)

    def gains(self, basis: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return by how much each wave lessens the sum of squares of the rest."""
        explained = basis.T @ self._columns
        cosines = explained[:, ::2]
        sines = explained[:, 1::2]
        # Sums of squares and products of what the basis leaves of cosine and sine.
        cc = self._cosine_squares - np.einsum("ij,ij->j", cosines, cosines)
        ss = self._sine_squares - np.einsum("ij,ij->j", sines, sines)
        cs = self._products - np.einsum("ij,ij->j", cosines, sines)
        shares = rest @ self._columns
        c = shares[::2]
        s = shares[1::2]
        determinant = cc * ss - cs**2
        is_own = determinant > _LEAST_DETERMINANT * len(rest) ** 2
        safe = np.where(is_own, determinant, 1.0)
        gains: np.ndarray = np.where(is_own, (ss * c**2 - 2 * cs * c * s + cc * s**2) / safe, 0.0)
        return gains


@lru_cache(maxsize=4)
def _waves_at(times: bytes) -> Waves:
    return Waves(np.frombuffer(times))


def waves_at(times: np.ndarray) -> Waves:
    """Return the waves at these times; series of the same runs share their tables."""
    return _waves_at(times.tobytes())


def _exponentials(times: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return exp(2 pi i f t) by time and frequency, for frequencies at equal distances.

    Few of them are calculated: the others are products of two.
    """
    width = math.isqrt(len(frequencies) - 1) + 1
    angles = 2j * np.pi * times[:, None]
    coarse = np.exp(angles * frequencies[::width])
    fine = np.exp(angles * (frequencies[:width] - frequencies[0]))
    products = coarse[:, :, None] * fine[:, None, :]
    all_waves = products.reshape(len(times), -1)
    return np.ascontiguousarray(all_waves[:, : len(frequencies)])
