"""Contexts of the wheel's class Interpreter, which runs some files that compiled models do not.

They have tensors whose sizes only a run computes, or variable tensors. An interpreter has neither a
weight cache nor tensors in the application's memory. Imported only if a context needs it: the class
loads another library than libLiteRt.so.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from reusebench.measured.runtimes.arrays import as_buffer, image_in
from reusebench.measured.runtimes.base import (
    AdapterError,
    Copies,
    DeclaredTensor,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    RuntimeContext,
    data_for,
)
from reusebench.measured.runtimes.litert.binding import refusal
from reusebench.measured.runtimes.litert.options import CpuOptions, options_of
from reusebench.measured.runtimes.litert.tensors import PICTURE_DIMENSIONS, filled_input

__all__ = ["InterpreterContext", "interface_of"]

_RESOLVERS = {
    CpuOptions().kernel_mode: OpResolverType.AUTO,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "reference": OpResolverType.BUILTIN_REF,
}


class _Tensor(NamedTuple):
    """An input or output of the first signature."""

    #: Number of the tensor in the file.
    number: int
    declared: DeclaredTensor


class InterpreterContext(RuntimeContext):
    """An interpreter."""

    def __init__(self, model: str, memory: Memory, inputs: Inputs) -> None:
        _check_memory(memory)
        options = options_of(memory.options, shares_internal=False)
        if (options.flags, options.others) != (CpuOptions().flags, CpuOptions().others):
            raise NotSupported("litert_no_flags", options=", ".join(memory.options))
        resolver = _RESOLVERS[options.kernel_mode]
        self._interpreter: Any = _opened(model, resolver, options.threads)
        self._arrays: Dict[int, Any] = {}
        self._outputs: List[Any] = []
        for tensor in _tensors(self._interpreter, "input"):
            fed = data_for(tensor.declared, inputs)
            self._interpreter.resize_tensor_input(tensor.number, fed.shape)
            self._arrays[tensor.number] = filled_input(fed)
        _checked(model, self._interpreter.allocate_tensors)
        self._output_numbers = [tensor.number for tensor in _tensors(self._interpreter, "output")]
        self._model = model

    def infer(self) -> None:
        """Copy the inputs in, infer, copy the outputs out."""
        for index, array in self._arrays.items():
            self._interpreter.set_tensor(index, array)
        _checked(self._model, self._interpreter.invoke)
        self._outputs = [self._interpreter.get_tensor(index) for index in self._output_numbers]

    def outputs(self) -> Sequence[memoryview]:
        """Return the copies of the last inference."""
        return [as_buffer(output) for output in self._outputs]

    def image_input(self) -> ImageInput:
        """Return the array of the first input that is a picture, which every inference copies."""
        return image_in(self._arrays.values())

    def copies(self) -> Copies:
        """Return the bytes of all inputs and outputs."""
        input_bytes = sum(int(array.nbytes) for array in self._arrays.values())
        return Copies(input_bytes, sum(int(output.nbytes) for output in self._outputs))

    def destroy(self) -> None:
        """Drop the interpreter and the arrays."""
        self._interpreter = None
        self._arrays = {}
        self._outputs = []


def interface_of(model: str) -> Interface:
    """Return the tensors of the file's first signature."""
    interpreter = _opened(model, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    sides = []
    for side in ("input", "output"):
        sides.append(tuple(tensor.declared for tensor in _tensors(interpreter, side)))
    return Interface(sides[0], sides[1], {})


def _opened(model: str, resolver: Any, threads: int = 1) -> Any:
    return _checked(
        model,
        lambda: Interpreter(model, num_threads=threads, experimental_op_resolver_type=resolver),
    )


def _checked(model: str, call: Any) -> Any:
    """Return the call's value; raise AdapterError with the library's words if it fails."""
    try:
        return call()
    except (RuntimeError, ValueError) as error:
        words = " | ".join(filter(None, map(str.strip, str(error).splitlines())))
        known = refusal(words)
        raise known or AdapterError("litert_load_failed", model=model, lines=words) from None


def _tensors(interpreter: Any, side: str) -> List[_Tensor]:
    """Return the tensors of one side, "input" or "output", with the names of the signature."""
    details = getattr(interpreter, f"get_{side}_details")()
    names: Dict[int, str] = {}
    for key in list(interpreter.get_signature_list())[:1]:
        runner = interpreter.get_signature_runner(key)
        for name, detail in getattr(runner, f"get_{side}_details")().items():
            names[detail["index"]] = name
    tensors = []
    for detail in details:
        sizes = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
        dimensions = tuple(int(size) if size >= 0 else "" for size in sizes)
        layout = "nhwc" if len(dimensions) == PICTURE_DIMENSIONS else ""
        kind = np.dtype(detail["dtype"]).name
        name = names.get(detail["index"], detail["name"])
        tensors.append(_Tensor(detail["index"], DeclaredTensor(name, kind, dimensions, layout)))
    return tensors


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for what only compiled models have."""
    if memory.internal is not None or memory.zero_copy or memory.outside or memory.io is not None:
        raise NotSupported("litert_interpreter_alone")
