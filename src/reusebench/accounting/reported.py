"""The memory of contexts as the runtime itself reports it, for use without a ledger.

The content of the runtime's totals was observed with librknnrt 1.5.2 and 1.6.0:

- No total has memory that the application allocated.
- The total of a dup includes the weights and register commands of its source, so a dup adds the
  difference of the two totals.
- The total of a slave has no weights.
- Input and output that the library copies are added by the first inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reusebench.accounting.sizes import ContextMemory
from reusebench.measured.plan import DUP, LOAD, SHARED_CONTEXT, Context, Plan
from reusebench.measured.runtimes.base import Allocation
from reusebench.targets.barriers import BarrierReading, StepData

__all__ = ["reported_memory"]


def reported_memory(plan: Plan, barriers: Sequence[BarrierReading]) -> list[ContextMemory] | None:
    """Return the memory of each context; None if the runtime does not report one.

    Register commands and the task list are one figure, other. A dup's task list is in no figure.
    """
    made = {barrier.context: barrier.data for barrier in barriers if barrier.phase == "context"}
    ran = {
        barrier.context: barrier.data for barrier in barriers if barrier.phase == "first_inference"
    }
    if not all(data.account for data in (*made.values(), *ran.values())):
        return None

    memory = []
    for context, spec in enumerate(plan.contexts):
        source = None
        if spec.mechanism == DUP and spec.source is not None:
            source = made[spec.source]
        memory.append(_memory(spec, made[context], ran[context], source))
    return memory


def _memory(spec: Context, made: StepData, ran: StepData, source: StepData | None) -> ContextMemory:
    """Return the memory of one context; only a dup has a `source`."""
    if spec.mechanism == SHARED_CONTEXT:  # it reports the memory of its source
        return ContextMemory(weights_bytes=0, internal_bytes=0, io_bytes=0, other_bytes=0)

    # The total includes only memory that the library allocated for this context.
    total = made.account["dma_bytes"]
    allocated = _allocated_bytes(ran.allocations)
    weights = internal = 0
    if spec.mechanism == LOAD and "weights" not in allocated:
        weights = made.account["weights_bytes"]
    if spec.internal is None and "internal" not in allocated:
        internal = made.account["internal_bytes"]
    rest = total - weights - internal
    if source is not None:
        rest = total - source.account["dma_bytes"]
    copied = ran.account["dma_bytes"] - total
    return ContextMemory(
        weights_bytes=weights + allocated.get("weights", 0),
        internal_bytes=internal + allocated.get("internal", 0),
        io_bytes=max(0, copied) + allocated.get("input", 0) + allocated.get("output", 0),
        other_bytes=max(0, rest),
    )


def _allocated_bytes(allocations: Sequence[Allocation]) -> Mapping[str, int]:
    """Return the bytes that the adapter allocated, by kind."""
    sizes: dict[str, int] = {}
    for allocation in allocations:
        sizes[allocation.kind] = sizes.get(allocation.kind, 0) + allocation.asked_bytes
    return sizes
