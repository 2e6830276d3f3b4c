"""Memory of the processes at one moment, and what it can have been between two moments.

A program that does not wait at its marks is read before and after them. The kernel's counters bound
what happened in between: the peak of a process (VmHWM), and its page faults. A process that has
taken N pages has had N faults, so what came and went is at most the faults that its growth does not
explain. A fault may have brought a huge page, if the process has any afterwards. A fault in a file
may bring 16 pages; of these only the peak is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

__all__ = ["MemoryRange", "Moment", "PassedMark", "ProcessState"]

#: Size of an entry in a page table.
_ENTRY_BYTES = 8


@dataclass(frozen=True)
class ProcessState:
    """The kernel's counters of one process."""

    resident_bytes: int
    #: VmHWM: highest RSS since it began anew.
    high_water_bytes: int
    #: Page faults of all threads since the start of the process.
    fault_count: int
    #: Pages in memory of files and of shared memory; before Linux 4.5 all pages.
    file_bytes: int

    @property
    def own_bytes(self) -> int:
        """Anonymous memory."""
        return self.resident_bytes - self.file_bytes

    def is_unchanged(self, later: ProcessState) -> bool:
        """Whether a later state shows that no page has come or gone."""
        return (self.resident_bytes, self.fault_count) == (later.resident_bytes, later.fault_count)


@dataclass(frozen=True)
class Moment:
    """The processes of a program at one time."""

    time_ns: int
    #: Key: process.
    states: Mapping[int, ProcessState]

    def since(self, earlier: Moment | None) -> Moment:
        """Return this moment with the peaks of an earlier one, after which they began anew."""
        if earlier is None:
            return self
        states = {}
        for pid, state in self.states.items():
            if pid in earlier.states:
                high_bytes = max(state.high_water_bytes, earlier.states[pid].high_water_bytes)
                state = replace(state, high_water_bytes=high_bytes)
            states[pid] = state
        return Moment(self.time_ns, states)


@dataclass(frozen=True)
class MemoryRange:
    """Bounds of the RSS between two moments."""

    #: Key: process; the lowest and the highest RSS that it can have had.
    processes: Mapping[int, tuple[int, int]]

    @classmethod
    def between(
        cls, before: Moment, after: Moment, page_bytes: int, huge_bytes: Mapping[int, int]
    ) -> MemoryRange:
        """Return the range from one moment to a later one.

        `huge_bytes` has the huge pages of each process after it.
        """
        ranges = {}
        for pid in {**before.states, **after.states}:
            states = (before.states.get(pid), after.states.get(pid))
            ranges[pid] = _process_range(*states, page_bytes, huge_bytes.get(pid, 0))
        return cls(ranges)

    @property
    def high_bytes(self) -> int:
        """Upper bound of the sum over all processes."""
        return sum(high_bytes for _, high_bytes in self.processes.values())

    @property
    def largest_bytes(self) -> int:
        """Upper bound of the largest process."""
        return max((high_bytes for _, high_bytes in self.processes.values()), default=0)


@dataclass(frozen=True)
class PassedMark:
    """The memory at a mark at which the program went on, by what was read before and after it."""

    #: Time of the last reading before the mark.
    before_ns: int
    #: Shares of memory at that time: the last reading of them, and the change of RSS since.
    pss_bytes: int
    uss_bytes: int
    rss_bytes: int
    #: Bounds of the PSS at the mark; None if the program has ended.
    least_bytes: int | None
    most_bytes: int | None
    #: RSS until the kernel's peaks began anew.
    peak: MemoryRange


def _process_range(
    before: ProcessState | None,
    after: ProcessState | None,
    page_bytes: int,
    huge_bytes: int,
) -> tuple[int, int]:
    """Return the range of the RSS of one process, which may have come or gone in between."""
    if after is None:
        return 0, before.resident_bytes if before else 0
    if before is None:
        return 0, after.high_water_bytes

    lower_bytes = min(before.resident_bytes, after.resident_bytes)
    higher_bytes = max(before.resident_bytes, after.resident_bytes)
    if after.high_water_bytes > before.high_water_bytes:  # the peak was in between
        higher_bytes = max(higher_bytes, after.high_water_bytes)

    faults = max(0, after.fault_count - before.fault_count)
    # A huge page is as large as what one page of page table entries maps.
    most_huge_bytes = faults * page_bytes * page_bytes // _ENTRY_BYTES
    taken_bytes = faults * page_bytes + min(huge_bytes, most_huge_bytes)
    growth_bytes = max(0, after.resident_bytes - before.resident_bytes)
    passing_bytes = max(0, taken_bytes - growth_bytes)
    bound_bytes = min(higher_bytes + passing_bytes, after.high_water_bytes)
    return max(0, lower_bytes - passing_bytes), max(higher_bytes, bound_bytes)
