"""The evidence in a process's barriers that memory was short while it was measured."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.samplers.evidence import Evidence, available_share
from reusebench.storage.memory_shortage import Shortage
from reusebench.targets.barriers import BarrierReading

__all__ = ["shortage_of"]


def shortage_of(barriers: Sequence[BarrierReading], start_ns: int) -> Shortage | None:
    """Return the shortage of a process started at `start_ns`; None if nothing was counted."""
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
        least_available_share=min(
            available_share(barrier.system, barrier.group) for barrier in barriers
        ),
        is_limited=any(barrier.group for barrier in barriers),
    )
    return Shortage(
        counted=counted,
        lost_file_bytes=lost_file_bytes,
        steady_major_faults=faults,
        signs=evidence.signs(),
        remarks=evidence.remarks(),
    )


def _steady_faults(barriers: Sequence[BarrierReading]) -> int | None:
    """Return the major faults of the steady state; None if unknown, or it was not reached."""
    for before, after in zip(barriers, barriers[1:]):
        if after.phase != "steady":
            continue
        faults_before = before.pressure.major_faults if before.pressure else None
        faults_after = after.pressure.major_faults if after.pressure else None
        if faults_before is None or faults_after is None:
            return None
        return faults_after - faults_before
    return None


def _lost_file_bytes(barriers: Sequence[BarrierReading]) -> int | None:
    """Return the largest decrease of mapped files before a destruction; None if unknown."""
    highest = 0
    lost = 0
    for barrier in barriers:
        held = barrier.process.rss_file_bytes
        if held is None:
            return None
        if barrier.phase in ("destroy", "cycle"):
            break
        highest = max(highest, held)
        lost = max(lost, highest - held)
    return lost
