"""How a session's input gets in and its output out: by run(), bound to the application's memory, or
on the device.
"""

from __future__ import annotations

import ctypes
import re
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Sequence

import numpy as np
import onnxruntime as ort

from reusebench.measured.runtimes.arrays import Arrays, as_buffer, filled, image_in, numpy_type
from reusebench.measured.runtimes.base import (
    BFLOAT16,
    ELEMENT_TYPES,
    TEXT,
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    InputData,
    Inputs,
    Memory,
    NotSupported,
)

__all__ = ["OnnxTensors", "declared", "is_fed", "open_tensors"]

#: ONNX Runtime's names of types that numpy calls otherwise, or has not; the others are numpy's.
_TYPES = {"float": "float32", "double": "float64", "string": TEXT}
#: An optional tensor is fed like any other.
_TENSOR = re.compile(r"(?:optional\()?tensor\((\w+)\)+")
#: TensorProto.BFLOAT16 (onnx.proto).
_ONNX_BFLOAT16 = 16


def declared(tensor: Any) -> DeclaredTensor:
    """Return an input or output of a session (onnxruntime.NodeArg) as the model declares it."""
    matched = _TENSOR.fullmatch(tensor.type)
    kind = _TYPES.get(matched[1], matched[1]) if matched else tensor.type
    sizes = [size if isinstance(size, int) else size or "" for size in tensor.shape or ()]
    return DeclaredTensor(tensor.name, kind, tuple(sizes))


class OnnxTensors(ABC):
    """The inputs and outputs of one context."""

    def __init__(self, session: Any, inputs: Inputs, arrays: Arrays) -> None:
        self.session = session
        #: The application's arrays.
        self._inputs: Dict[str, Any] = {}
        #: The same as a session takes them.
        self._fed: Dict[str, Any] = {}
        #: Those that another context has made already.
        self._shared = set(arrays)
        for tensor in map(declared, session.get_inputs()):
            if tensor.name not in arrays:
                arrays[tensor.name] = filled(
                    inputs.get(tensor.name) or InputData(tensor.name, tensor.type, tensor.shape)
                )
            array = self._inputs[tensor.name] = arrays[tensor.name]
            self._fed[tensor.name] = _bfloat16_value(array) if tensor.type == BFLOAT16 else array
        #: Of the last run.
        self._outputs: List[Any] = []

    @abstractmethod
    def run(self) -> None:
        """Run the session once."""

    @abstractmethod
    def copies(self) -> Copies:
        """Return what the last run copied."""

    def image_input(self) -> ImageInput:
        """Return the application's array of the first input that is a picture; the session reads it
        in every run.
        """
        return image_in(self._inputs.values())

    def views(self) -> List[memoryview]:
        """Return the bytes of the outputs of the last run."""
        return [as_buffer(output) for output in self._outputs]

    def allocations(self) -> List[Allocation]:
        """Return the memory that the application gave."""
        return []


class FedTensors(OnnxTensors):
    """run(): takes arrays and returns arrays, which ONNX Runtime allocates."""

    def __init__(self, session: Any, inputs: Inputs, arrays: Arrays, device: bool) -> None:
        super().__init__(session, inputs, arrays)
        self._device = device
        #: run() returns no output that numpy has no type for.
        self._has_bfloat16 = BFLOAT16 in [declared(tensor).type for tensor in session.get_outputs()]

    def run(self) -> None:
        """Run."""
        if not self._has_bfloat16:
            self._outputs = self.session.run(None, self._fed)
            return
        values = {name: _as_value(value) for name, value in self._fed.items()}
        self._outputs = [
            _array_of(value) for value in self.session.run_with_ort_values(None, values)
        ]

    def copies(self) -> Copies:
        """Return the outputs where they are arrays of their own; on the host run() reads contiguous
        inputs in place.
        """
        sent_bytes = sum(array.nbytes for array in self._inputs.values()) if self._device else 0
        return Copies(sent_bytes, _own_bytes(self._outputs))


class BoundTensors(OnnxTensors):
    """I/O binding: the session reads and writes the application's arrays where they are.

    The array of an output whose size the file leaves free is made after the first run, which shows
    the size.
    """

    def __init__(
        self, session: Any, inputs: Inputs, arrays: Arrays, zero_copy: Sequence[str]
    ) -> None:
        super().__init__(session, inputs, arrays)
        self._arrays = arrays
        self._tensors = [
            declared(tensor) for tensor in (*session.get_inputs(), *session.get_outputs())
        ]
        for tensor in self._tensors:
            if tensor.type == TEXT or not is_fed(tensor):
                raise NotSupported("onnx_not_bindable", tensor=tensor.name, type=tensor.type)
        self._binding = session.io_binding()
        self._input_stays = "input" in zero_copy
        self._output_stays = "output" in zero_copy
        self._returned = self._tensors[len(self._inputs) :]
        if self._input_stays:
            for tensor, array in zip(self._tensors, self._inputs.values()):
                address = array.ctypes.data
                self._binding.bind_input(
                    tensor.name, "cpu", 0, _element(tensor), array.shape, address
                )
        if self._output_stays and not any(_has_free_size(tensor) for tensor in self._returned):
            for tensor in self._returned:
                if tensor.name not in arrays:
                    arrays[tensor.name] = np.empty(tensor.shape, numpy_type(tensor.type))
            self._bind_outputs()

    def run(self) -> None:
        """Run; what the application does not keep is bound anew, as run() would."""
        is_kept = self._output_stays and bool(self._outputs)
        if not self._input_stays:
            for name, value in self._fed.items():
                bind = (
                    self._binding.bind_cpu_input
                    if isinstance(value, np.ndarray)
                    else self._binding.bind_ortvalue_input
                )
                bind(name, value)
        if not is_kept:
            for tensor in self._returned:
                self._binding.bind_output(tensor.name, "cpu")
        self.session.run_with_iobinding(self._binding)
        if not is_kept:
            self._outputs = [_array_of(value) for value in self._binding.get_outputs()]
        if self._output_stays and not is_kept:
            for tensor, array in zip(self._returned, self._outputs):
                self._arrays.setdefault(tensor.name, array.copy())
            self._bind_outputs()

    def _bind_outputs(self) -> None:
        """Have further runs write the outputs into the application's arrays."""
        self._outputs = [self._arrays[tensor.name] for tensor in self._returned]
        for tensor, array in zip(self._returned, self._outputs):
            self._binding.bind_output(
                tensor.name, "cpu", 0, _element(tensor), array.shape, array.ctypes.data
            )

    def copies(self) -> Copies:
        """Return the outputs that came as arrays of their own; inputs are read in place, bound once
        or anew.
        """
        return Copies(0, 0 if self._output_stays else _own_bytes(self._outputs))

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are bound for good, and that no other context has made."""
        bound = [
            ("input", name, array) for name, array in self._inputs.items() if self._input_stays
        ]
        if self._output_stays:
            bound += [
                ("output", tensor.name, array)
                for tensor, array in zip(self._returned, self._outputs)
            ]
        return [
            Allocation(kind, array.nbytes, 0)
            for kind, name, array in bound
            if name not in self._shared
        ]


class DeviceTensors(OnnxTensors):
    """I/O binding to the device: the input was sent once, the output is fetched by views()
    alone.
    """

    def __init__(self, session: Any, inputs: Inputs, arrays: Arrays, device: str) -> None:
        super().__init__(session, inputs, arrays)
        self._binding = session.io_binding()
        #: Held for as long as the binding names them.
        self._sent = []
        for name, array in self._inputs.items():
            self._sent.append(ort.OrtValue.ortvalue_from_numpy(array, device, 0))
            self._binding.bind_ortvalue_input(name, self._sent[-1])
        for tensor in session.get_outputs():
            self._binding.bind_output(tensor.name, device, 0)

    def run(self) -> None:
        """Run, and wait until the device is done."""
        self.session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def image_input(self) -> ImageInput:
        """Refuse: what was sent stays there."""
        raise NotSupported("input_on_device")

    def views(self) -> List[memoryview]:
        """Fetch the outputs."""
        return [as_buffer(value.numpy()) for value in self._binding.get_outputs()]

    def copies(self) -> Copies:
        """Nothing crosses to the host."""
        return Copies(0, 0)


def open_tensors(session: Any, memory: Memory, inputs: Inputs, arrays: Arrays) -> OnnxTensors:
    """Return what moves the tensors of a session as in `memory`; raise NotSupported where it
    cannot.

    `arrays` are those of other contexts that it shares, and get those that it makes.
    """
    if memory.device_io:
        if memory.device is None:
            raise NotSupported("onnx_cpu_device_io")
        return DeviceTensors(session, inputs, arrays, memory.device)
    if memory.zero_copy:
        return BoundTensors(session, inputs, arrays, memory.zero_copy)
    return FedTensors(session, inputs, arrays, device=memory.device is not None)


def is_fed(tensor: DeclaredTensor) -> bool:
    """Whether there are arrays for it."""
    return tensor.type in ELEMENT_TYPES


def _has_free_size(tensor: DeclaredTensor) -> bool:
    """Whether a run alone shows the shape; a tensor of unknown rank looks like a scalar."""
    return not tensor.dimensions or any(isinstance(size, str) for size in tensor.dimensions)


def _element(tensor: DeclaredTensor) -> Any:
    return _ONNX_BFLOAT16 if tensor.type == BFLOAT16 else numpy_type(tensor.type)


def _bfloat16_value(array: Any) -> Any:
    """Return a tensor of bfloat16 over the array, which has its bits."""
    if not hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type"):
        raise NotSupported("onnx_no_bfloat16", version=ort.__version__)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _ONNX_BFLOAT16)


def _as_value(fed: Any) -> Any:
    return fed if isinstance(fed, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(fed)


def _array_of(value: Any) -> Any:
    """Return a tensor as an array; of bfloat16 a copy of its bits."""
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    address = value.data_ptr()
    size = value.tensor_size_in_bytes()
    return np.frombuffer(ctypes.string_at(address, size), np.uint16).reshape(value.shape())


def _own_bytes(arrays: Sequence[Any]) -> int:
    """Return the bytes of those arrays that own their memory: what they hold was copied."""
    return sum(
        array.nbytes for array in arrays if isinstance(array, np.ndarray) and array.flags.owndata
    )
