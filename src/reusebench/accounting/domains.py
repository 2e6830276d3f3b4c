"""How full the domains of the NPU's IOMMU were: address spaces, of which a runtime names one for
each buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reusebench.accounting.ledger import Ledger, Mapping
from reusebench.targets.barriers import BarrierReading

__all__ = ["DOMAIN_BYTES", "DomainUse", "domain_uses"]

#: Addresses of one domain: 32 bits (rknpu_iommu.c).
DOMAIN_BYTES = 2**32


class DomainUse(msgspec.Struct, frozen=True):
    """One domain when it was fullest."""

    domain: int
    #: Addresses that were taken; those of a buffer that was imported again are others.
    peak_bytes: int
    #: In whose steps these addresses were given out, in order.
    contexts: tuple[int, ...]

    @property
    def left_bytes(self) -> int:
        """How many addresses were free."""
        return DOMAIN_BYTES - self.peak_bytes


def domain_uses(barriers: Sequence[BarrierReading], ledger: Ledger) -> list[DomainUse]:
    """Return the domains in which the process had buffers, in order; none where the chip has no
    IOMMU.
    """
    by_domain: dict[int, list[Mapping]] = {}
    for mapping in ledger.mappings:
        by_domain.setdefault(mapping.domain, []).append(mapping)
    uses = []
    for domain, mappings in sorted(by_domain.items()):
        fullest = _fullest(mappings)
        owners = {_context_at(mapping.made_ns, barriers) for mapping in fullest}
        contexts = tuple(sorted(context for context in owners if context is not None))
        uses.append(DomainUse(domain, sum(mapping.size_bytes for mapping in fullest), contexts))
    return uses


def _fullest(mappings: Sequence[Mapping]) -> list[Mapping]:
    """Return those that were there when all of them took most."""
    changes = [(mapping.made_ns, mapping.size_bytes) for mapping in mappings]
    changes += [
        (mapping.ended_ns, -mapping.size_bytes)
        for mapping in mappings
        if mapping.ended_ns is not None
    ]
    total = peak = peak_ns = 0
    for at_ns, change in sorted(changes):
        total += change
        if total > peak:
            peak = total
            peak_ns = at_ns
    return [mapping for mapping in mappings if mapping.is_there_at(peak_ns)]


def _context_at(at_ns: int, barriers: Sequence[BarrierReading]) -> int | None:
    """Return the context whose step was under way, None if it was no context's."""
    return next((barrier.context for barrier in barriers if barrier.at_ns >= at_ns), None)
