"""The use of the IOMMU's domains."""

from __future__ import annotations

from reusebench.accounting.domains import DOMAIN_BYTES, DomainUse, domain_uses
from reusebench.accounting.ledger import Mapping
from reusebench.measured.plan import DUP, Context
from tests.accounting.hand_made import PAGE, during, make_barriers, make_ledger, make_plan

_BARRIERS = make_barriers(make_plan(Context(0, 0), Context(0, 0, DUP, 0)))


def _uses(*mappings: Mapping) -> list[DomainUse]:
    return domain_uses(_BARRIERS, make_ledger(mappings=mappings))


def test_a_domain_at_its_fullest() -> None:
    """The peak counts the mappings of its time only; an import takes addresses of its own."""
    first, second = (during(_BARRIERS, "context", context) for context in (0, 1))
    ran = during(_BARRIERS, "first_inference", 0)
    uses = _uses(
        Mapping(1, 0, 5 * PAGE, first - 9, first - 1),
        Mapping(2, 0, 4 * PAGE, first, ran),
        Mapping(2, 0, 4 * PAGE, second, None),
        Mapping(3, 0, 3 * PAGE, ran, None),
    )
    assert uses == [DomainUse(0, 8 * PAGE, (0, 1))]
    assert uses[0].left_bytes == DOMAIN_BYTES - 8 * PAGE


def test_addresses_that_are_given_back_may_be_given_out_at_once() -> None:
    """At equal times, mappings end before others begin."""
    first = during(_BARRIERS, "context", 0)
    uses = _uses(Mapping(1, 0, PAGE, first, first + 1), Mapping(2, 0, PAGE, first + 1))
    assert [use.peak_bytes for use in uses] == [PAGE]


def test_domains_are_told_apart() -> None:
    """Each domain lists the contexts with addresses in it; other buffers have no context."""
    early = during(_BARRIERS, "imported")
    made = during(_BARRIERS, "context", 1)
    assert _uses(Mapping(1, 7, PAGE, made), Mapping(2, 2, 2 * PAGE, early)) == [
        DomainUse(2, 2 * PAGE, ()),
        DomainUse(7, PAGE, (1,)),
    ]
    assert not _uses()
