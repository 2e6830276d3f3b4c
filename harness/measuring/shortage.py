"""Whether the figures of a repeat were taken while memory was short.

The kernel then evicts pages of files that the process has mapped, or swaps, and its figures read too small. First loads
make major faults and refaults too, and to reclaim unused page cache is no shortage: neither alone is a sign. Calibrated
in a control group with 12 contexts of ONNX Runtime, 268 MiB: with a limit of 280 MiB, 28 to 42 MiB of mapped files were
lost, the steady state made 69 to 106 major faults, and 12 to 20 % of the time was waited for memory; where a limit only
cost page cache, 0, 0 and at most 0.8 %; without one 0 throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from messages import Message
from samplers.readings import Pressure
from storage.result import Shortage
from targets.barriers import BarrierReading

__all__ = ["shortage_of"]

#: Of the process's memory: less evicted or swapped out does not show in a comparison.
_LEAST_SHARE = 0.01
#: Of the time of the process in which work waited for memory.
_LEAST_STALLED_SHARE = 0.02
#: In the steady state everything has been read once. A fault maps 16 pages around it: so many are a MiB.
_LEAST_FAULTS = 16
_MIB = 2**20


def shortage_of(barriers: Sequence[BarrierReading], start_ns: int) -> Shortage | None:
    """Return what the barriers of one process show, which was started then; None where nothing was counted."""
    counted = barriers[-1].pressure if barriers else None
    if counted is None:
        return None
    lost_file_bytes, faults = _lost_file_bytes(barriers), _steady_faults(barriers)
    return Shortage(
        counted=counted,
        lost_file_bytes=lost_file_bytes,
        steady_major_faults=faults,
        signs=tuple(_signs(counted, lost_file_bytes or 0, faults or 0, barriers, barriers[-1].at_ns - start_ns)),
    )


def _signs(
    counted: Pressure, lost_file_bytes: int, steady_faults: int, barriers: Sequence[BarrierReading], elapsed_ns: int
) -> Iterator[Message]:
    least_bytes = _LEAST_SHARE * max(barrier.process.pss_bytes for barrier in barriers)
    swapped_bytes = max(barrier.process.swap_bytes for barrier in barriers)
    reclaims = (counted.refaulted_file_bytes, counted.refaulted_anon_bytes, counted.stalled_some_ns)
    # A runtime may give files up by itself: where the kernel tells what it reclaims, it has to have reclaimed.
    has_reclaimed = any(reclaims) or all(count is None for count in reclaims)
    if has_reclaimed and lost_file_bytes >= least_bytes:
        yield Message("shortage_evicted", {"mib": f"{lost_file_bytes / _MIB:.1f}"})
    if swapped_bytes >= least_bytes:
        yield Message("shortage_swapped", {"mib": f"{swapped_bytes / _MIB:.1f}"})
    if has_reclaimed and steady_faults >= _LEAST_FAULTS:
        yield Message("shortage_refaulted", {"count": steady_faults})
    stalled_ns = counted.stalled_some_ns or 0
    if elapsed_ns > 0 and stalled_ns >= _LEAST_STALLED_SHARE * elapsed_ns:
        yield Message("shortage_stalled", {"percent": round(100 * stalled_ns / elapsed_ns)})


def _steady_faults(barriers: Sequence[BarrierReading]) -> int | None:
    """Return the major faults of the steady state; None where they are not known, or it was not reached."""
    for before, after in zip(barriers, barriers[1:]):
        if after.phase == "steady":
            counts = [barrier.pressure.major_faults if barrier.pressure else None for barrier in (before, after)]
            return None if counts[0] is None or counts[1] is None else counts[1] - counts[0]
    return None


def _lost_file_bytes(barriers: Sequence[BarrierReading]) -> int | None:
    """Return by how much mapped files fell at most, before anything was destroyed; None where they are not told."""
    highest = lost = 0
    for barrier in barriers:
        held = barrier.process.rss_file_bytes
        if held is None:
            return None
        if barrier.phase in ("destroy", "cycle"):
            break
        highest = max(highest, held)
        lost = max(lost, highest - held)
    return lost
