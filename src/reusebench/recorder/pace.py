"""When a costly reading is due: often at first, then seldom, and never more than a share of the
time.
"""

from __future__ import annotations

__all__ = ["Pace"]

#: The first reading of a phase is taken whatever it costs when the last one is older: a phase shall
#: have figures, also where other work makes readings expensive.
_LONG_AGO_NS = 250_000_000
#: Share of the time that readings at marks may take: they are the figures of phases.
_MARK_SHARE = 0.05


class Pace:
    """The time of the next reading of one kind; times are monotonic, in nanoseconds."""

    def __init__(self, first_ns: int, longest_ns: int, share: float, early_share: float) -> None:
        """Take the first gap, which doubles up to the longest, and the share of the time that
        readings may take.

        Until the gap is the longest they may take the early share.
        """
        self._first_ns = first_ns
        self._longest_ns = longest_ns
        self._share = share
        self._early_share = early_share
        self._gap_ns = first_ns
        self._next_ns = 0
        self._cost_ns = 0
        self._taken_ns = 0

    def restart(self, now_ns: int) -> None:
        """Begin again with the first gap, within the share, but not long after the last reading."""
        self._gap_ns = self._first_ns
        soonest_ns = min(self._earliest_ns(self._early_share), self._taken_ns + _LONG_AGO_NS)
        self._next_ns = max(now_ns + self._gap_ns, soonest_ns)

    def is_due(self, now_ns: int) -> bool:
        """Whether a reading should be taken now."""
        return now_ns >= self._next_ns

    def affords(self, now_ns: int) -> bool:
        """Whether a reading at a mark keeps within its share, if it costs what the last one did.

        Where the last one is long ago it is due.
        """
        return now_ns >= min(self._earliest_ns(_MARK_SHARE), self._taken_ns + _LONG_AGO_NS)

    def taken(self, now_ns: int, cost_ns: int) -> None:
        """Note what a reading took, and plan the next."""
        self._taken_ns = now_ns
        self._cost_ns = cost_ns
        share = self._share if self._gap_ns == self._longest_ns else self._early_share
        self._next_ns = max(now_ns + self._gap_ns, self._earliest_ns(share))
        self._gap_ns = min(2 * self._gap_ns, self._longest_ns)

    def _earliest_ns(self, share: float) -> int:
        return self._taken_ns + round(self._cost_ns / share)
