"""The actual reads of submits, compared with the plan: verified sharing, and wrong reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Optional

import msgspec

from reusebench.accounting.attribution import BufferPart, owners
from reusebench.accounting.ledger import Ledger, Read, Submit
from reusebench.accounting.rocket import WEIGHT_REGISTER
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import LOAD, SHARED_CONTEXT, Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["WRONG_READS", "Finding", "Shared", "find_wrong_reads", "shared_parts"]

#: Kinds of Finding of a context that computed with memory other than its own.
WRONG_READS = ("reads_freed", "reads_foreign")
_FINDINGS = (*WRONG_READS, "reads_unknown", "not_shared", "not_run", "leak")


class Finding(msgspec.Struct, frozen=True):
    """A use of memory that is not in the plan."""

    #: "reads_freed", "reads_foreign", "reads_unknown", "not_shared", "not_run" or "leak".
    kind: str
    #: The context that did it; None for a leak.
    context: Optional[int]
    #: The buffer, if any; for unknown addresses the last buffer before the lowest one.
    buffer: Optional[int]
    #: The context that the buffer belongs to, if any.
    owner: Optional[int]
    #: Number of addresses, jobs that were not run, or bytes of a leak.
    amount: int
    #: Unknown addresses only: distance of the lowest one from the end of `buffer`.
    past_end_bytes: Optional[int] = None

    def __post_init__(self) -> None:
        """Refuse an unknown kind."""
        if self.kind not in _FINDINGS:
            raise ValueError(
                f"unknown kind of finding {self.kind!r}; valid: {', '.join(_FINDINGS)}"
            )


class Shared(msgspec.Struct, frozen=True):
    """Memory that other contexts than its owner read."""

    buffer: int
    #: One of sizes.COMPONENTS.
    component: str
    size_bytes: int
    owner: int
    #: The other contexts that read the memory, in order.
    readers: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse an unknown component."""
        if self.component not in COMPONENTS:
            raise ValueError(
                f"unknown component {self.component!r}; valid: {', '.join(COMPONENTS)}"
            )


def find_wrong_reads(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger
) -> list[Finding]:
    """Return the reads of freed or foreign memory, weights that are not shared as planned, and jobs
    that were not run.
    """
    owner_of = _owners(barriers, ledger)
    wrong_reads: dict[tuple[str, int, int | None], list[Read]] = defaultdict(list)
    for context, read in _reads(owner_of, ledger):
        kind = _judge(plan, context, read, owner_of)
        if kind is not None:
            wrong_reads[kind, context, read.buffer or read.after].append(read)

    findings = []
    for (kind, context, buffer), reads in wrong_reads.items():
        distances = [read.past_end_bytes for read in reads if read.past_end_bytes is not None]
        findings.append(
            Finding(
                kind,
                context,
                buffer,
                owner=owner_of.get(buffer or 0),
                amount=sum(read.count for read in reads),
                past_end_bytes=min(distances, default=None),
            )
        )
    for failed in ledger.failed:
        submitter = owner_of.get(failed.buffer)
        findings.append(Finding("not_run", submitter, failed.buffer or None, None, failed.jobs))
    return [*findings, *_not_shared(plan, owner_of, ledger)]


def shared_parts(
    parts: Sequence[BufferPart], barriers: Sequence[BarrierReading], ledger: Ledger
) -> list[Shared]:
    """Return the live buffers that other contexts than their owner read.

    In a buffer with several parts, such as weights and the owner's register commands, the others
    read the first part.
    """
    owner_of = _owners(barriers, ledger)
    readers: dict[int, set[int]] = defaultdict(set)
    for context, read in _reads(owner_of, ledger):
        if read.state == "live":
            readers[read.buffer].add(context)

    shared = []
    first_parts = {part.buffer: part for part in reversed(parts)}
    for number, part in sorted(first_parts.items()):
        others = tuple(sorted(readers[number] - {part.context}))
        if part.context is not None and others:
            shared.append(Shared(number, part.component, part.size_bytes, part.context, others))
    return shared


def _owners(barriers: Sequence[BarrierReading], ledger: Ledger) -> dict[int, int | None]:
    return {
        number: barrier.context if barrier else None
        for number, barrier in owners(barriers, ledger).items()
    }


def _reads(owner_of: dict[int, int | None], ledger: Ledger) -> Iterator[tuple[int, Read]]:
    """Yield every read with the context that made the submit."""
    for submit in ledger.submits:
        context = _submitter(submit, owner_of)
        if context is not None:
            yield from ((context, read) for read in submit.reads)


def _submitter(submit: Submit, owner_of: dict[int, int | None]) -> int | None:
    """Return the context that owns the task list or, if no buffer has it, the commands."""
    for number in (submit.task_buffer, *submit.registers):
        if number:
            return owner_of.get(number)
    return None


def _judge(plan: Plan, context: int, read: Read, owner_of: dict[int, int | None]) -> str | None:
    """Return the kind of finding for a read; None if it is as planned."""
    if read.state == "dead":
        return "reads_freed"
    if read.state == "unknown":
        return "reads_unknown"
    owner = owner_of.get(read.buffer)
    if owner is None or owner == context or owner in _lenders(plan, context):
        return None
    return "reads_foreign"


def _lenders(plan: Plan, context: int) -> set[int]:
    """Return the contexts whose memory this one may read by the plan."""
    spec = plan.contexts[context]
    lenders = set()
    if spec.source is not None:
        lenders.add(spec.source)
    if spec.internal is not None:
        lenders.add(plan.internal_memories()[spec.internal][0])
    if spec.io is not None:
        lenders.add(plan.io_memories()[spec.io][0])
    return lenders


def _not_shared(plan: Plan, owner_of: dict[int, int | None], ledger: Ledger) -> Iterator[Finding]:
    """Yield a finding per context that should read its source's weights, and was not seen to."""
    #: Key: context with submits; value: owners of the weights that it reads.
    weight_owners: dict[int | None, set[int | None]] = defaultdict(set)
    for submit in ledger.submits:
        owners_read = weight_owners[_submitter(submit, owner_of)]
        for read in submit.reads:
            if read.register == WEIGHT_REGISTER:
                owners_read.add(owner_of.get(read.buffer))

    for context, spec in enumerate(plan.contexts):
        if spec.mechanism in (LOAD, SHARED_CONTEXT) or context not in weight_owners:
            continue
        if spec.source not in weight_owners[context]:
            yield Finding("not_shared", context, None, spec.source, 0)
