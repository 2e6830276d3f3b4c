"""Readings that become part of a phase once it is known that they were made in it.

The recorder sees a mark some time after the program has made it. A reading belongs to the current
phase if the recorder has looked for marks afterwards and found none. Readings since that look, and
those at the mark, belong to the phase that ends if the program has waited for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reusebench.recorder.moments import MemoryRange, Moment, PassedMark
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.process_tree import Peaks
from reusebench.recorder.share_changes import ShareChange
from reusebench.samplers.process_memory import Shares

__all__ = ["Batch", "Known", "MarkReading"]


@dataclass
class Batch:
    """Readings that are not yet part of a phase, as (kind, value, time)."""

    readings: list[tuple[str, int, int]] = field(default_factory=list)
    #: Highest RSS: of the sum over all processes, and of the largest process.
    sum_bytes: int = 0
    largest_bytes: int = 0

    def add_peak(self, sum_bytes: int, largest_bytes: int) -> None:
        """Note RSS, which may be a new peak."""
        self.sum_bytes = max(self.sum_bytes, sum_bytes)
        self.largest_bytes = max(self.largest_bytes, largest_bytes)

    def forget(self, kind: str) -> None:
        """Drop the readings of a kind."""
        self.readings = [reading for reading in self.readings if reading[0] != kind]

    def add_to(self, phase: PhaseRecord) -> None:
        """Make the readings part of a phase."""
        for kind, value, time_ns in self.readings:
            phase.add(kind, value, time_ns)
        if self.sum_bytes or self.largest_bytes:
            phase.add_peak(self.sum_bytes, self.largest_bytes)


@dataclass(frozen=True)
class Known:
    """The kernel's counters at the last reading, and the last reading of shares of memory."""

    moment: Moment
    #: The counters when the shares were read, or shortly before.
    counted: Moment
    #: Key: process.
    shares: Mapping[int, Shares]
    #: Peaks of the processes that were ending then, whose shares others will have.
    ending_bytes: int = 0

    @property
    def huge_bytes(self) -> dict[int, int]:
        """Huge pages in each process when the shares were read."""
        return {pid: shares.huge_page_bytes for pid, shares in self.shares.items()}

    def passed(
        self, at_mark: Moment, until: Moment, page_bytes: int, huge_bytes: Mapping[int, int]
    ) -> PassedMark:
        """Compute the memory at a mark after this reading, and its bounds.

        `at_mark` is the first reading after it; at `until` the kernel's peaks began anew, and the
        processes had these huge pages. Processes that only `until` has were found at the mark.
        """
        # Huge pages that were there before may be new ones that have gone again.
        huge_bytes = {
            pid: max(size_bytes, huge_bytes.get(pid, 0))
            for pid, size_bytes in {**huge_bytes, **self.huge_bytes}.items()
        }
        found = {pid: state for pid, state in until.states.items() if not self._has(pid)}
        after = Moment(at_mark.time_ns, {**found, **at_mark.states})
        ranges = MemoryRange.between(self.moment, after, page_bytes, huge_bytes).processes
        new = [pid for pid in ranges if pid not in self.shares and pid not in self.counted.states]

        change_bytes = 0
        least_bytes = 0
        most_bytes = self.ending_bytes + sum(ranges[pid][1] for pid in new)
        for pid, shares in self.shares.items():
            change = ShareChange.of(shares, pid, (self.counted, self.moment, after))
            low_bytes, high_bytes = change.bounds(ranges.get(pid, (0, 0)), page_bytes, bool(new))
            least_bytes += low_bytes
            most_bytes += high_bytes
            change_bytes += change.until_last_bytes

        pss_bytes = sum(shares.pss_bytes for shares in self.shares.values())
        uss_bytes = sum(shares.uss_bytes for shares in self.shares.values())
        rss_bytes = sum(state.resident_bytes for state in self.moment.states.values())
        return PassedMark(
            before_ns=self.moment.time_ns,
            pss_bytes=max(0, min(pss_bytes + change_bytes, rss_bytes)),
            uss_bytes=max(0, min(uss_bytes + change_bytes, rss_bytes)),
            rss_bytes=rss_bytes,
            least_bytes=max(0, pss_bytes + least_bytes) if after.states else None,
            most_bytes=max(0, pss_bytes + most_bytes) if after.states else None,
            peak=MemoryRange.between(self.moment, until, page_bytes, huge_bytes),
        )

    def _has(self, pid: int) -> bool:
        return pid in self.moment.states or pid in self.shares


@dataclass(frozen=True)
class MarkReading:
    """The readings at a mark; it is open whether the program waits for the answer."""

    time_ns: int
    #: The kernel's peaks of the phase that ends; None if they were not affordable.
    peaks: Peaks | None
    #: Bounds for a program that went on; None if they are unknown.
    passed: PassedMark | None
    #: Readings since the last look for marks, and those at the mark.
    unassigned: Batch
    at_mark: Batch

    @property
    def unseen(self) -> MemoryRange | None:
        """The range of RSS in the time that may belong to either phase."""
        return self.passed.peak if self.passed else None

    def end_waiting(self, phase: PhaseRecord) -> None:
        """End the phase of a program that waited for the answer."""
        self.unassigned.add_to(phase)
        self.at_mark.add_to(phase)
        if self.peaks:
            phase.add_peak(0, self.peaks.largest_bytes)
        is_read = any(kind == "application_memory" for kind, _, _ in self.at_mark.readings)
        phase.end(self.time_ns, self.peaks, is_last_exact=is_read)

    def end_passed(self, phase: PhaseRecord) -> None:
        """End the phase of a program that went on."""
        phase.end_passed(self.time_ns, self.peaks, self.passed)
