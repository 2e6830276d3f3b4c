"""Calculations with figures over repeats, some of which may not be known."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import BYTES, NANOSECONDS

__all__ = [
    "Figure",
    "difference",
    "known_mean",
    "known_sum",
    "rounded",
    "rounded_in_unit",
    "rounded_spread",
    "total",
]


def difference(greater: Figure | None, smaller: Figure | None) -> Figure | None:
    """Return the difference; None if one of the two is not known."""
    if greater is None or smaller is None:
        return None
    return greater - smaller


def total(figures: Iterable[Figure | None]) -> Figure | None:
    """Return the sum of the figures that are known; None if none is."""
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    return sum(known[1:], known[0])


def known_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def known_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def rounded(figure: Figure | float | None, digits: int | None = None) -> float | None:
    """Return the median for exported tables: a whole number, or with `digits` decimals."""
    value = figure.median if isinstance(figure, Figure) else figure
    if value is None:
        return None
    return round(value, digits)


def rounded_in_unit(figure: Figure, unit: str) -> float:
    """Return the median for exports: whole bytes and nanoseconds, three decimals of others."""
    return round(figure.median, None if unit in (BYTES, NANOSECONDS) else 3)


def rounded_spread(figure: Figure | None, digits: int | None = None) -> float | None:
    """Return the spread, rounded in the same way; None if there is none."""
    return rounded(figure.spread if figure else None, digits)
