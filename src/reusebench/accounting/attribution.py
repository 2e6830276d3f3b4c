"""The context and the component of memory that each live NPU buffer belongs to.

A buffer belongs to the context whose step was under way when it was made: nothing runs at barriers,
so this is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reusebench.accounting.ledger import Buffer, Ledger
from reusebench.accounting.rocket import ROCKET, WEIGHT_REGISTER, rocket_components
from reusebench.measured.plan import INTERNAL, LOAD, WEIGHTS, Context, Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["BufferPart", "application_buffers", "attribute", "owners"]

#: Register with the address of a list of register commands.
_COMMANDS_REGISTER = "0x0010"

#: RKNPU_MEM_KERNEL_MAPPING of the kernel's rknpu_ioctl.h: the driver itself reads the buffer, as it
#: does with a task list.
_KERNEL_MAPPING = 1 << 3

#: Sizes are rounded up to whole pages.
_PAGE_BYTES = 4096

#: Alignment of the parts that librknnrt puts into one buffer.
_ALIGNMENT_BYTES = 64

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
    used_as = rocket_components(ledger)
    parts = []
    buffers_of: dict[int, list[Buffer]] = {}
    for buffer in ledger.live(at_ns):
        maker = makers[buffer.number]
        context = maker.context if maker else None
        # A context beyond the plan's is the one that did not fit.
        if context is None or context >= len(plan.contexts):
            parts.append(BufferPart(buffer.number, None, "other", buffer.size_bytes))
        elif buffer.source == ROCKET:
            component = used_as.get(buffer.number, "other")
            parts.append(BufferPart(buffer.number, context, component, buffer.size_bytes))
        else:
            buffers_of.setdefault(context, []).append(buffer)

    starts = _command_starts(plan, makers, ledger)
    for context, buffers in buffers_of.items():
        spec = plan.contexts[context]
        sizes = _reported_sizes(barriers, context)
        classifier = _Classifier(context, spec, sizes, ledger, starts.get(spec.model, 0))
        components = {}
        for buffer in buffers:
            kind = _allocated_kind(buffer, barriers)
            if kind:
                components[buffer] = _COMPONENT_OF[kind]
            else:
                components[buffer] = classifier.component(buffer, makers[buffer.number])
        for buffer, component in components.items():
            parts += classifier.split(buffer, component, components)
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


@dataclass
class _Rest:
    """The part of a buffer that is not yet told apart."""

    bytes: int
    #: Key: component.
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, component: str, size_bytes: int) -> bool:
        """Take a component away, if there is as much."""
        if not 0 <= size_bytes <= self.bytes:
            return False
        self.bytes -= size_bytes
        if size_bytes:
            self.sizes[component] = size_bytes
        return True


@dataclass(frozen=True)
class _Classifier:
    """The rules that find the components of one context's buffers."""

    context: int
    spec: Context
    #: Sizes that the library reports, such as "weights_bytes".
    sizes: dict[str, int]
    ledger: Ledger
    #: Beginning of the register commands in a buffer that holds weights too; 0: not seen.
    commands_start_bytes: int

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

    def split(
        self, buffer: Buffer, component: str, components: Mapping[Buffer, str]
    ) -> list[BufferPart]:
        """Return the parts of a buffer.

        The buffer of the register commands may also hold weights, as with librknnrt, or weights and
        internal tensors, as with librknnmrt. `components` are those of all buffers of the context.
        """
        if component != "register_commands":
            return [BufferPart(buffer.number, self.context, component, buffer.size_bytes)]
        sizes = self._contained_bytes(buffer, components)
        sizes[component] = buffer.asked_bytes - sum(sizes.values())
        if buffer.size_bytes > buffer.asked_bytes:
            sizes["padding"] = buffer.size_bytes - buffer.asked_bytes
        return [
            BufferPart(buffer.number, self.context, name, size_bytes)
            for name, size_bytes in sizes.items()
        ]

    def _contained_bytes(self, buffer: Buffer, components: Mapping[Buffer, str]) -> dict[str, int]:
        """Return the other parts of the buffer with the register commands, in order."""
        separate = set(components.values())
        rest = _Rest(buffer.asked_bytes)
        if not self._holds_weights(buffer, separate):
            return rest.sizes
        weights_bytes = self.sizes.get("weights_bytes", 0)
        if not rest.take("weights", weights_bytes):
            return rest.sizes

        internal_bytes = self.sizes.get("internal_bytes", 0)
        # Internal memory of the application may be another context's buffer.
        is_inside = self.spec.internal is None and INTERNAL not in self.spec.outside
        if internal_bytes and is_inside and "internal" not in separate:
            rest.take("internal", internal_bytes)
            return rest.sizes

        # This order is librknnrt's: weights, constants that it does not count among them, register
        # commands, task list.
        rest.take("other", max(0, self.commands_start_bytes - weights_bytes))
        tasks_bytes = 0
        for other, component in components.items():
            if component == "task_list":
                tasks_bytes += -(-other.asked_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        rest.take("task_list_copy", tasks_bytes)
        return rest.sizes

    def _holds_weights(self, buffer: Buffer, separate: set[str]) -> bool:
        """Whether the buffer of the register commands holds weights too, or would if it had any.

        Submits show it; without any, the weights of a loaded context are assumed to be there.
        """
        if "weights" in separate:
            return False
        if self._submits_read_weights_from(buffer):
            return True
        is_loaded = self.spec.mechanism == LOAD and WEIGHTS not in self.spec.outside
        return is_loaded and not (self.ledger.submits and self.sizes.get("weights_bytes"))

    def _submits_read_weights_from(self, buffer: Buffer) -> bool:
        for submit in self.ledger.submits:
            for read in submit.reads:
                if read.register == WEIGHT_REGISTER and read.buffer == buffer.number:
                    return True
        return False


def _command_starts(
    plan: Plan, makers: Mapping[int, BarrierReading | None], ledger: Ledger
) -> dict[int, int]:
    """Return, for each model, where register commands begin in the buffer of a loaded context.

    Each core may have commands of its own. Those of the first core come first, so contexts that are
    bound to another one do not show it.
    """
    starts: dict[int, int] = {}
    for submit in ledger.submits:
        maker = makers.get(submit.task_buffer)
        if maker is None or maker.context is None or maker.context >= len(plan.contexts):
            continue
        spec = plan.contexts[maker.context]
        if spec.mechanism != LOAD or spec.core or WEIGHTS in spec.outside:
            continue
        for read in submit.reads:
            if read.register == _COMMANDS_REGISTER and read.lowest_bytes is not None:
                lowest_bytes = min(read.lowest_bytes, starts.get(spec.model, read.lowest_bytes))
                starts[spec.model] = lowest_bytes
    return starts


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
