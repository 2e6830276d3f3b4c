"""System memory: everything on the machine adds to it, which may hide what layouts differ by."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.reports.base.statistics import Figure, difference
from reusebench.reports.results.rows import Group, Row
from reusebench.storage.savings import APPLICATION, NPU, SYSTEM

__all__ = ["Hidden", "hidden_system_memory"]


@dataclass(frozen=True)
class Hidden:
    """Differences of system memory that are not larger than its noise."""

    largest_bytes: float
    noise_bytes: float


def hidden_system_memory(group: Group) -> Hidden | None:
    """Return the largest difference from a baseline and the noise that hides it.

    None if a difference is larger than the noise, or if nothing is compared. Tables leave system
    memory out if it is hidden; exported ones have it.
    """
    differences = []
    noises = []
    for row in group.rows:
        baseline = row.baseline
        saved = difference(baseline.memory(SYSTEM), row.memory(SYSTEM)) if baseline else None
        if saved:
            differences.append(abs(saved.median))
            noises += [saved.spread or 0.0, _idle_noise_bytes(row), _others_bytes(row, saved)]
    if not differences or max(differences) > max(noises):
        return None
    return Hidden(max(differences), max(noises))


def _idle_noise_bytes(row: Row) -> float:
    """Return by how much it moved before the processes of the row and of its baseline."""
    rows = [row, row.baseline] if row.baseline else [row]
    return float(sum(member.system_noise_bytes or 0 for member in rows))


def _others_bytes(row: Row, saved: Figure) -> float:
    """Return the part of a difference that the memory of the process and the NPU does not explain.

    A virtual board takes no NPU memory from the machine.
    """
    own_bytes = 0.0
    for memory in (APPLICATION, NPU) if row.computes else (APPLICATION,):
        own = row.saved(memory)
        own_bytes += own.median if own else 0.0
    return abs(saved.median - own_bytes)
