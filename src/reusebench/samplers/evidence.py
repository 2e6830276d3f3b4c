"""Evidence that memory was short during a measurement, of scenarios and of recorded programs.

If memory is short, the kernel evicts mapped pages of files or swaps, and the process's figures are
too small. A sign is about the process itself: its faults, its evicted or swapped pages, waiting in
its limited control group, or waiting while the machine had hardly any memory left. Another
program's waiting is none. First loads also cause major faults and refaults, and reclaiming unused
page cache is no shortage: neither alone is a sign.

Calibrated in a control group with 12 contexts of ONNX Runtime, 268 MiB. With a limit of 280 MiB, 28
to 42 MiB of mapped files were lost, the steady state made 69 to 106 major faults, and 12 to 20 % of
the time was spent waiting for memory. A limit that only cost page cache gave 0, 0 and at most 0.8
%; without a limit all were 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import GroupMemory, Pressure, SystemMemory

__all__ = ["Evidence", "available_share"]

#: Share of the memory below which eviction or swapping does not show in a comparison.
_LEAST_SHARE = 0.01
#: Share of the time in which work waited for memory.
_LEAST_STALLED_SHARE = 0.02
#: Major faults in the steady state, in which everything has been read once. Each maps 16 pages
#: around it: 16 faults are a MiB.
_LEAST_FAULTS = 16
#: Share of the memory that is left when the kernel has hardly anything unused to take.
_LOW_SHARE = 0.05
_MIB = 2**20


def available_share(system: SystemMemory, group: Optional[GroupMemory]) -> float:
    """Return the share of the memory, or of a control group's limit if that is less, that is left.

    Mapped files and page cache count as left.
    """
    shares = [system.available_bytes / system.total_bytes] if system.total_bytes else []
    if group and group.limit_bytes:
        shares.append(group.available_bytes / group.limit_bytes)
    return min(shares, default=1.0)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Readings from which shortage is judged; an unknown reading is 0."""

    counted: Pressure
    #: Time over which the pressure was counted.
    elapsed_ns: int
    #: Highest PSS; 0 if it was never read, which leaves evictions and swapping unjudged.
    pss_bytes: int
    #: Most memory that was swapped out at once.
    swapped_bytes: int
    #: Decrease of mapped files while nothing had been destroyed.
    lost_file_bytes: int = 0
    #: Major faults after everything had been read once.
    steady_major_faults: int = 0
    #: Least `available_share` of all readings.
    least_available_share: float = 1.0
    #: Whether the process's control group, or one above it, has a limit.
    is_limited: bool = False

    def signs(self) -> tuple[Message, ...]:
        """Return the signs that memory was short; none if it was not."""
        signs = tuple(self._signs_of_pages())
        if self._is_stalled and (signs or self._is_low or self._waits_in_its_group):
            signs += (Message("shortage_stalled", {"percent": self._stalled_percent}),)
        return signs

    def remarks(self) -> tuple[Message, ...]:
        """Return a remark if only other programs waited for memory."""
        if not self._is_stalled or self.signs():
            return ()
        return (Message("others_waited", {"percent": self._stalled_percent}),)

    def _signs_of_pages(self) -> Iterator[Message]:
        least_bytes = _LEAST_SHARE * self.pss_bytes
        if 0 < least_bytes <= self.lost_file_bytes and self._was_evicted:
            yield Message("shortage_evicted", {"mib": f"{self.lost_file_bytes / _MIB:.1f}"})
        if 0 < least_bytes <= self.swapped_bytes:
            yield Message("shortage_swapped", {"mib": f"{self.swapped_bytes / _MIB:.1f}"})
        if self.steady_major_faults >= _LEAST_FAULTS and self._has_reclaimed(1):
            yield Message("shortage_refaulted", {"count": self.steady_major_faults})

    @property
    def _was_evicted(self) -> bool:
        """Whether the kernel took the lost pages; a runtime may also release them by itself.

        The kernel takes pages in use only if there is hardly anything else. If it counts what it
        took for the process's own group, that count is the evidence.
        """
        if not self._has_reclaimed(self.lost_file_bytes):
            return False
        is_of_group = self.is_limited and self.counted.reclaims_of == "cgroup"
        return is_of_group or self._is_low or self.steady_major_faults > 0

    def _has_reclaimed(self, least_bytes: int) -> bool:
        """Whether the kernel took that much from any process, or does not tell."""
        counted = self.counted
        if counted.reclaimed_bytes is not None:
            return counted.reclaimed_bytes >= least_bytes
        indirect = (
            counted.refaulted_file_bytes,
            counted.refaulted_anon_bytes,
            counted.stalled_some_ns,
        )
        return any(indirect) or all(count is None for count in indirect)

    @property
    def _is_low(self) -> bool:
        return self.least_available_share <= _LOW_SHARE

    @property
    def _is_stalled(self) -> bool:
        stalled_ns = self.counted.stalled_some_ns or 0
        return self.elapsed_ns > 0 and stalled_ns >= _LEAST_STALLED_SHARE * self.elapsed_ns

    @property
    def _waits_in_its_group(self) -> bool:
        """Whether the waiting was counted for the process's group, and its limit can be the cause.

        Without a limit, a group of many programs waits if any of them does.
        """
        return self.is_limited and self.counted.stalls_of == "cgroup"

    @property
    def _stalled_percent(self) -> int:
        return round(100 * (self.counted.stalled_some_ns or 0) / self.elapsed_ns)
