"""The components of a context's NPU memory."""

from __future__ import annotations

from typing import Optional

import msgspec

__all__ = ["COMMAND_BUFFER", "COMPONENTS", "ContextMemory"]

#: The components, in the order in which tables show them.
COMPONENTS = (
    "weights",
    "biases",
    "internal",
    "register_commands",
    "task_list",
    "task_list_copy",
    "padding",
    "io",
    "other",
)

#: Components of the buffer with the register commands. Results of earlier versions have them as
#: one, by the name of the first.
COMMAND_BUFFER = ("register_commands", "task_list_copy", "padding")


class ContextMemory(msgspec.Struct, frozen=True):
    """NPU memory of one context by component, in bytes; None if the source has no such figure."""

    weights_bytes: Optional[int] = None
    internal_bytes: Optional[int] = None
    register_commands_bytes: Optional[int] = None
    task_list_bytes: Optional[int] = None
    io_bytes: Optional[int] = None
    other_bytes: Optional[int] = None
    #: In the buffer of the register commands; None in results older than these two fields, too.
    task_list_copy_bytes: Optional[int] = None
    #: The rest of the last page of the buffer of the register commands.
    padding_bytes: Optional[int] = None
    #: None if the source has them with the weights, as in Rockchip's files.
    biases_bytes: Optional[int] = None

    def size_bytes(self, component: str) -> int | None:
        """Return the size of one of COMPONENTS."""
        size: int | None = getattr(self, f"{component}_bytes")
        return size

    @property
    def has_parts_of_commands(self) -> bool:
        """Whether COMMAND_BUFFER is told apart, if the register commands are known at all."""
        return self.register_commands_bytes is None or self.padding_bytes is not None

    def with_commands_as_one(self) -> ContextMemory:
        """Return this memory as earlier versions stored it, with COMMAND_BUFFER as one size."""
        if self.register_commands_bytes is None:
            return self
        whole = sum(self.size_bytes(component) or 0 for component in COMMAND_BUFFER)
        return msgspec.structs.replace(
            self, register_commands_bytes=whole, task_list_copy_bytes=None, padding_bytes=None
        )

    @property
    def total_bytes(self) -> int:
        """The sum of the known components."""
        return sum(self.size_bytes(component) or 0 for component in COMPONENTS)
