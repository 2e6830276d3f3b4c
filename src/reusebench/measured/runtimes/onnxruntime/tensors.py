"""The inputs and outputs of a session: passed to run(), bound in place, or on the device."""

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
    Inputs,
    Memory,
    NotSupported,
    data_for,
)
from reusebench.measured.runtimes.onnxruntime.options import options_of

__all__ = ["OnnxTensors", "declared", "is_fed", "open_tensors"]

#: ONNX Runtime's names of types that are not numpy's.
_TYPES = {"float": "float32", "double": "float64", "string": TEXT}
#: Type of a tensor; an optional one is fed like any other.
_TENSOR = re.compile(r"(?:optional\()?tensor\((\w+)\)+")
#: TensorProto.BFLOAT16 (onnx.proto).
_ONNX_BFLOAT16 = 16


def declared(tensor: Any) -> DeclaredTensor:
    """Return an input or output of a session (onnxruntime.NodeArg) as the model declares it."""
    kind = tensor.type
    matched = _TENSOR.fullmatch(kind)
    if matched:
        kind = _TYPES.get(matched[1], matched[1])

    dimensions = []
    for size in tensor.shape or ():
        is_given = isinstance(size, int) or bool(size)
        dimensions.append(size if is_given else "")
    return DeclaredTensor(tensor.name, kind, tuple(dimensions))


class OnnxTensors(ABC):
    """The inputs and outputs of one context."""

    def __init__(self, session: Any, inputs: Inputs, arrays: Arrays) -> None:
        self.session = session
        #: RunOptions of each inference; None for the default.
        self.run_options: Any = None
        #: Inputs as arrays of the application, by name.
        self._inputs: Dict[str, Any] = {}
        #: Inputs as a session takes them, by name.
        self._fed: Dict[str, Any] = {}
        #: Names of the arrays that another context made.
        self._shared = set(arrays)
        for tensor in map(declared, session.get_inputs()):
            name = tensor.name
            if name not in arrays:
                arrays[name] = filled(data_for(tensor, inputs))
            self._inputs[name] = arrays[name]
            self._fed[name] = arrays[name]
            if tensor.type == BFLOAT16:
                self._fed[name] = _bfloat16_value(arrays[name])
        #: Outputs of the last run.
        self._outputs: List[Any] = []

    @abstractmethod
    def run(self) -> None:
        """Run the session once."""

    @abstractmethod
    def copies(self) -> Copies:
        """Return the bytes that the last run copied."""

    def image_input(self) -> ImageInput:
        """Return the array of the first input that is a picture; every run reads it."""
        return image_in(self._inputs.values())

    def views(self) -> List[memoryview]:
        """Return the bytes of the outputs of the last run."""
        return [as_buffer(output) for output in self._outputs]

    def allocations(self) -> List[Allocation]:
        """Return the application's memory."""
        return []


class FedTensors(OnnxTensors):
    """Arrays passed to run(), which returns arrays that ONNX Runtime allocates."""

    def __init__(self, session: Any, inputs: Inputs, arrays: Arrays, device: bool) -> None:
        super().__init__(session, inputs, arrays)
        self._device = device
        #: Whether an output has a type that numpy lacks; run() returns no such output.
        output_types = [declared(tensor).type for tensor in session.get_outputs()]
        self._has_bfloat16 = BFLOAT16 in output_types

    def run(self) -> None:
        """Run the session on the arrays."""
        if not self._has_bfloat16:
            self._outputs = self.session.run(None, self._fed, self.run_options)
            return
        values = {name: _as_value(value) for name, value in self._fed.items()}
        returned = self.session.run_with_ort_values(None, values, self.run_options)
        self._outputs = [_array_of(value) for value in returned]

    def copies(self) -> Copies:
        """Return the outputs that own their memory; on the host, run() reads inputs in place."""
        sent_bytes = 0
        if self._device:
            sent_bytes = sum(array.nbytes for array in self._inputs.values())
        return Copies(sent_bytes, _own_bytes(self._outputs))


class BoundTensors(OnnxTensors):
    """Arrays of the application that the session reads and writes in place, by I/O binding.

    If the file leaves the size of an output free, its array is made after the first run, which
    shows the size.
    """

    def __init__(
        self,
        session: Any,
        inputs: Inputs,
        arrays: Arrays,
        zero_copy: Sequence[str],
    ) -> None:
        super().__init__(session, inputs, arrays)
        self._arrays = arrays
        self._declared_inputs = [declared(tensor) for tensor in session.get_inputs()]
        self._declared_outputs = [declared(tensor) for tensor in session.get_outputs()]
        for tensor in (*self._declared_inputs, *self._declared_outputs):
            if tensor.type == TEXT or not is_fed(tensor):
                raise NotSupported("onnx_not_bindable", tensor=tensor.name, type=tensor.type)

        self._binding = session.io_binding()
        self._input_stays = "input" in zero_copy
        self._output_stays = "output" in zero_copy
        if self._input_stays:
            self._bind_inputs()
        if self._output_stays and not any(map(_has_free_size, self._declared_outputs)):
            for tensor in self._declared_outputs:
                if tensor.name not in arrays:
                    arrays[tensor.name] = np.empty(tensor.shape, numpy_type(tensor.type))
            self._bind_outputs()

    def run(self) -> None:
        """Run; tensors that are not in place are bound anew, as run() would."""
        outputs_are_bound = self._output_stays and bool(self._outputs)
        if not self._input_stays:
            self._bind_inputs_for_one_run()
        if outputs_are_bound:
            self.session.run_with_iobinding(self._binding, self.run_options)
            return

        for tensor in self._declared_outputs:
            self._binding.bind_output(tensor.name, "cpu")
        self.session.run_with_iobinding(self._binding, self.run_options)
        self._outputs = [_array_of(value) for value in self._binding.get_outputs()]
        if self._output_stays:
            for tensor, array in zip(self._declared_outputs, self._outputs):
                self._arrays.setdefault(tensor.name, array.copy())
            self._bind_outputs()

    def _bind_inputs(self) -> None:
        """Have the session read the application's arrays in all runs."""
        for tensor, array in zip(self._declared_inputs, self._inputs.values()):
            self._binding.bind_input(
                tensor.name,
                "cpu",
                0,
                _element(tensor),
                array.shape,
                array.ctypes.data,
            )

    def _bind_inputs_for_one_run(self) -> None:
        for name, value in self._fed.items():
            if isinstance(value, np.ndarray):
                self._binding.bind_cpu_input(name, value)
            else:
                self._binding.bind_ortvalue_input(name, value)

    def _bind_outputs(self) -> None:
        """Have the session write the outputs into the application's arrays from now on."""
        self._outputs = [self._arrays[tensor.name] for tensor in self._declared_outputs]
        for tensor, array in zip(self._declared_outputs, self._outputs):
            self._binding.bind_output(
                tensor.name,
                "cpu",
                0,
                _element(tensor),
                array.shape,
                array.ctypes.data,
            )

    def copies(self) -> Copies:
        """Return the outputs that own their memory; inputs are always read in place."""
        output_bytes = 0 if self._output_stays else _own_bytes(self._outputs)
        return Copies(0, output_bytes)

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are in place, unless another context made them."""
        allocations = []
        if self._input_stays:
            for name, array in self._inputs.items():
                if name not in self._shared:
                    allocations.append(Allocation("input", array.nbytes, 0))
        if self._output_stays:
            for tensor, array in zip(self._declared_outputs, self._outputs):
                if tensor.name not in self._shared:
                    allocations.append(Allocation("output", array.nbytes, 0))
        return allocations


class DeviceTensors(OnnxTensors):
    """Tensors on the device, by I/O binding: inputs are sent once, only views() fetches outputs."""

    def __init__(self, session: Any, inputs: Inputs, arrays: Arrays, device: str) -> None:
        super().__init__(session, inputs, arrays)
        self._binding = session.io_binding()
        #: Inputs on the device, held as long as the binding names them.
        self._sent = []
        for name, array in self._inputs.items():
            self._sent.append(ort.OrtValue.ortvalue_from_numpy(array, device, 0))
            self._binding.bind_ortvalue_input(name, self._sent[-1])
        for tensor in session.get_outputs():
            self._binding.bind_output(tensor.name, device, 0)

    def run(self) -> None:
        """Run, and wait until the device is done."""
        self.session.run_with_iobinding(self._binding, self.run_options)
        self._binding.synchronize_outputs()

    def image_input(self) -> ImageInput:
        """Refuse: the input on the device is not written again."""
        raise NotSupported("input_on_device")

    def views(self) -> List[memoryview]:
        """Fetch the outputs."""
        return [as_buffer(value.numpy()) for value in self._binding.get_outputs()]

    def copies(self) -> Copies:
        """Return zeros: nothing crosses to the host."""
        return Copies(0, 0)


def open_tensors(session: Any, memory: Memory, inputs: Inputs, arrays: Arrays) -> OnnxTensors:
    """Return the tensors of a session, moved as `memory` says; raise NotSupported if they cannot
    be.

    `arrays` may come from other contexts, and gets what is missing.
    """
    tensors: OnnxTensors
    if memory.device_io:
        if memory.device is None:
            raise NotSupported("onnx_cpu_device_io")
        tensors = DeviceTensors(session, inputs, arrays, memory.device)
    elif memory.zero_copy:
        tensors = BoundTensors(session, inputs, arrays, memory.zero_copy)
    else:
        tensors = FedTensors(session, inputs, arrays, device=memory.device is not None)
    tensors.run_options = options_of(memory.options).run_options()
    return tensors


def is_fed(tensor: DeclaredTensor) -> bool:
    """Whether arrays can hold the tensor."""
    return tensor.type in ELEMENT_TYPES


def _has_free_size(tensor: DeclaredTensor) -> bool:
    """Whether only a run shows the shape; a tensor of unknown rank looks like a scalar."""
    return not tensor.dimensions or any(isinstance(size, str) for size in tensor.dimensions)


def _element(tensor: DeclaredTensor) -> Any:
    return _ONNX_BFLOAT16 if tensor.type == BFLOAT16 else numpy_type(tensor.type)


def _bfloat16_value(array: Any) -> Any:
    """Return a tensor of bfloat16 over an array of its bits."""
    if not hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type"):
        raise NotSupported("onnx_no_bfloat16", version=ort.__version__)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _ONNX_BFLOAT16)


def _as_value(fed: Any) -> Any:
    return fed if isinstance(fed, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(fed)


def _array_of(value: Any) -> Any:
    """Return a tensor as an array; if it is bfloat16, a copy of its bits."""
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    address = value.data_ptr()
    size = value.tensor_size_in_bytes()
    return np.frombuffer(ctypes.string_at(address, size), np.uint16).reshape(value.shape())


def _own_bytes(arrays: Sequence[Any]) -> int:
    """Return the bytes of the arrays that own their memory: their content was copied."""
    size_bytes = 0
    for array in arrays:
        if isinstance(array, np.ndarray) and array.flags.owndata:
            size_bytes += array.nbytes
    return size_bytes
