"""Which context each live NPU buffer belongs to, and which component of its memory it is.

A buffer belongs to the context whose step was under way when it was made: at barriers nothing runs,
so that is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reusebench.accounting.ledger import Buffer, Ledger, Read
from reusebench.measured.plan import INTERNAL, LOAD, Context, Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["WEIGHT_REGISTER", "BufferPart", "application_buffers", "attribute", "owners"]

#: Holds the address that weights are read from (CNA_DCOMP_ADDR0; the runtime's register commands
#: show it).
WEIGHT_REGISTER = "0x1110"

#: RKNPU_MEM_KERNEL_MAPPING of the kernel's rknpu_ioctl.h: the driver itself reads the buffer, as it
#: does a task list.
_KERNEL_MAPPING = 1 << 3

#: The most that a size can be rounded by.
_PAGE_BYTES = 4096

_COMPONENT_OF = {"weights": "weights", "internal": "internal", "input": "io", "output": "io"}


@dataclass(frozen=True)
class BufferPart:
    """A buffer, or a part of one."""

    buffer: int
    #: Index into Plan.contexts; None if it was made in no context's step.
    context: int | None
    #: One of COMPONENTS.
    component: str
    size_bytes: int


def owners(barriers: Sequence[BarrierReading], ledger: Ledger) -> dict[int, BarrierReading | None]:
    """Return, by buffer, the barrier that ended the step in which it was made; None if the step
    did not end.
    """
    return {
        number: next((barrier for barrier in barriers if barrier.at_ns >= buffer.born_ns), None)
        for number, buffer in ledger.buffers.items()
    }


def attribute(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> list[BufferPart]:
    """Return the parts of all buffers that live at that time; they add up to the ledger's total."""
    made = owners(barriers, ledger)
    of_context: dict[int | None, list[Buffer]] = {}
    for buffer in ledger.live(at_ns):
        barrier = made[buffer.number]
        context = barrier.context if barrier else None
        # One that did not fit in a plan that fills is no context of it.
        is_known = context is not None and context < len(plan.contexts)
        of_context.setdefault(context if is_known else None, []).append(buffer)
    parts = [
        BufferPart(buffer.number, None, "other", buffer.size_bytes)
        for buffer in of_context.pop(None, [])
    ]
    for context, buffers in of_context.items():
        assert context is not None
        own = _Own(context, plan.contexts[context], _account(barriers, context), ledger)
        components = {}
        for buffer in buffers:
            kind = _allocated_kind(buffer, barriers)
            components[buffer] = (
                _COMPONENT_OF[kind] if kind else own.component(buffer, made[buffer.number])
            )
        for buffer, component in components.items():
            parts += own.split(buffer, component, separate=set(components.values()))
    return sorted(parts, key=lambda part: part.buffer)


def application_buffers(
    barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> dict[str, list[Buffer]]:
    """Return the buffers that live at that time and that the application allocated, not the
    library, by their kind.
    """
    by_kind: dict[str, list[Buffer]] = {}
    for buffer in ledger.live(at_ns):
        kind = _allocated_kind(buffer, barriers)
        if kind is not None:
            by_kind.setdefault(kind, []).append(buffer)
    return by_kind


@dataclass(frozen=True)
class _Own:
    """What is known of one context beyond its buffers."""

    context: int
    spec: Context
    #: The library's own sizes.
    account: dict[str, int]
    ledger: Ledger

    def component(self, buffer: Buffer, barrier: BarrierReading | None) -> str:
        """Return the component of a buffer that the library made in the step before the barrier.

        What submits do with it decides, else when it was made, its flags and its size.
        """
        by_submits = self._by_submits(buffer)
        if by_submits:
            return by_submits
        phase = barrier.phase if barrier else None
        if buffer.flags & _KERNEL_MAPPING:
            return "task_list"
        if phase == "first_inference":
            return "io"
        internal = self.account.get("internal_bytes", 0)
        if (
            internal
            and 0
            <= buffer.size_bytes - internal
            < _PAGE_BYTES + buffer.size_bytes - buffer.asked_bytes
        ):
            return "internal"
        # Where no submit could be walked, what is left of an init is the register commands.
        return "register_commands" if phase == "context" and not self.ledger.submits else "other"

    def _by_submits(self, buffer: Buffer) -> str | None:
        submits = self.ledger.submits
        if any(submit.task_buffer == buffer.number for submit in submits):
            return "task_list"
        if any(buffer.number in submit.registers for submit in submits):
            return "register_commands"
        return (
            "weights"
            if any(read.buffer == buffer.number for read in self._weight_reads())
            else None
        )

    def split(self, buffer: Buffer, component: str, separate: set[str]) -> list[BufferPart]:
        """Return the parts of a buffer: with the register commands the library may keep weights and
        internal tensors.

        `separate` are the components that have buffers of their own. librknnrt keeps weights there,
        librknnmrt both.
        """
        parts = []
        rest = buffer.size_bytes
        if (
            component == "register_commands"
            and "weights" not in separate
            and self._reads_weights_from(buffer)
        ):
            # Internal memory that the application allocates may be another context's buffer.
            is_outside = self.spec.internal is not None or INTERNAL in self.spec.outside
            for name in ("weights",) if is_outside else ("weights", "internal"):
                size = self.account.get(f"{name}_bytes", 0)
                if name in separate or size > rest:
                    break
                parts.append(BufferPart(buffer.number, self.context, name, size))
                rest -= size
        return [*parts, BufferPart(buffer.number, self.context, component, rest)]

    def _reads_weights_from(self, buffer: Buffer) -> bool:
        """Whether submits read weights there; where none was walked, a loaded context's weights are
        there.
        """
        if self.ledger.submits:
            return any(read.buffer == buffer.number for read in self._weight_reads())
        return self.spec.mechanism == LOAD

    def _weight_reads(self) -> Iterator[Read]:
        for submit in self.ledger.submits:
            yield from (read for read in submit.reads if read.register == WEIGHT_REGISTER)


def _allocated_kind(buffer: Buffer, barriers: Sequence[BarrierReading]) -> str | None:
    """Return what the adapter allocated the buffer for, a key of _COMPONENT_OF; None if the
    library made it.
    """
    if not buffer.inode:
        return None
    for barrier in barriers:
        for allocation in barrier.data.allocations:
            if allocation.inode == buffer.inode:
                return allocation.kind
    return None


def _account(barriers: Sequence[BarrierReading], context: int) -> dict[str, int]:
    """Return the library's own sizes of the context, as soon as there are any."""
    for barrier in barriers:
        if barrier.context == context and barrier.data.account:
            return barrier.data.account
    return {}
