"""The memory of contexts as the runtime itself reports it, if there is no ledger.

What the totals hold was seen on librknnrt 1.5.2 and 1.6.0: memory that the application allocated is
in none; that of a dup has the weights and register commands of its source besides its own, so the
difference of the two totals is what it adds; that of a slave has no weights; input and output that
the library copies come with the first inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reusebench.accounting.sizes import ContextMemory
from reusebench.measured.plan import DUP, LOAD, SHARED_CONTEXT, Context, Plan
from reusebench.measured.runtimes.base import Allocation
from reusebench.targets.barriers import BarrierReading, StepData

__all__ = ["reported_memory"]


def reported_memory(plan: Plan, barriers: Sequence[BarrierReading]) -> list[ContextMemory] | None:
    """Return the memory of each context; None if the runtime gives no account of one.

    Register commands and the task list are one figure, other; a dup's task list is in none.
    """
    made = {barrier.context: barrier.data for barrier in barriers if barrier.phase == "context"}
    ran = {
        barrier.context: barrier.data for barrier in barriers if barrier.phase == "first_inference"
    }
    if not all(data.account for data in (*made.values(), *ran.values())):
        return None
    memory = []
    for context, spec in enumerate(plan.contexts):
        source = None if spec.source is None or spec.mechanism != DUP else made[spec.source]
        memory.append(_memory(spec, made[context], ran[context], source))
    return memory


def _memory(spec: Context, made: StepData, ran: StepData, source: StepData | None) -> ContextMemory:
    """Return the memory of one context by its data when it was made and when it first ran; `source`
    is a dup's.
    """
    if spec.mechanism == SHARED_CONTEXT:  # it is its source, and reports what its source reports
        return ContextMemory(weights_bytes=0, internal_bytes=0, io_bytes=0, other_bytes=0)
    total = made.account["dma_bytes"]
    outside = _outside(ran.allocations)
    # What the library itself allocated for this context: its total has that.
    own_weights = spec.mechanism == LOAD and "weights" not in outside
    own_internal = spec.internal is None and "internal" not in outside
    weights = made.account["weights_bytes"] if own_weights else 0
    internal = made.account["internal_bytes"] if own_internal else 0
    rest = total - weights - internal if source is None else total - source.account["dma_bytes"]
    copied = ran.account["dma_bytes"] - total
    return ContextMemory(
        weights_bytes=weights + outside.get("weights", 0),
        internal_bytes=internal + outside.get("internal", 0),
        io_bytes=max(0, copied) + outside.get("input", 0) + outside.get("output", 0),
        other_bytes=max(0, rest),
    )


def _outside(allocations: Sequence[Allocation]) -> Mapping[str, int]:
    """Return the bytes that the adapter allocated, by kind."""
    sizes: dict[str, int] = {}
    for allocation in allocations:
        sizes[allocation.kind] = sizes.get(allocation.kind, 0) + allocation.asked_bytes
    return sizes
