"""LiteRT's class Interpreter: opening a file, and moving its inputs and outputs.

Imported only if a context needs it: the class loads another library than libLiteRt.so.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from reusebench.measured.runtimes.arrays import as_buffer, image_in
from reusebench.measured.runtimes.base import (
    AdapterError,
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    data_for,
)
from reusebench.measured.runtimes.litert.binding import refusal
from reusebench.measured.runtimes.litert.options import CpuOptions, options_of
from reusebench.measured.runtimes.litert.tensors import PICTURE_DIMENSIONS, filled_input

__all__ = [
    "InterpreterTensors",
    "check_sizes",
    "checked",
    "interface_of",
    "opened",
    "prepared_tensors",
]

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


class InterpreterTensors:
    """The inputs and outputs of one context, in arrays of the application or in place.

    Those in place are views of the interpreter's own memory (Interpreter.tensor). The class refuses
    to run as long as the application holds a view, and its memory stays where it is: so a view is
    taken once for its address.
    """

    def __init__(self, interpreter: Any, inputs: Inputs, zero_copy: Sequence[str] = ()) -> None:
        self._interpreter = interpreter
        self._input_stays = "input" in zero_copy
        self._output_stays = "output" in zero_copy
        self._inputs: Dict[int, Any] = {}
        for tensor in _tensors(interpreter, "input"):
            array = np.ascontiguousarray(filled_input(data_for(tensor.declared, inputs)))
            if self._input_stays:
                view = _in_place(interpreter, tensor.number)
                view[...] = array
                array = view
            self._inputs[tensor.number] = array
        self._output_numbers = [tensor.number for tensor in _tensors(interpreter, "output")]
        self._outputs: List[Any] = []

    def run(self, infer: Callable[[], None]) -> None:
        """Send the inputs, infer, fetch the outputs."""
        if not self._input_stays:
            for number, array in self._inputs.items():
                self._interpreter.set_tensor(number, array)
        infer()
        if self._output_stays:
            self._outputs = [_in_place(self._interpreter, item) for item in self._output_numbers]
        else:
            self._outputs = [self._interpreter.get_tensor(item) for item in self._output_numbers]

    def views(self) -> Sequence[memoryview]:
        """Return the outputs of the last run."""
        return [as_buffer(output) for output in self._outputs]

    def image_input(self) -> ImageInput:
        """Return the array of the first input that is a picture; every run copies or reads it."""
        return image_in(self._inputs.values())

    def copies(self) -> Copies:
        """Return the bytes that one run copies."""
        input_bytes = 0 if self._input_stays else _bytes_of(self._inputs.values())
        return Copies(input_bytes, 0 if self._output_stays else _bytes_of(self._outputs))

    def allocations(self) -> List[Allocation]:
        """Return nothing: tensors in place are in the interpreter's own memory."""
        return []


def opened(model: str, memory: Memory, delegates: Sequence[Any] = ()) -> Any:
    """Return an interpreter of the file with these delegates; raise NotSupported for an option that
    it lacks, AdapterError if it does not take the file.
    """
    options = options_of(memory.options, shares_internal=False)
    if (options.flags, options.others) != (CpuOptions().flags, CpuOptions().others):
        raise NotSupported("litert_no_flags", options=", ".join(memory.options))
    resolver = _RESOLVERS[options.kernel_mode]
    return checked(
        model,
        lambda: Interpreter(
            model,
            num_threads=options.threads,
            experimental_op_resolver_type=resolver,
            experimental_delegates=list(delegates),
        ),
    )


def prepared_tensors(
    model: str,
    interpreter: Any,
    inputs: Inputs,
    zero_copy: Sequence[str] = (),
) -> InterpreterTensors:
    """Return tensors for an interpreter that was just opened, once it has allocated its own."""
    for tensor in _tensors(interpreter, "input"):
        shape = data_for(tensor.declared, inputs).shape
        if shape != tensor.declared.dimensions:
            interpreter.resize_tensor_input(tensor.number, shape)
    checked(model, interpreter.allocate_tensors)
    return InterpreterTensors(interpreter, inputs, zero_copy)


def check_sizes(interpreter: Any, inputs: Inputs) -> None:
    """Raise NotSupported if an input needs another size than the interpreter was made with."""
    made = {detail["index"]: detail["shape"] for detail in interpreter.get_input_details()}
    for tensor in _tensors(interpreter, "input"):
        needed = data_for(tensor.declared, inputs).shape
        sizes = tuple(made[tensor.number])
        if needed != sizes:
            raise NotSupported(
                "teflon_fixed_sizes",
                tensor=tensor.declared.name,
                needed="x".join(map(str, needed)),
                made="x".join(map(str, sizes)),
            )


def interface_of(model: str) -> Interface:
    """Return the tensors of the file's first signature."""
    interpreter = opened(model, Memory(options=("kernel_mode=builtin",)))
    sides = []
    for side in ("input", "output"):
        sides.append(tuple(tensor.declared for tensor in _tensors(interpreter, side)))
    return Interface(sides[0], sides[1], {})


def checked(model: str, call: Callable[[], Any]) -> Any:
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


def _in_place(interpreter: Any, number: int) -> Any:
    """Return a tensor in the interpreter's own memory, as an array that it does not know of."""
    view = interpreter.tensor(number)()
    memory = (ctypes.c_uint8 * view.nbytes).from_address(view.ctypes.data)
    return np.frombuffer(memory, view.dtype).reshape(view.shape)


def _bytes_of(arrays: Any) -> int:
    return sum(int(array.nbytes) for array in arrays)
