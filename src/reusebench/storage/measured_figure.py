"""A figure over repeats: the median, with the spread that is shown as ±, and what is calculated
with the two.

The spread is how far the farthest repeat lies from the median. Two values often lie close by
chance, so theirs is how far they lie apart.

How often two configurations without a difference have medians that are apart by more than both
spreads (40,000 simulated pairs, with a third repeat where two differ by more than a standard
deviation): in 14 % where values are normal, in 13 % where a fifth of them has a second value far
away, in 20 % where half of them has. With half the range of three repeats it was 12, 16 and 25 %,
with half the range of two 33 % of each.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["DOUBT", "Figure"]

#: Beside a figure that is not to be trusted; a warning says why.
DOUBT = "\N{WARNING SIGN}"


@dataclass(frozen=True)
class Figure:
    """A figure measured in one or more fresh processes, in the unit that its name says.

    >>> figure = Figure.of([100.0, 101.0, 104.0])
    >>> figure.median, figure.spread, figure.values
    (101.0, 3.0, (100.0, 101.0, 104.0))
    """

    median: float
    #: Distance of the farthest repeat from the median, or of two repeats from each other; None if
    #: there is one repeat.
    spread: float | None = None
    #: The value of each repeat; empty for what was calculated from other figures.
    values: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Figure | None:
        """Return the figure of these repeats; None if no repeat gave a value."""
        present = [value for value in values if value is not None]
        if not present:
            return None
        median = statistics.median(present)
        lowest = min(present)
        highest = max(present)
        if len(present) == 1:
            return cls(median, None, (median,))
        spread = highest - lowest if len(present) == 2 else max(median - lowest, highest - median)
        return cls(median, spread, tuple(present))

    @property
    def exceeds_spread(self) -> bool:
        """Whether it is more than what repeats differ by; of a difference: whether it can be
        measured.
        """
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
        return Figure(
            self.median * factor, None if self.spread is None else self.spread * abs(factor)
        )

    def percent_of(self, whole: Figure) -> Figure | None:
        """Return it in percent of the whole's median; None of nothing."""
        return self.scaled(100 / whole.median) if whole.median > 0 else None

    def percent_above(self, base: Figure) -> Figure | None:
        """Return how much more it is than the base, in percent; of a quotient the relative spreads
        add.

        None if one of the two is nothing.
        """
        if self.median <= 0 or base.median <= 0:
            return None
        quotient = 100 * self.median / base.median
        if self.spread is None or base.spread is None:
            return Figure(quotient - 100)
        return Figure(
            quotient - 100, quotient * (self.spread / self.median + base.spread / base.median)
        )
