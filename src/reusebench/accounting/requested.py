"""The size of each part of NPU memory as it was requested, before it is rounded up to pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reusebench.accounting.attribution import BufferPart, application_buffers, attribute
from reusebench.accounting.ledger import Ledger
from reusebench.measured.plan import Plan
from reusebench.targets.barriers import BarrierReading

__all__ = ["PARTS", "requested_sizes"]

#: The names of parts, in the order in which tables show them. `io`: input and output of a model
#: with several of them, which the library makes in an order of its own.
PARTS = (
    "task_list",
    "weights",
    "biases",
    "other",
    "register_commands",
    "task_list_copy",
    "internal",
    "input",
    "output",
    "io",
)

_TENSORS = ("input", "output")


def requested_sizes(
    plan: Plan, barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> list[dict[str, int]]:
    """Return, for each context, the requested bytes of the live parts that it owns, by name."""
    parts = attribute(plan, barriers, ledger, at_ns)
    names = _tensor_names(parts, barriers, ledger, at_ns)
    parts_of = Counter(part.buffer for part in parts)
    sizes: list[dict[str, int]] = [{} for _ in plan.contexts]
    for part in parts:
        if part.context is None or part.component == "padding":
            continue
        name = names.get(part.buffer, part.component)
        size_bytes = part.size_bytes
        if parts_of[part.buffer] == 1:
            size_bytes = ledger.buffers[part.buffer].asked_bytes
        of_context = sizes[part.context]
        of_context[name] = of_context.get(name, 0) + size_bytes
    return [
        {name: of_context[name] for name in PARTS if name in of_context} for of_context in sizes
    ]


def _tensor_names(
    parts: Sequence[BufferPart], barriers: Sequence[BarrierReading], ledger: Ledger, at_ns: int
) -> dict[int, str]:
    """Return the names of buffers with input or output, by number.

    The library makes one buffer for each tensor, inputs first.
    """
    names = {}
    for kind, buffers in application_buffers(barriers, ledger, at_ns).items():
        if kind in _TENSORS:
            for buffer in buffers:
                names[buffer.number] = kind

    by_context: dict[int | None, list[int]] = {}
    for part in parts:
        if part.component == "io" and part.buffer not in names:
            by_context.setdefault(part.context, []).append(part.buffer)
    for numbers in by_context.values():
        if len(numbers) == len(_TENSORS):
            names.update(zip(numbers, _TENSORS))
    return names
