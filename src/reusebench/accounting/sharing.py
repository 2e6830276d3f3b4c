"""What the submits of contexts really read, compared with the plan: sharing verified, and reads
that are wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Optional

import msgspec

from reusebench.accounting.attribution import WEIGHT_REGISTER, BufferPart, owners
from reusebench.accounting.ledger import Ledger, Read
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import LOAD, SHARED_CONTEXT, Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["WRONG_READS", "Finding", "Shared", "find_wrong_reads", "shared_parts"]

#: Kinds of Finding that mean that a context computed with memory that was not its own.
WRONG_READS = ("reads_freed", "reads_foreign")
_FINDINGS = (*WRONG_READS, "reads_unknown", "not_shared", "leak")


class Finding(msgspec.Struct, frozen=True):
    """Something that a run did with memory and that is not in its plan."""

    #: "reads_freed", "reads_foreign", "reads_unknown", "not_shared" or "leak".
    kind: str
    #: The context whose run it was; None for a leak.
    context: Optional[int]
    #: The buffer, and the context it belongs to, where there is one.
    buffer: Optional[int]
    owner: Optional[int]
    #: How many addresses, or, of a leak, how many bytes.
    amount: int
    #: Of addresses of no known buffer: by how much the lowest one lies past the end of `buffer`,
    #: the last before it.
    past_end_bytes: Optional[int] = None

    def __post_init__(self) -> None:
        """Refuse a kind that is none."""
        if self.kind not in _FINDINGS:
            raise ValueError(
                f"unknown kind of finding {self.kind!r}; valid: {', '.join(_FINDINGS)}"
            )


class Shared(msgspec.Struct, frozen=True):
    """Memory that more than its owner's submits read."""

    buffer: int
    #: One of sizes.COMPONENTS, and its size.
    component: str
    size_bytes: int
    owner: int
    #: The other contexts that read it, in order.
    readers: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a component that is none."""
        if self.component not in COMPONENTS:
            raise ValueError(
                f"unknown component {self.component!r}; valid: {', '.join(COMPONENTS)}"
            )


def find_wrong_reads(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger
) -> list[Finding]:
    """Return the reads of freed or foreign memory, and the weights that should be shared and are
    not.
    """
    owner_of = _owners(barriers, ledger)
    findings: dict[tuple[str, int, int | None], Finding] = {}
    for context, read in _reads(owner_of, ledger):
        kind = _judge(plan, context, read, owner_of)
        if kind is not None:
            buffer = read.buffer or read.after
            known = findings.get((kind, context, buffer))
            amount = read.count + (known.amount if known else 0)
            distances = (read.past_end_bytes, known.past_end_bytes if known else None)
            past_end = min(
                (distance for distance in distances if distance is not None), default=None
            )
            owner = owner_of.get(buffer or 0)
            findings[kind, context, buffer] = Finding(
                kind, context, buffer, owner, amount, past_end
            )
    return [*findings.values(), *_not_shared(plan, owner_of, ledger)]


def shared_parts(
    parts: Sequence[BufferPart], barriers: Sequence[BarrierReading], ledger: Ledger
) -> list[Shared]:
    """Return the live buffers that contexts other than their owner's read.

    Of a buffer with several parts, weights and the owner's register commands, the others read the
    first.
    """
    owner_of = _owners(barriers, ledger)
    readers: dict[int, set[int]] = defaultdict(set)
    for context, read in _reads(owner_of, ledger):
        if read.state == "live":
            readers[read.buffer].add(context)
    shared = []
    first = {part.buffer: part for part in reversed(parts)}
    for number, part in sorted(first.items()):
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
    """Yield every read with the context whose task list it was."""
    for submit in ledger.submits:
        context = owner_of.get(submit.task_buffer)
        if context is not None:
            yield from ((context, read) for read in submit.reads)


def _judge(plan: Plan, context: int, read: Read, owner_of: dict[int, int | None]) -> str | None:
    """Return the kind of finding that a read is; None if it is as planned."""
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
    lenders = set() if spec.source is None else {spec.source}
    for number, members in (
        (spec.internal, plan.internal_memories()),
        (spec.io, plan.io_memories()),
    ):
        if number is not None:
            lenders.add(members[number][0])
    return lenders


def _not_shared(plan: Plan, owner_of: dict[int, int | None], ledger: Ledger) -> Iterator[Finding]:
    """Yield the contexts that should read their source's weights and were seen to read none of
    them.
    """
    for context, spec in enumerate(plan.contexts):
        if spec.mechanism in (LOAD, SHARED_CONTEXT):
            continue
        submits = [
            submit for submit in ledger.submits if owner_of.get(submit.task_buffer) == context
        ]
        read_from: set[int | None] = set()
        for submit in submits:
            read_from.update(
                owner_of.get(read.buffer)
                for read in submit.reads
                if read.register == WEIGHT_REGISTER
            )
        if submits and spec.source not in read_from:
            yield Finding("not_shared", context, None, spec.source, 0)
