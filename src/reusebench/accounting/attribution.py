"""The context and the component of memory that each live NPU buffer belongs to.

A buffer belongs to the context whose step was under way when it was made: nothing runs at barriers,
so this is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.accounting.ledger import Buffer, Ledger
from reusebench.measured.plan import INTERNAL, LOAD, Context, Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["WEIGHT_REGISTER", "BufferPart", "application_buffers", "attribute", "owners"]

#: Register with the address of the weights (CNA_DCOMP_ADDR0, as the runtime's register commands
#: show).
WEIGHT_REGISTER = "0x1110"

#: RKNPU_MEM_KERNEL_MAPPING of the kernel's rknpu_ioctl.h: the driver itself reads the buffer, as it
#: does with a task list.
_KERNEL_MAPPING = 1 << 3

#: Sizes are rounded up to whole pages.
_PAGE_BYTES = 4096

_COMPONENT_OF = {"weights": "weights", "internal": "internal", "input": "io", "output": "io"}


@dataclass(frozen=True)
class BufferPart:
    """A buffer, or a part of one."""

    buffer: int
    #: Index into Plan.contexts; None if the buffer was made in no context's step.
    context: int | None
    #: One of COMPONENTS.
    component: str
    size_bytes: int


def owners(barriers: Sequence[BarrierReading], ledger: Ledger) -> dict[int, BarrierReading | None]:
    """Return the barrier that ended the step in which each buffer was made.

    None stands for a step that did not end.
    """
    return {
        number: next((barrier for barrier in barriers if barrier.at_ns >= buffer.born_ns), None)
        for number, buffer in ledger.buffers.items()
    }


def attribute(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> list[BufferPart]:
    """Return the parts of all live buffers; they add up to the ledger's total at that time."""
    makers = owners(barriers, ledger)
    parts = []
    buffers_of: dict[int, list[Buffer]] = {}
    for buffer in ledger.live(at_ns):
        maker = makers[buffer.number]
        context = maker.context if maker else None
        # A context beyond the plan's is the one that did not fit.
        if context is None or context >= len(plan.contexts):
            parts.append(BufferPart(buffer.number, None, "other", buffer.size_bytes))
        else:
            buffers_of.setdefault(context, []).append(buffer)

    for context, buffers in buffers_of.items():
        sizes = _reported_sizes(barriers, context)
        classifier = _Classifier(context, plan.contexts[context], sizes, ledger)
        components = {}
        for buffer in buffers:
            kind = _allocated_kind(buffer, barriers)
            if kind:
                components[buffer] = _COMPONENT_OF[kind]
            else:
                components[buffer] = classifier.component(buffer, makers[buffer.number])
        for buffer, component in components.items():
            parts += classifier.split(buffer, component, separate=set(components.values()))
    return sorted(parts, key=lambda part: part.buffer)


def application_buffers(
    barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> dict[str, list[Buffer]]:
    """Return the live buffers that the application allocated, not the library, by kind."""
    by_kind: dict[str, list[Buffer]] = {}
    for buffer in ledger.live(at_ns):
        kind = _allocated_kind(buffer, barriers)
        if kind is not None:
            by_kind.setdefault(kind, []).append(buffer)
    return by_kind


@dataclass(frozen=True)
class _Classifier:
    """The rules that find the components of one context's buffers."""

    context: int
    spec: Context
    #: Sizes that the library reports, such as "weights_bytes".
    sizes: dict[str, int]
    ledger: Ledger

    def component(self, buffer: Buffer, maker: BarrierReading | None) -> str:
        """Return the component of a buffer that the library made in the step before `maker`.

        The use in submits decides; without one, the flags, the step and the size.
        """
        used_as = self._use_in_submits(buffer)
        if used_as:
            return used_as

        phase = maker.phase if maker else None
        if buffer.flags & _KERNEL_MAPPING:
            return "task_list"
        if phase == "first_inference":
            return "io"
        internal_bytes = self.sizes.get("internal_bytes", 0)
        rounding_bytes = buffer.size_bytes - buffer.asked_bytes
        excess_bytes = buffer.size_bytes - internal_bytes
        if internal_bytes and 0 <= excess_bytes < _PAGE_BYTES + rounding_bytes:
            return "internal"
        # The remaining buffer of an init has the register commands, if no submit shows otherwise.
        if phase == "context" and not self.ledger.submits:
            return "register_commands"
        return "other"

    def _use_in_submits(self, buffer: Buffer) -> str | None:
        submits = self.ledger.submits
        if any(submit.task_buffer == buffer.number for submit in submits):
            return "task_list"
        if any(buffer.number in submit.registers for submit in submits):
            return "register_commands"
        return "weights" if self._submits_read_weights_from(buffer) else None

    def split(self, buffer: Buffer, component: str, separate: set[str]) -> list[BufferPart]:
        """Return the parts of a buffer.

        The buffer of the register commands may also hold weights, as with librknnrt, or weights and
        internal tensors, as with librknnmrt. `separate` are the components with buffers of their
        own.
        """
        parts = []
        rest_bytes = buffer.size_bytes
        if component == "register_commands" and self._holds_weights(buffer, separate):
            contained = ["weights"]
            # Internal memory of the application may be another context's buffer.
            if self.spec.internal is None and INTERNAL not in self.spec.outside:
                contained.append("internal")
            for name in contained:
                size_bytes = self.sizes.get(f"{name}_bytes", 0)
                if name in separate or size_bytes > rest_bytes:
                    break
                parts.append(BufferPart(buffer.number, self.context, name, size_bytes))
                rest_bytes -= size_bytes
        return [*parts, BufferPart(buffer.number, self.context, component, rest_bytes)]

    def _holds_weights(self, buffer: Buffer, separate: set[str]) -> bool:
        """Whether the buffer of the register commands holds weights too.

        Submits show it; without any, the weights of a loaded context are assumed to be there.
        """
        if "weights" in separate:
            return False
        if self.ledger.submits:
            return self._submits_read_weights_from(buffer)
        return self.spec.mechanism == LOAD

    def _submits_read_weights_from(self, buffer: Buffer) -> bool:
        for submit in self.ledger.submits:
            for read in submit.reads:
                if read.register == WEIGHT_REGISTER and read.buffer == buffer.number:
                    return True
        return False


def _allocated_kind(buffer: Buffer, barriers: Sequence[BarrierReading]) -> str | None:
    """Return the kind of memory that the adapter allocated; None if the library made the buffer."""
    if not buffer.inode:
        return None
    for barrier in barriers:
        for allocation in barrier.data.allocations:
            if allocation.inode == buffer.inode:
                return allocation.kind
    return None


def _reported_sizes(barriers: Sequence[BarrierReading], context: int) -> dict[str, int]:
    """Return the first sizes that the library reports for the context."""
    for barrier in barriers:
        if barrier.context == context and barrier.data.account:
            return barrier.data.account
    return {}
