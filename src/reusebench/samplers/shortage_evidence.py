"""What shows that memory was short while something was measured: one place for scenarios and for
recorded programs.

The kernel then evicts pages of files that a process has mapped, or swaps, and its figures read too
small. First loads make major faults and refaults too, and to reclaim unused page cache is no
shortage: neither alone is a sign. Calibrated in a control group with 12 contexts of ONNX Runtime,
268 MiB: with a limit of 280 MiB, 28 to 42 MiB of mapped files were lost, the steady state made 69
to 106 major faults, and 12 to 20 % of the time was waited for memory; where a limit only cost page
cache, 0, 0 and at most 0.8 %; without one 0 throughout.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Pressure

__all__ = ["Evidence"]

#: Of the memory: less evicted or swapped out does not show in a comparison.
_LEAST_SHARE = 0.01
#: Of the time in which work waited for memory.
_LEAST_STALLED_SHARE = 0.02
#: In the steady state everything has been read once. A fault maps 16 pages around it: so many are a
#: MiB.
_LEAST_FAULTS = 16
_MIB = 2**20


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was read; what cannot be known is 0."""

    counted: Pressure
    #: From when it was counted.
    elapsed_ns: int
    #: The highest PSS; 0: it was never read, and nothing of it can be judged.
    pss_bytes: int
    #: The most that was swapped out at once.
    swapped_bytes: int
    #: By how much mapped files fell, while nothing had been destroyed.
    lost_file_bytes: int = 0
    #: Major faults after everything has been read once.
    steady_major_faults: int = 0

    def signs(self) -> Iterator[Message]:
        """Yield what shows that memory was short; nothing where it was not."""
        counted = self.counted
        least_bytes = _LEAST_SHARE * self.pss_bytes
        reclaims = (
            counted.refaulted_file_bytes,
            counted.refaulted_anon_bytes,
            counted.stalled_some_ns,
        )
        # A runtime may give files up by itself: where the kernel tells what it reclaims, it has to
        # have reclaimed.
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
