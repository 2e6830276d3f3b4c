"""Contexts of the wheel's class Interpreter, which runs some files that compiled models do not.

They have tensors whose sizes only a run computes, or variable tensors. An interpreter has neither a
weight cache nor tensors in the application's memory.
"""

from __future__ import annotations

from typing import Any

from reusebench.measured.runtimes.arrays import ContextOfTensors
from reusebench.measured.runtimes.base import Inputs, Memory, NotSupported
from reusebench.measured.runtimes.litert.interpreters import (
    InterpreterTensors,
    checked,
    interface_of,
    opened,
    prepared_tensors,
)

__all__ = ["InterpreterContext", "interface_of"]


class InterpreterContext(ContextOfTensors[InterpreterTensors]):
    """An interpreter."""

    def __init__(self, model: str, memory: Memory, inputs: Inputs) -> None:
        if memory.internal is not None or memory.zero_copy or memory.outside:
            raise NotSupported("litert_interpreter_alone")
        if memory.io is not None:
            raise NotSupported("litert_interpreter_alone")
        self._interpreter: Any = opened(model, memory)
        self._tensors = prepared_tensors(model, self._interpreter, inputs)
        self._model = model

    def infer(self) -> None:
        """Copy the inputs in, infer, copy the outputs out."""
        assert self._tensors is not None
        self._tensors.run(lambda: checked(self._model, self._interpreter.invoke))

    def destroy(self) -> None:
        """Drop the interpreter and the arrays."""
        self._interpreter = None
        self._tensors = None
