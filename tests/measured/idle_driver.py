"""The driver with a runtime that computes nothing: contexts take a picture and return at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reusebench.measured import driver, runtimes
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    Copies,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    Runtime,
    RuntimeContext,
)

#: Side of the picture that frames are scaled to, which is YOLOv5s's default here.
_SIDE = 320


class IdleContext(RuntimeContext):
    """A context with an input and nothing else."""

    def __init__(self) -> None:
        self._input = bytearray(_SIDE * _SIDE * 3)

    def infer(self) -> None:
        """Compute nothing."""

    def outputs(self) -> Sequence[memoryview]:
        """Return nothing."""
        return []

    def destroy(self) -> None:
        """Hold nothing."""

    def copies(self) -> Copies:
        """Copy nothing."""
        return Copies(0, 0)

    def image_input(self) -> ImageInput:
        """Return the picture."""
        return ImageInput(memoryview(self._input), _SIDE, _SIDE, 3, "nhwc", "uint8", 3 * _SIDE)


class IdleRuntime(Runtime):
    """A runtime that makes such contexts of any model."""

    version = "0"

    def interface(self, model: str) -> Interface:  # noqa: ARG002
        """Return no tensors."""
        return Interface((), (), {})

    def load(
        self,
        model: str,  # noqa: ARG002
        prepared: str | None,  # noqa: ARG002
        memory: Memory,  # noqa: ARG002
        inputs: Inputs = NO_INPUTS,  # noqa: ARG002
    ) -> IdleContext:
        """Return a context; the model is not read."""
        return IdleContext()


def open_runtime() -> Runtime:
    """Return the runtime."""
    return IdleRuntime()


#: The row of this runtime in the list of runtimes.
ENTRY = runtimes.RuntimeEntry(
    "idle",
    "Idle",
    "tests.measured.idle_driver",
    "json",
    "nothing",
    device="cpu",
    suffixes=(".idle",),
)


if __name__ == "__main__":
    runtimes.RUNTIMES = (ENTRY,)
    sys.exit(driver.main())
