"""Student's t distribution: its lower tail and its quantiles.

They agree with scipy.special's stdtr and stdtrit to 10 digits. scipy would be a quarter of an
installation, for these two functions.
"""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["lower_tail", "quantile"]

#: The continued fraction has converged if a factor differs from 1 by less.
_CONVERGED = 1e-15
_MOST_TERMS = 10_000
#: Replacement for a denominator of 0 (W. J. Lentz, 1976).
_TINY = 1e-300


def lower_tail(freedom: float, t: float) -> float:
    """Return the probability of a value below t; NaN if t is NaN.

    >>> round(lower_tail(5, -2.015), 3)
    0.05
    """
    if math.isnan(t):
        return t
    if math.isinf(t):
        return 0.0 if t < 0 else 1.0
    square = t * t
    x = freedom / (freedom + square)
    both_tails = _beta_share(freedom / 2, 0.5, x, square / (freedom + square))
    return both_tails / 2 if t < 0 else 1 - both_tails / 2


@lru_cache(maxsize=10_000)
def quantile(freedom: float, probability: float) -> float:
    """Return the value t for which lower_tail is this probability, between 0 and 1.

    >>> round(quantile(10, 0.975), 3)
    2.228
    """
    if probability > 0.5:
        return -quantile(freedom, 1 - probability)
    low = -1.0
    high = 0.0
    while lower_tail(freedom, low) > probability:
        low, high = 2 * low, low
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if lower_tail(freedom, middle) > probability:
            high = middle
        else:
            low = middle


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function of x; `rest` is 1 - x before rounding.

    The continued fraction is 8.17.22 of NIST's Digital Library of Mathematical Functions. It is
    evaluated on the side on which it converges fast.
    """
    if rest == 0:
        return 1.0
    if x == 0:
        return 0.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(b, a, rest, x)
    logarithm = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    return math.exp(logarithm) / a / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Return 1 + d1 / (1 + d2 / (1 + ...)) by Lentz's method."""
    value = 1.0
    above = 1.0
    below = 0.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            coefficient = -(a + half) * (a + b + half) * x / ((a + term - 1) * (a + term))
        else:
            coefficient = half * (b - half) * x / ((a + term - 1) * (a + term))
        below = 1 / (1 + coefficient * below or _TINY)
        above = 1 + coefficient / above or _TINY
        value *= above * below
        if abs(above * below - 1) < _CONVERGED:
            break
    return value
