"""A figure over repeats: the median, with the spread that is shown as ±, and what is calculated with the two.

The spread is half the range. Two values often lie close by chance, so theirs is the whole range: then a difference of
nothing passes for one as rarely as it does among three repeats. (In 40,000 simulated pairs of configurations without a
difference the medians were apart by more than both spreads in 13 % with two repeats each and 12 % with three, where
values are normal; in 10 % and 15 % where a fifth of them has a second value. With half the range of two: in 33 %.)
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Figure"]


@dataclass(frozen=True)
class Figure:
    """A figure measured in one or more fresh processes."""

    median: float
    #: Half the range between the repeats, of two the whole; None with a single repeat, which has no spread to show.
    spread: float | None = None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Figure | None:
        """Return the figure of these repeats; None where no repeat gave a value."""
        present = [value for value in values if value is not None]
        if not present:
            return None
        if len(present) == 1:
            return cls(present[0])
        span = max(present) - min(present)
        return cls(statistics.median(present), span if len(present) == 2 else span / 2)

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
