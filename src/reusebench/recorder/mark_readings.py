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
    """The kernel's counters at the last reading, and the last reading of PSS and USS."""

    moment: Moment
    #: Key: process; its RSS and its huge pages in the reading of PSS.
    resident_bytes: Mapping[int, int]
    huge_bytes: Mapping[int, int]
    pss_bytes: int
    uss_bytes: int

    def passed(
        self, at_mark: Moment, until: Moment, page_bytes: int, huge_bytes: Mapping[int, int]
    ) -> PassedMark:
        """Return what is known of the memory at a mark after this reading.

        `at_mark` is the first reading after it; at `until` the kernel's peaks began anew, and the
        processes had these huge pages.
        """
        bounds = MemoryRange.between(self.moment, at_mark, page_bytes, huge_bytes)
        change_bytes = 0
        lowest_bytes = self.pss_bytes
        highest_bytes = self.pss_bytes
        for pid, resident_bytes in self.resident_bytes.items():
            low_bytes, high_bytes = bounds.processes.get(pid, (0, 0))
            lowest_bytes += low_bytes - resident_bytes
            # What a process that has gone shared with others is still there.
            if pid in self.moment.states:
                change_bytes += self.moment.states[pid].resident_bytes - resident_bytes
                highest_bytes += high_bytes - resident_bytes
        for pid, (_, high_bytes) in bounds.processes.items():
            if pid not in self.resident_bytes:
                highest_bytes += high_bytes
        return PassedMark(
            before_ns=self.moment.time_ns,
            pss_bytes=max(0, self.pss_bytes + change_bytes),
            uss_bytes=max(0, self.uss_bytes + change_bytes),
            least_bytes=max(0, lowest_bytes) if at_mark.states else None,
            most_bytes=max(0, highest_bytes) if at_mark.states else None,
            peak=MemoryRange.between(self.moment, until, page_bytes, huge_bytes),
        )


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
