"""Figures over repeats: the median, and half the range as the spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A figure measured in one or more fresh processes."""

    median: float
    #: Half the range between the repeats; None with a single repeat, which has no spread to show.
    spread: float | None

    @property
    def exceeds_spread(self) -> bool:
        """Whether it is more than what repeats differ by; of a difference: whether it can be measured."""
        return abs(self.median) > (self.spread or 0)

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Figure | None:
        """Return the figure of these repeats; None where no repeat gave a value."""
        present = [value for value in values if value is not None]
        if not present:
            return None
        spread = (max(present) - min(present)) / 2 if len(present) > 1 else None
        return cls(statistics.median(present), spread)


def difference(greater: Figure | None, smaller: Figure | None) -> Figure | None:
    """Return the difference of two figures; the spreads add, since either may lie at the end of its range."""
    if greater is None or smaller is None:
        return None
    spreads = (greater.spread, smaller.spread)
    spread = None if None in spreads else sum(filter(None, spreads))
    return Figure(greater.median - smaller.median, spread)
