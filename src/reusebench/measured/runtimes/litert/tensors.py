"""How a context's inputs get in and its outputs out: by LiteRT's own tensor buffers, or in the
application's memory.

A compiled model reads and writes its tensor buffers where they are. An application that has its
frame elsewhere copies it in (TensorBuffer.write) and its results out (read); zero copy is a buffer
over the application's memory.
"""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from typing import Any, List, Sequence, Tuple

import numpy as np

from reusebench.measured.runtimes.arrays import (
    Arrays,
    as_buffer,
    filled,
    image_in,
    noise,
    numpy_type,
)
from reusebench.measured.runtimes.base import (
    BFLOAT16,
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    InputData,
)
from reusebench.measured.runtimes.litert.binding import (
    Handle,
    LiteRtLibrary,
    RankedType,
    SignatureTensor,
)

__all__ = ["LiteRtTensors", "declared"]

#: LiteRtElementType (litert_model_types.h) in the words of DeclaredTensor; then those that no array
#: holds.
_TYPES = {
    **{
        1: "float32",
        2: "int32",
        3: "uint8",
        4: "int64",
        6: "bool",
        7: "int16",
        9: "int8",
        10: "float16",
    },
    **{11: "float64", 13: "uint64", 16: "uint32", 17: "uint16", 19: BFLOAT16},
    **{
        5: "STRING",
        8: "COMPLEX64",
        12: "COMPLEX128",
        14: "RESOURCE",
        15: "VARIANT",
        18: "INT4",
        20: "INT2",
    },
}
#: LITERT_HOST_MEMORY_BUFFER_ALIGNMENT; and how far beyond a tensor XNNPACK may read
#: (XNN_EXTRA_BYTES).
_ALIGNMENT = 64
_EXTRA_BYTES = 128
_PICTURE_DIMENSIONS = 4


def declared(tensor: SignatureTensor) -> DeclaredTensor:
    """Return an input or output as the model's file declares it; a picture has its channels
    last.
    """
    sizes = tuple(size if size >= 0 else "" for size in tensor.type.sizes)
    layout = "nhwc" if len(sizes) == _PICTURE_DIMENSIONS else ""
    return DeclaredTensor(
        tensor.name, _TYPES.get(tensor.type.element, f"type {tensor.type.element}"), sizes, layout
    )


class _Tensor:
    """The application's array of an input or output, and the buffer that the model uses."""

    def __init__(
        self,
        library: LiteRtLibrary,
        environment: Handle,
        kind: RankedType,
        array: Any,
        in_place: bool,
    ) -> None:
        self.array = array
        self.in_place = in_place
        if in_place:
            self.buffer = library.host_buffer(kind, array)
        else:
            self.buffer = library.managed_buffer(environment, kind, array.nbytes)
            self._address = library.address_of(self.buffer)

    def send(self) -> None:
        """Copy the array into the buffer, as TensorBuffer.write does, unless the buffer is the
        array's memory.
        """
        if not self.in_place:
            ctypes.memmove(self._address, self.array.ctypes.data, self.array.nbytes)

    def fetch(self) -> None:
        """Copy the buffer into a new array, as TensorBuffer.read does, unless it is the array's
        memory.
        """
        if not self.in_place:
            self.array = np.empty_like(self.array)
            ctypes.memmove(self.array.ctypes.data, self._address, self.array.nbytes)


class LiteRtTensors:
    """All inputs and outputs of one context.

    `inputs` are what each input is fed with, `outputs` what each output is now that the inputs have
    these shapes. `arrays` are those of other contexts that it shares, and get those that it makes.
    """

    def __init__(
        self,
        library: LiteRtLibrary,
        environment: Handle,
        inputs: Sequence[Tuple[RankedType, InputData]],
        outputs: Sequence[Tuple[RankedType, DeclaredTensor]],
        zero_copy: Sequence[str],
        arrays: Arrays,
    ) -> None:
        self._library = library
        self._inputs: List[_Tensor] = []
        self._outputs: List[_Tensor] = []
        self._allocations: List[Allocation] = []
        for kind, fed in inputs:
            is_new = fed.name not in arrays
            if is_new:
                arrays[fed.name] = _aligned(fed.shape, fed.type)
                arrays[fed.name][...] = _filled(fed)
            self._inputs.append(
                _Tensor(library, environment, kind, arrays[fed.name], "input" in zero_copy)
            )
            if is_new and "input" in zero_copy:
                self._allocations.append(Allocation("input", arrays[fed.name].nbytes, 0))
        for kind, output in outputs:
            is_new = output.name not in arrays
            if is_new:
                arrays[output.name] = _aligned(output.shape, output.type)
            self._outputs.append(
                _Tensor(library, environment, kind, arrays[output.name], "output" in zero_copy)
            )
            if is_new and "output" in zero_copy:
                self._allocations.append(Allocation("output", arrays[output.name].nbytes, 0))
        self._input_buffers = _array_of(self._inputs)
        self._output_buffers = _array_of(self._outputs)

    def run(self, compiled: Handle) -> None:
        """Send the inputs, infer, fetch the outputs."""
        for tensor in self._inputs:
            tensor.send()
        self._library.run(compiled, self._input_buffers, self._output_buffers)
        for tensor in self._outputs:
            tensor.fetch()

    def views(self) -> List[memoryview]:
        """Return the bytes of the outputs of the last run."""
        return [as_buffer(tensor.array) for tensor in self._outputs]

    def image_input(self) -> ImageInput:
        """Return the application's array of the first input that is a picture; every run copies or
        reads it.
        """
        return image_in(tensor.array for tensor in self._inputs)

    def copies(self) -> Copies:
        """Return what one run copies."""
        return Copies(_copied_bytes(self._inputs), _copied_bytes(self._outputs))

    def allocations(self) -> List[Allocation]:
        """Return the application's memory that buffers are over, and that no other context has
        made.
        """
        return self._allocations


def _filled(tensor: InputData) -> Any:
    """Return the elements of an input; noise as the ONNX file would have it, turned."""
    if (
        tensor.file is not None
        or tensor.value is not None
        or len(tensor.shape) != _PICTURE_DIMENSIONS
    ):
        return filled(tensor)
    count, height, width, channels = tensor.shape
    return noise((count, channels, height, width), tensor.type).transpose(0, 2, 3, 1)


def _aligned(shape: Sequence[int], kind: str) -> Any:
    """Return an array that a host buffer can be over: LiteRT's own Python class copies one that is
    not aligned.
    """
    dtype = numpy_type(kind)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT + _EXTRA_BYTES, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _array_of(tensors: Sequence[_Tensor]) -> Any:
    return (c_void_p * len(tensors))(*(tensor.buffer.value for tensor in tensors))


def _copied_bytes(tensors: Sequence[_Tensor]) -> int:
    return sum(0 if tensor.in_place else int(tensor.array.nbytes) for tensor in tensors)
