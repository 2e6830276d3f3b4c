"""Student's t distribution."""

from __future__ import annotations

import math

import pytest
from scipy.special import stdtr, stdtrit

from reusebench.reports.base.student import lower_tail, quantile

_FREEDOMS = (1, 2, 2.5, 3, 10, 57, 100, 1000, 100_000)


@pytest.mark.parametrize("freedom", _FREEDOMS)
def test_both_agree_with_scipy(freedom: float) -> None:
    """The far tails agree too, by their relative error."""
    for t in (-1e6, -30.0, -5.0, -2.0, -0.1, -1e-5, 0.0, 1e-3, 1.0, 7.0, 50.0):
        assert lower_tail(freedom, t) == pytest.approx(stdtr(freedom, t), rel=1e-10, abs=1e-290)
    for probability in (1e-12, 1e-8, 0.005, 0.025, 0.5, 0.75, 0.975, 0.995):
        assert quantile(freedom, probability) == pytest.approx(
            stdtrit(freedom, probability), rel=1e-10, abs=1e-10
        )


def test_the_ends() -> None:
    """An infinite value has everything below it or above it, and NaN stays NaN."""
    assert (lower_tail(3, -math.inf), lower_tail(3, math.inf)) == (0.0, 1.0)
    assert math.isnan(lower_tail(3, math.nan))
