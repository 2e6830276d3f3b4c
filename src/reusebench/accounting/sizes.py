"""The components of a context's NPU memory."""

from __future__ import annotations

from typing import Optional

import msgspec

__all__ = ["COMPONENTS", "ContextMemory"]

#: The components, in the order in which tables show them.
COMPONENTS = ("weights", "internal", "register_commands", "task_list", "io", "other")


class ContextMemory(msgspec.Struct, frozen=True):
    """NPU memory of one context by component, in bytes; None if the source has no such figure."""

    weights_bytes: Optional[int] = None
    internal_bytes: Optional[int] = None
    register_commands_bytes: Optional[int] = None
    task_list_bytes: Optional[int] = None
    io_bytes: Optional[int] = None
    other_bytes: Optional[int] = None

    def size_bytes(self, component: str) -> int | None:
        """Return the size of one of COMPONENTS."""
        size: int | None = getattr(self, f"{component}_bytes")
        return size

    @property
    def total_bytes(self) -> int:
        """The sum of the known components."""
        return sum(self.size_bytes(component) or 0 for component in COMPONENTS)
