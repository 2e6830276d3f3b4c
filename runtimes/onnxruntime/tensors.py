"""How a session's input gets in and its output out: by run(), bound to the application's memory, or on the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, Iterable, List, Sequence

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
        self._inputs = {tensor.name: _like(tensor, Message("input"), model) for tensor in session.get_inputs()}
        #: Of the last run, as arrays.
        self._outputs: List[Any] = []

    @abstractmethod
    def run(self) -> None:
        """Run the session once."""

    @abstractmethod
    def copies(self) -> Copies:
        """Return what the last run copied."""

    def image_input(self) -> ImageInput:
        """Return the application's array of the first input that is a picture; the session reads it in every run."""
        return image_in(self._inputs.values())

    def views(self) -> List[memoryview]:
        """Return the bytes of the outputs of the last run."""
        return [as_buffer(output) for output in self._outputs]

    def allocations(self) -> List[Allocation]:
        """Return the memory that the application gave."""
        return []


class Fed(Tensors):
    """run(): takes arrays and returns arrays, which ONNX Runtime allocates."""

    def __init__(self, session: Any, model: str, device: bool) -> None:
        super().__init__(session, model)
        self._device = device

    def run(self) -> None:
        """Run."""
        self._outputs = self.session.run(None, self._inputs)

    def copies(self) -> Copies:
        """Return the outputs where they are arrays of their own; on the host run() reads contiguous inputs in place."""
        sent_bytes = sum(array.nbytes for array in self._inputs.values()) if self._device else 0
        return Copies(sent_bytes, _own_bytes(self._outputs))


class Bound(Tensors):
    """I/O binding: the session reads and writes the application's arrays where they are."""

    def __init__(self, session: Any, model: str, zero_copy: Sequence[str]) -> None:
        super().__init__(session, model)
        self._binding = session.io_binding()
        self._input_stays, self._output_stays = "input" in zero_copy, "output" in zero_copy
        if self._input_stays:
            for name, array in self._inputs.items():
                self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        if self._output_stays:
            for tensor in session.get_outputs():
                array = _like(tensor, Message("output"), model)
                self._binding.bind_output(tensor.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
                self._outputs.append(array)

    def run(self) -> None:
        """Run; what the application does not keep is bound anew, as run() would."""
        if not self._input_stays:
            for name, array in self._inputs.items():
                self._binding.bind_cpu_input(name, array)
        if not self._output_stays:
            for tensor in self.session.get_outputs():
                self._binding.bind_output(tensor.name, "cpu")
        self.session.run_with_iobinding(self._binding)
        if not self._output_stays:
            self._outputs = [value.numpy() for value in self._binding.get_outputs()]

    def copies(self) -> Copies:
        """Return the outputs that came as arrays of their own; inputs are read in place, bound once or anew."""
        return Copies(0, 0 if self._output_stays else _own_bytes(self._outputs))

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are bound for good."""
        allocations = []
        if self._input_stays:
            allocations += [Allocation("input", array.nbytes, 0) for array in self._inputs.values()]
        if self._output_stays:
            allocations += [Allocation("output", array.nbytes, 0) for array in self._outputs]
        return allocations


class OnDevice(Tensors):
    """I/O binding to the device: the input was sent once, the output is fetched by views() alone."""

    def __init__(self, session: Any, model: str, device: str) -> None:
        super().__init__(session, model)
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


def open_tensors(session: Any, model: str, memory: Memory) -> Tensors:
    """Return what moves the tensors of a session of the model as in `memory`; raise NotSupported where it cannot."""
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
    # A free batch size is 1; a free size elsewhere is the user's to fix.
    shape = [1 if position == 0 and not isinstance(size, int) else size for position, size in enumerate(tensor.shape)]
    free = [str(size) for size in shape if not isinstance(size, int)]
    if free:
        raise NotSupported("onnx_free_sizes", role=role, tensor=tensor.name, model=model, sizes=", ".join(free))
    return noise(shape, dtype)


def _own_bytes(arrays: Iterable[Any]) -> int:
    """Return the bytes of those arrays that own their memory: what they hold was copied."""
    return sum(array.nbytes for array in arrays if array.flags.owndata)
