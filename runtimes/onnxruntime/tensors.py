"""How a session's input gets in and its output out: by run(), bound to the application's memory, or on the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, List, Sequence

import numpy as np
import onnxruntime as ort

from messages import Message
from runtimes.arrays import as_buffer, image_in, noise
from runtimes.base import Allocation, Copies, ImageInput, Memory, NotSupported

__all__ = ["Tensors", "open_tensors"]

_DTYPES: Dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


class Tensors(ABC):
    """The inputs and outputs of one context."""

    def __init__(self, session: Any, model: str) -> None:
        self.session = session
        self._inputs = {each.name: _like(each, Message("input"), model) for each in session.get_inputs()}

    @abstractmethod
    def run(self) -> None:
        """Run the session once."""

    @abstractmethod
    def outputs(self) -> Sequence[Any]:
        """Return the outputs of the last run as arrays."""

    @abstractmethod
    def copies(self) -> Copies:
        """Return what the last run copied."""

    def image_input(self) -> ImageInput:
        """Return the application's array of the first input that is a picture; the session reads it in every run."""
        return image_in(self._inputs.values())

    def views(self) -> List[memoryview]:
        """Return the bytes of the outputs of the last run."""
        return [as_buffer(output) for output in self.outputs()]

    def allocations(self) -> List[Allocation]:
        """Return the memory that the application gave."""
        return []


class Fed(Tensors):
    """run(): takes arrays and returns arrays."""

    def __init__(self, session: Any, model: str, device: bool) -> None:
        super().__init__(session, model)
        self._device = device
        self._outputs: List[Any] = []

    def run(self) -> None:
        """Run; ONNX Runtime allocates the outputs."""
        self._outputs = self.session.run(None, self._inputs)

    def outputs(self) -> Sequence[Any]:
        """Return what run() returned."""
        return self._outputs

    def copies(self) -> Copies:
        """Return the outputs where they are arrays of their own; on the host run() reads contiguous inputs in place."""
        sent = _nbytes(self._inputs.values()) if self._device else 0
        return Copies(sent, _nbytes(each for each in self._outputs if each.flags.owndata))


class Bound(Tensors):
    """I/O binding: the session reads and writes the application's arrays where they are."""

    def __init__(self, session: Any, model: str, zero_copy: Sequence[str]) -> None:
        super().__init__(session, model)
        self._binding = session.io_binding()
        self._input_stays, self._output_stays = "input" in zero_copy, "output" in zero_copy
        self._outputs: List[Any] = []
        if self._input_stays:
            for name, array in self._inputs.items():
                self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        if self._output_stays:
            self._outputs = [_like(each, Message("output"), model) for each in session.get_outputs()]
            for each, array in zip(session.get_outputs(), self._outputs):
                self._binding.bind_output(each.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def run(self) -> None:
        """Run; what the application does not keep is bound anew, as run() would."""
        if not self._input_stays:
            for name, array in self._inputs.items():
                self._binding.bind_cpu_input(name, array)
        if not self._output_stays:
            for each in self.session.get_outputs():
                self._binding.bind_output(each.name, "cpu")
        self.session.run_with_iobinding(self._binding)
        if not self._output_stays:
            self._outputs = [each.numpy() for each in self._binding.get_outputs()]

    def outputs(self) -> Sequence[Any]:
        """Return the application's arrays, or those that ONNX Runtime allocated."""
        return self._outputs

    def copies(self) -> Copies:
        """Return the outputs that came as arrays of their own; inputs are read in place, bound once or anew."""
        copied = () if self._output_stays else (each for each in self._outputs if each.flags.owndata)
        return Copies(0, _nbytes(copied))

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are bound for good."""
        given = [Allocation("input", array.nbytes, 0) for array in self._inputs.values() if self._input_stays]
        return given + [Allocation("output", array.nbytes, 0) for array in self._outputs if self._output_stays]


class OnDevice(Tensors):
    """I/O binding to the device: the input was sent once, the output is fetched only when somebody asks for it."""

    def __init__(self, session: Any, model: str, device: str) -> None:
        super().__init__(session, model)
        self._binding = session.io_binding()
        self._sent = {name: ort.OrtValue.ortvalue_from_numpy(each, device, 0) for name, each in self._inputs.items()}
        for name, value in self._sent.items():
            self._binding.bind_ortvalue_input(name, value)
        for each in session.get_outputs():
            self._binding.bind_output(each.name, device, 0)

    def run(self) -> None:
        """Run, and wait until the device is done."""
        self.session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def image_input(self) -> ImageInput:
        """Refuse: what was sent stays there."""
        raise NotSupported("input_on_device")

    def outputs(self) -> Sequence[Any]:
        """Fetch the outputs."""
        return [each.numpy() for each in self._binding.get_outputs()]

    def copies(self) -> Copies:
        """Nothing crosses to the host."""
        return Copies(0, 0)


def open_tensors(session: Any, model: str, memory: Memory) -> Tensors:
    """Return what moves the tensors of a session of the model as `memory` says; raise where that is not possible."""
    if memory.device_io:
        if memory.device is None:
            raise NotSupported("onnx_cpu_device_io")
        return OnDevice(session, model, memory.device)
    if memory.zero_copy:
        return Bound(session, model, memory.zero_copy)
    return Fed(session, model, device=memory.device is not None)


def _like(tensor: Any, role: Message, model: str) -> Any:
    """Return the noise pattern as an array of a tensor's shape and type; outputs are overwritten."""
    dtype = _DTYPES.get(tensor.type)
    if dtype is None:
        valid = ", ".join(_DTYPES)
        raise NotSupported(
            "onnx_tensor_type", role=role, tensor=tensor.name, model=model, type=tensor.type, valid=valid
        )
    return noise(_fixed_shape(tensor, role, model), dtype)


def _fixed_shape(tensor: Any, role: Message, model: str) -> List[int]:
    """Return the shape with a free batch size set to 1; a free size elsewhere is the user's to fix."""
    shape = [1 if position == 0 and not isinstance(size, int) else size for position, size in enumerate(tensor.shape)]
    free = [str(size) for size in shape if not isinstance(size, int)]
    if free:
        raise NotSupported("onnx_free_sizes", role=role, tensor=tensor.name, model=model, sizes=", ".join(free))
    return shape


def _nbytes(arrays: Any) -> int:
    return sum(array.nbytes for array in arrays)
