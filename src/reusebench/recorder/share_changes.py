"""How much the PSS of a process has changed since it was read, by the counters of its RSS.

RSS tells the change of pages that nobody shares. A page that others have too changes PSS by
anything between nothing and itself: in a program of several processes one may take a page that
another has already, and one may give back a page that another keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.recorder.moments import Moment, ProcessState
from reusebench.samplers.process_memory import Shares

__all__ = ["ShareChange"]

_GONE = ProcessState(0, 0, 0, 0)


@dataclass(frozen=True)
class ShareChange:
    """What is known of one process since its shares were read."""

    pss_bytes: int
    #: RSS when they were read, and what of it others may have had too.
    resident_bytes: int
    shared_bytes: int
    #: RSS at the last counters before the mark; None if the process had gone.
    last_bytes: int | None
    #: Pages of files and of shared memory that came since.
    file_growth_bytes: int
    #: Page faults since, and growth of anonymous memory, which explains as many.
    fault_count: int
    own_growth_bytes: int

    @classmethod
    def of(cls, shares: Shares, pid: int, moments: tuple[Moment, Moment, Moment]) -> ShareChange:
        """`moments` are the reading of shares, the last one before the mark, and one after it."""
        counted, last, after = (moment.states.get(pid) for moment in moments)
        resident_bytes = shares.rss_bytes
        # The kernel counts RSS to some hundred KiB, smaps_rollup exactly.
        if counted and last and counted.is_unchanged(last):
            resident_bytes = counted.resident_bytes
        before = counted or _GONE
        latest = after or last or _GONE
        most_file_bytes = max((last or _GONE).file_bytes, (after or _GONE).file_bytes)
        return cls(
            shares.pss_bytes,
            resident_bytes,
            shared_bytes=max(0, shares.rss_bytes - shares.uss_bytes),
            last_bytes=last.resident_bytes if last else None,
            file_growth_bytes=max(0, most_file_bytes - before.file_bytes),
            fault_count=max(0, latest.fault_count - before.fault_count),
            own_growth_bytes=max(0, latest.own_bytes - before.own_bytes),
        )

    @property
    def until_last_bytes(self) -> int:
        """The change until the last counters before the mark, if it was of its own pages."""
        if self.last_bytes is not None:
            return self.last_bytes - self.resident_bytes
        # What it shared with others of the program is still there.
        return min(0, self.shared_bytes - self.resident_bytes)

    def bounds(
        self, resident: tuple[int, int], page_bytes: int, has_forked: bool
    ) -> tuple[int, int]:
        """Return the least and the highest change of the program's PSS until the mark.

        `resident` are bounds of RSS at the mark. If the program has new processes (`has_forked`),
        these may share all pages.
        """
        low_bytes, high_bytes = resident
        shared_bytes = self.resident_bytes if has_forked else self.shared_bytes
        kept_bytes = min(shared_bytes, max(0, self.resident_bytes - high_bytes))
        unexplained_bytes = max(0, self.fault_count * page_bytes - self.own_growth_bytes)
        copied_bytes = min(shared_bytes, unexplained_bytes)
        least_bytes = low_bytes - self.resident_bytes - self.file_growth_bytes
        most_bytes = high_bytes - self.resident_bytes + kept_bytes + copied_bytes
        return max(-self.pss_bytes, least_bytes), most_bytes
