"""Which context each live NPU buffer belongs to, and which component of its memory it is.

A buffer belongs to the context whose step was under way when it was made: at barriers nothing runs, so that is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from accounting.ledger import Buffer, Ledger
from scenarios.plan import LOAD, Plan

__all__ = ["COMPONENTS", "WEIGHT_REGISTER", "Part", "attribute", "owners"]

#: The components of a context's memory, in the order in which tables show them.
COMPONENTS = ("weights", "internal", "register_commands", "task_list", "io", "other")

#: Holds the address that weights are read from (CNA_DCOMP_ADDR0; the runtime's register commands show it).
WEIGHT_REGISTER = "0x1110"

#: RKNPU_MEM_KERNEL_MAPPING of the kernel's rknpu_ioctl.h: the driver itself reads the buffer, as it does a task list.
_KERNEL_MAPPING = 1 << 3

_COMPONENT_OF = {"weights": "weights", "internal": "internal", "input": "io", "output": "io"}


@dataclass(frozen=True)
class Part:
    """A buffer, or a part of one."""

    buffer: int
    #: Index into Plan.contexts; None where it was made in no context's step.
    context: int | None
    #: One of COMPONENTS.
    component: str
    size_bytes: int


def owners(barriers: Sequence[dict[str, Any]], ledger: Ledger) -> dict[int, dict[str, Any] | None]:
    """Return, by buffer, the barrier that ended the step in which it was made; None where the step did not end."""
    return {
        number: next((barrier for barrier in barriers if barrier["at_ns"] >= buffer.born_ns), None)
        for number, buffer in ledger.buffers.items()
    }


def attribute(plan: Plan, barriers: Sequence[dict[str, Any]], ledger: Ledger, at_ns: int) -> list[Part]:
    """Return the parts of all buffers that live at that time; they add up to the ledger's total."""
    made = owners(barriers, ledger)
    return [
        part for buffer in ledger.live(at_ns) for part in _parts(plan, buffer, made[buffer.number], ledger, barriers)
    ]


def _parts(
    plan: Plan, buffer: Buffer, barrier: dict[str, Any] | None, ledger: Ledger, barriers: Sequence[dict[str, Any]]
) -> list[Part]:
    context = barrier["context"] if barrier else None
    if context is None:
        return [Part(buffer.number, None, "other", buffer.size_bytes)]
    known = _allocated_kind(buffer, barriers)
    if known is not None:
        return [Part(buffer.number, context, _COMPONENT_OF[known], buffer.size_bytes)]
    account = _account(barriers, context)
    component = _component(buffer, barrier, ledger, account)
    weights = account.get("weights_bytes", 0)
    if component == "register_commands" and _holds_weights(plan, buffer, context, ledger, weights):
        return [
            Part(buffer.number, context, "weights", weights),
            Part(buffer.number, context, component, buffer.size_bytes - weights),
        ]
    return [Part(buffer.number, context, component, buffer.size_bytes)]


def _allocated_kind(buffer: Buffer, barriers: Sequence[dict[str, Any]]) -> str | None:
    """Return what the adapter allocated the buffer for; None where the library made it."""
    if not buffer.inode:
        return None
    for barrier in barriers:
        for allocation in barrier["data"].get("allocations", ()):
            if allocation["inode"] == buffer.inode:
                kind: str = allocation["kind"]
                return kind
    return None


def _account(barriers: Sequence[dict[str, Any]], context: int) -> dict[str, int]:
    """Return the library's own sizes of the context."""
    for barrier in barriers:
        if barrier["phase"] == "context" and barrier["context"] == context:
            account: dict[str, int] = barrier["data"]["account"]
            return account
    return {}


def _component(buffer: Buffer, barrier: dict[str, Any] | None, ledger: Ledger, account: dict[str, int]) -> str:
    """Tell a buffer of the library's by what submits do with it, and where none has used it, by its size."""
    if buffer.flags & _KERNEL_MAPPING or any(submit.task_buffer == buffer.number for submit in ledger.submits):
        return "task_list"
    if any(buffer.number in submit.registers for submit in ledger.submits):
        return "register_commands"
    phase = barrier["phase"] if barrier else None
    if phase == "first_inference":
        return "io"
    if account.get("internal_bytes") and 0 <= buffer.size_bytes - account["internal_bytes"] < _page(buffer):
        return "internal"
    # Where no submit could be walked, what is left of an init is the register commands, with or without weights.
    return "register_commands" if phase == "context" and not ledger.submits else "other"


def _holds_weights(plan: Plan, buffer: Buffer, context: int, ledger: Ledger, weights: int) -> bool:
    """Whether the library keeps the context's weights in the buffer of its register commands.

    Where a submit was walked it says so itself; else a loaded context's weights are there.
    """
    if buffer.size_bytes < weights:
        return False
    reads = [read for submit in ledger.submits for read in submit.reads if read.register == WEIGHT_REGISTER]
    if reads:
        return any(read.buffer == buffer.number for read in reads)
    return plan.contexts[context].mechanism == LOAD


def _page(buffer: Buffer) -> int:
    """Return more than the rounding of this buffer can have added."""
    return buffer.size_bytes - buffer.asked_bytes + 4096
