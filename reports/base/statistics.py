"""Figures over repeats: the median, with half the range as the spread, and what is calculated with them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A figure measured in one or more fresh processes."""

    median: float
    #: Half the range between the repeats; None with a single repeat, which has no spread to show.
    spread: float | None = None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Figure | None:
        """Return the figure of these repeats; None where no repeat gave a value."""
        present = [value for value in values if value is not None]
        if not present:
            return None
        spread = (max(present) - min(present)) / 2 if len(present) > 1 else None
        return cls(statistics.median(present), spread)

    @property
    def exceeds_spread(self) -> bool:
        """Whether it is more than what repeats differ by; of a difference: whether it can be measured."""
        return abs(self.median) > (self.spread or 0)

    def __add__(self, other: Figure) -> Figure:
        """Return the sum; the spreads add, since each may lie at the end of its range."""
        unknown = self.spread is None or other.spread is None
        spread = None if unknown else (self.spread or 0) + (other.spread or 0)
        return Figure(self.median + other.median, spread)

    def __neg__(self) -> Figure:
        return self.scaled(-1)

    def __sub__(self, other: Figure) -> Figure:
        """Return the difference; the spreads add here too."""
        return self + -other

    def __abs__(self) -> Figure:
        return Figure(abs(self.median), self.spread)

    def scaled(self, factor: float) -> Figure:
        """Return the figure in another unit, or of so many."""
        return Figure(self.median * factor, None if self.spread is None else self.spread * abs(factor))

    def percent_of(self, whole: Figure) -> Figure | None:
        """Return it in percent of the whole's median; None of nothing."""
        return self.scaled(100 / whole.median) if whole.median > 0 else None

    def percent_above(self, base: Figure) -> Figure | None:
        """Return how much more it is than the base, in percent; of a quotient the relative spreads add.

        None where one of the two is nothing.
        """
        if self.median <= 0 or base.median <= 0:
            return None
        quotient = 100 * self.median / base.median
        if self.spread is None or base.spread is None:
            return Figure(quotient - 100)
        return Figure(quotient - 100, quotient * (self.spread / self.median + base.spread / base.median))


def difference(greater: Figure | None, smaller: Figure | None) -> Figure | None:
    """Return the difference; None where one of the two is not known."""
    return None if greater is None or smaller is None else greater - smaller


def total(figures: Iterable[Figure | None]) -> Figure | None:
    """Return the sum of the figures that are known; None where none is."""
    known = [figure for figure in figures if figure is not None]
    return sum(known[1:], known[0]) if known else None


def known_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def known_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def rounded(figure: Figure | float | None, digits: int | None = None) -> float | None:
    """Return the median as exported tables have it: a whole number, or with so many digits."""
    value = figure.median if isinstance(figure, Figure) else figure
    return None if value is None else round(value, digits)


def rounded_spread(figure: Figure | None, digits: int | None = None) -> float | None:
    """Return the spread in the same form; None where there is none."""
    return rounded(figure.spread if figure else None, digits)
