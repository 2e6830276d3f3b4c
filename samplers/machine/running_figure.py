"""First, last, lowest, highest and mean of figures that come one by one, in memory that does not grow."""

from __future__ import annotations

import math

__all__ = ["Running"]


class Running:
    """Figures of one source; until the first comes, they are infinite or no numbers."""

    __slots__ = ("_sum", "count", "first", "highest", "last", "lowest")

    def __init__(self) -> None:
        self._sum = 0.0
        self.count = 0
        self.first = self.last = math.nan
        self.lowest = math.inf
        self.highest = -math.inf

    def add(self, value: float) -> None:
        """Take one figure in."""
        if not self.count:
            self.first = value
        self.last = value
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)
        self._sum += value
        self.count += 1

    @property
    def mean(self) -> float:
        """The mean of all figures."""
        return self._sum / self.count if self.count else math.nan
