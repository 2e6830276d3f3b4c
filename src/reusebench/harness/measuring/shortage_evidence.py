"""Whether the figures of a repeat were taken while memory was short: what its barriers show."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.samplers.shortage_evidence import Evidence
from reusebench.storage.memory_shortage import Shortage
from reusebench.targets.barriers import BarrierReading

__all__ = ["shortage_of"]


def shortage_of(barriers: Sequence[BarrierReading], start_ns: int) -> Shortage | None:
    """Return what the barriers of one process show, which was started then; None if nothing was
    counted.
    """
    counted = barriers[-1].pressure if barriers else None
    if counted is None:
        return None
    lost_file_bytes = _lost_file_bytes(barriers)
    faults = _steady_faults(barriers)
    evidence = Evidence(
        counted=counted,
        elapsed_ns=barriers[-1].at_ns - start_ns,
        pss_bytes=max(barrier.process.pss_bytes for barrier in barriers),
        swapped_bytes=max(barrier.process.swap_bytes for barrier in barriers),
        lost_file_bytes=lost_file_bytes or 0,
        steady_major_faults=faults or 0,
    )
    return Shortage(
        counted=counted,
        lost_file_bytes=lost_file_bytes,
        steady_major_faults=faults,
        signs=tuple(evidence.signs()),
    )


def _steady_faults(barriers: Sequence[BarrierReading]) -> int | None:
    """Return the major faults of the steady state; None if they are not known, or it was not
    reached.
    """
    for before, after in zip(barriers, barriers[1:]):
        if after.phase == "steady":
            counts = [
                barrier.pressure.major_faults if barrier.pressure else None
                for barrier in (before, after)
            ]
            return None if counts[0] is None or counts[1] is None else counts[1] - counts[0]
    return None


def _lost_file_bytes(barriers: Sequence[BarrierReading]) -> int | None:
    """Return by how much mapped files fell at most, before anything was destroyed; None if they
    are not told.
    """
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
