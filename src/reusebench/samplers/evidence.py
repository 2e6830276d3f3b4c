"""Evidence that memory was short during a measurement, of scenarios and of recorded programs.

If memory is short, the kernel evicts mapped pages of files or swaps, and the process's figures are
too small. First loads also cause major faults and refaults, and reclaiming unused page cache is no
shortage: neither alone is a sign.

Calibrated in a control group with 12 contexts of ONNX Runtime, 268 MiB. With a limit of 280 MiB, 28
to 42 MiB of mapped files were lost, the steady state made 69 to 106 major faults, and 12 to 20 % of
the time was spent waiting for memory. A limit that only cost page cache gave 0, 0 and at most 0.8
%; without a limit all were 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Pressure

__all__ = ["Evidence"]

#: Share of the memory below which eviction or swapping does not show in a comparison.
_LEAST_SHARE = 0.01
#: Share of the time in which work waited for memory.
_LEAST_STALLED_SHARE = 0.02
#: Major faults in the steady state, in which everything has been read once. Each maps 16 pages
#: around it: 16 faults are a MiB.
_LEAST_FAULTS = 16
_MIB = 2**20


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

    def signs(self) -> Iterator[Message]:
        """Yield the signs that memory was short; none if it was not."""
        counted = self.counted
        least_bytes = _LEAST_SHARE * self.pss_bytes
        reclaims = (
            counted.refaulted_file_bytes,
            counted.refaulted_anon_bytes,
            counted.stalled_some_ns,
        )
        # A runtime may release file pages by itself. If the kernel counts reclaims, there must be
        # some.
        has_reclaimed = any(reclaims) or all(count is None for count in reclaims)
        if has_reclaimed and 0 < least_bytes <= self.lost_file_bytes:
            yield Message("shortage_evicted", {"mib": f"{self.lost_file_bytes / _MIB:.1f}"})
        if 0 < least_bytes <= self.swapped_bytes:
            yield Message("shortage_swapped", {"mib": f"{self.swapped_bytes / _MIB:.1f}"})
        if has_reclaimed and self.steady_major_faults >= _LEAST_FAULTS:
            yield Message("shortage_refaulted", {"count": self.steady_major_faults})
        stalled_ns = counted.stalled_some_ns or 0
        if self.elapsed_ns > 0 and stalled_ns >= _LEAST_STALLED_SHARE * self.elapsed_ns:
            yield Message(
                "shortage_stalled", {"percent": round(100 * stalled_ns / self.elapsed_ns)}
            )
