"""The use of the NPU's IOMMU domains, which are address spaces.

With Rockchip's driver a runtime names one per buffer; with rocket each open file has its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reusebench.accounting.ledger import Ledger, Mapping
from reusebench.targets.barriers import BarrierReading

__all__ = ["DOMAIN_BYTES", "DomainUse", "domain_uses"]

#: Size of one domain: 32-bit addresses (rknpu_iommu.c, rocket_drv.c).
DOMAIN_BYTES = 2**32


class DomainUse(msgspec.Struct, frozen=True):
    """One domain when it was fullest."""

    #: Rocket: the number of the open file, in the order of opening.
    domain: int
    #: Addresses in use; importing a buffer again takes additional ones.
    peak_bytes: int
    #: Contexts in whose steps these addresses were given out, in order.
    contexts: tuple[int, ...]

    @property
    def left_bytes(self) -> int:
        """The number of free addresses."""
        return DOMAIN_BYTES - self.peak_bytes


def domain_uses(barriers: Sequence[BarrierReading], ledger: Ledger) -> list[DomainUse]:
    """Return the domains in which the process had buffers, in order; none without an IOMMU."""
    by_domain: dict[int, list[Mapping]] = {}
    for mapping in ledger.mappings:
        by_domain.setdefault(mapping.domain, []).append(mapping)
    uses = []
    for domain, mappings in sorted(by_domain.items()):
        at_peak = _at_peak(mappings)
        peak_bytes = sum(mapping.size_bytes for mapping in at_peak)
        owners = {_context_at(mapping.made_ns, barriers) for mapping in at_peak}
        contexts = sorted(context for context in owners if context is not None)
        uses.append(DomainUse(domain, peak_bytes, tuple(contexts)))
    return uses


def _at_peak(mappings: Sequence[Mapping]) -> list[Mapping]:
    """Return the mappings that existed when their sum was largest."""
    changes = []
    for mapping in mappings:
        changes.append((mapping.made_ns, mapping.size_bytes))
        if mapping.ended_ns is not None:
            changes.append((mapping.ended_ns, -mapping.size_bytes))
    total = peak = peak_ns = 0
    for at_ns, change in sorted(changes):
        total += change
        if total > peak:
            peak = total
            peak_ns = at_ns
    return [mapping for mapping in mappings if mapping.is_there_at(peak_ns)]


def _context_at(at_ns: int, barriers: Sequence[BarrierReading]) -> int | None:
    """Return the context whose step was under way; None if the step was no context's."""
    return next((barrier.context for barrier in barriers if barrier.at_ns >= at_ns), None)
