"""The account of one repeat: NPU memory by component and context, sharing, and wrong reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Optional

import msgspec

from reusebench.accounting.attribution import BufferPart, application_buffers, attribute
from reusebench.accounting.domains import DomainUse, domain_uses
from reusebench.accounting.ledger import Ledger
from reusebench.accounting.reported import reported_memory
from reusebench.accounting.rocket import ROCKET
from reusebench.accounting.sharing import Finding, Shared, find_wrong_reads, shared_parts
from reusebench.accounting.sizes import COMPONENTS, ContextMemory
from reusebench.measured.plan import Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["Account", "ApplicationBuffers", "account_of_ledger", "account_of_runtime"]


class ApplicationBuffers(msgspec.Struct, frozen=True):
    """Buffers of one kind that the application allocated."""

    #: "weights", "internal", "input" or "output".
    kind: str
    count: int
    bytes: int
    #: Number of these buffers that inferences referred to.
    read: int


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """NPU memory at the end of the steady phase, in bytes."""

    #: "ledger": exact to the byte; "runtime": as the runtime itself reports it.
    source: Literal["ledger", "runtime"]
    contexts: tuple[ContextMemory, ...]
    unattributed_bytes: int
    total_bytes: int
    peak_bytes: Optional[int]
    #: Memory after all contexts were destroyed; None if they were not.
    left_bytes: Optional[int]
    shared: tuple[Shared, ...]
    findings: tuple[Finding, ...]
    #: None in an account of the runtime, and in results older than this field.
    application_buffers: Optional[tuple[ApplicationBuffers, ...]] = None
    #: Empty without an IOMMU, in an account of the runtime, and in results older than this field.
    domains: tuple[DomainUse, ...] = ()


def account_of_ledger(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger
) -> Account | None:
    """Return the account by the ledger; None if the process did not reach the steady phase."""
    steady = _steady(barriers)
    if steady is None:
        return None

    parts = attribute(plan, barriers, ledger, steady.at_ns)
    findings = find_wrong_reads(plan, barriers, ledger)
    left_bytes = None
    destroyed = {barrier.context for barrier in barriers if barrier.phase == "destroy"}
    if destroyed.issuperset(range(len(plan.contexts))):
        left_bytes = ledger.live_bytes(barriers[-1].at_ns)
    if left_bytes:
        findings.append(Finding("leak", None, None, None, left_bytes))
    return Account(
        source="ledger",
        contexts=tuple(_memories(plan, parts, ledger)),
        unattributed_bytes=sum(part.size_bytes for part in parts if part.context is None),
        total_bytes=ledger.live_bytes(steady.at_ns),
        peak_bytes=ledger.peak_bytes(),
        left_bytes=left_bytes,
        shared=tuple(shared_parts(parts, barriers, ledger)),
        findings=tuple(findings),
        application_buffers=tuple(_application_buffers(barriers, ledger, steady.at_ns)),
        domains=tuple(domain_uses(barriers, ledger)),
    )


def account_of_runtime(plan: Plan, barriers: Sequence[BarrierReading]) -> Account | None:
    """Return the account that the runtime itself reports, for use without a ledger, or None."""
    if _steady(barriers) is None:
        return None
    contexts = reported_memory(plan, barriers)
    if contexts is None:
        return None

    return Account(
        source="runtime",
        contexts=tuple(contexts),
        unattributed_bytes=0,
        total_bytes=sum(context.total_bytes for context in contexts),
        peak_bytes=None,
        left_bytes=None,
        shared=(),
        findings=(),
    )


def _steady(barriers: Sequence[BarrierReading]) -> BarrierReading | None:
    return next((barrier for barrier in barriers if barrier.phase == "steady"), None)


def _application_buffers(
    barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> Iterable[ApplicationBuffers]:
    """Yield the live buffers of the application by kind.

    The ledger has the first of equal submits only. All submits up to `at_ns` count, as every
    inference repeats them.
    """
    read_buffers: set[int] = set()
    for submit in ledger.submits:
        if submit.at_ns <= at_ns:
            read_buffers.update(read.buffer for read in submit.reads)
    for kind, buffers in application_buffers(barriers, ledger, at_ns).items():
        yield ApplicationBuffers(
            kind,
            count=len(buffers),
            bytes=sum(buffer.size_bytes for buffer in buffers),
            read=sum(buffer.number in read_buffers for buffer in buffers),
        )


def _memories(plan: Plan, parts: Sequence[BufferPart], ledger: Ledger) -> Iterator[ContextMemory]:
    """Yield the memory of each context; only rocket's ledger tells biases from weights."""
    components = set(COMPONENTS)
    if all(buffer.source != ROCKET for buffer in ledger.buffers.values()):
        components.discard("biases")
    for context in range(len(plan.contexts)):
        sizes = dict.fromkeys(components, 0)
        for part in parts:
            if part.context == context:
                sizes[part.component] += part.size_bytes
        yield ContextMemory(**{f"{component}_bytes": size for component, size in sizes.items()})
