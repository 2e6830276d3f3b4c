"""The pace of a costly reading: often at first, then seldom, and within a share of the time."""

from __future__ import annotations

__all__ = ["Pace"]

#: Age of the last reading from which the first reading of a phase is made whatever it costs. A
#: phase has figures even if other work makes readings expensive.
_LONG_AGO_NS = 250_000_000
#: Share of the time that readings at marks may take: they are the figures of phases.
_MARK_SHARE = 0.05


class Pace:
    """The time of the next reading of one kind; times are monotonic, in nanoseconds."""

    def __init__(self, first_ns: int, longest_ns: int, share: float, early_share: float) -> None:
        """The gap between readings doubles from `first_ns` to `longest_ns`.

        Readings may take `early_share` of the time until the gap is the longest, then `share`.
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
        soonest_ns = min(self._affordable_ns(self._early_share), self._taken_ns + _LONG_AGO_NS)
        self._next_ns = max(now_ns + self._gap_ns, soonest_ns)

    def is_due(self, now_ns: int) -> bool:
        """Whether a reading should be made now."""
        return now_ns >= self._next_ns

    def affords(self, now_ns: int) -> bool:
        """Whether a reading at a mark keeps within its share, if it costs as much as the last one.

        True if the last reading was long ago.
        """
        return now_ns >= min(self._affordable_ns(_MARK_SHARE), self._taken_ns + _LONG_AGO_NS)

    def taken(self, now_ns: int, cost_ns: int) -> None:
        """Note the cost of a reading, and plan the next."""
        self._taken_ns = now_ns
        self._cost_ns = cost_ns
        share = self._share if self._gap_ns == self._longest_ns else self._early_share
        self._next_ns = max(now_ns + self._gap_ns, self._affordable_ns(share))
        self._gap_ns = min(2 * self._gap_ns, self._longest_ns)

    def _affordable_ns(self, share: float) -> int:
        """Return the earliest time at which another reading keeps within the share."""
        return self._taken_ns + round(self._cost_ns / share)
