"""The inputs and outputs of a context: LiteRT's own tensor buffers, or the application's memory.

A compiled model reads and writes its tensor buffers in place. An application that has its frame
elsewhere copies it in (TensorBuffer.write) and its results out (read). Zero copy is a buffer over
the application's memory.
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

__all__ = ["PICTURE_DIMENSIONS", "LiteRtTensors", "declared", "filled_input"]

#: Types of elements by LiteRtElementType (litert_model_types.h); no array holds those in capitals.
_TYPES = {
    1: "float32",
    2: "int32",
    3: "uint8",
    4: "int64",
    5: "STRING",
    6: "bool",
    7: "int16",
    8: "COMPLEX64",
    9: "int8",
    10: "float16",
    11: "float64",
    12: "COMPLEX128",
    13: "uint64",
    14: "RESOURCE",
    15: "VARIANT",
    16: "uint32",
    17: "uint16",
    18: "INT4",
    19: BFLOAT16,
    20: "INT2",
}
#: LITERT_HOST_MEMORY_BUFFER_ALIGNMENT.
_ALIGNMENT = 64
#: Distance beyond the end of a tensor that XNNPACK may read (XNN_EXTRA_BYTES).
_EXTRA_BYTES = 128
#: Number of dimensions of a picture, whose channels are last.
PICTURE_DIMENSIONS = 4


def declared(tensor: SignatureTensor) -> DeclaredTensor:
    """Return a tensor as the model's file declares it; pictures have their channels last."""
    sizes = tuple(size if size >= 0 else "" for size in tensor.type.sizes)
    layout = "nhwc" if len(sizes) == PICTURE_DIMENSIONS else ""
    element = tensor.type.element
    kind = _TYPES.get(element, f"type {element}")
    return DeclaredTensor(tensor.name, kind, sizes, layout)


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
        """Copy the array into the buffer, as TensorBuffer.write does, unless it is in place."""
        if not self.in_place:
            ctypes.memmove(self._address, self.array.ctypes.data, self.array.nbytes)

    def fetch(self) -> None:
        """Copy the buffer into a new array, as TensorBuffer.read does, unless it is in place."""
        if not self.in_place:
            self.array = np.empty_like(self.array)
            ctypes.memmove(self.array.ctypes.data, self._address, self.array.nbytes)


class LiteRtTensors:
    """All inputs and outputs of one context.

    `inputs` has the data of each input, and `outputs` each output for inputs of these shapes.
    `arrays` may come from other contexts, and gets what is missing.
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
        input_stays = "input" in zero_copy
        output_stays = "output" in zero_copy
        for kind, fed in inputs:
            is_new = fed.name not in arrays
            if is_new:
                arrays[fed.name] = _aligned(fed.shape, fed.type)
                arrays[fed.name][...] = filled_input(fed)
            array = arrays[fed.name]
            self._inputs.append(_Tensor(library, environment, kind, array, input_stays))
            if is_new and input_stays:
                self._allocations.append(Allocation("input", array.nbytes, 0))
        for kind, output in outputs:
            is_new = output.name not in arrays
            if is_new:
                arrays[output.name] = _aligned(output.shape, output.type)
            array = arrays[output.name]
            self._outputs.append(_Tensor(library, environment, kind, array, output_stays))
            if is_new and output_stays:
                self._allocations.append(Allocation("output", array.nbytes, 0))
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
        """Return the array of the first input that is a picture; every run copies or reads it."""
        return image_in(tensor.array for tensor in self._inputs)

    def copies(self) -> Copies:
        """Return the bytes that one run copies."""
        return Copies(_copied_bytes(self._inputs), _copied_bytes(self._outputs))

    def allocations(self) -> List[Allocation]:
        """Return the application's memory below buffers, unless another context made it."""
        return self._allocations


def filled_input(tensor: InputData) -> Any:
    """Return the elements of an input; noise as in the ONNX file, transposed."""
    is_noise = tensor.file is None and tensor.value is None
    if not is_noise or len(tensor.shape) != PICTURE_DIMENSIONS:
        return filled(tensor)
    count, height, width, channels = tensor.shape
    return noise((count, channels, height, width), tensor.type).transpose(0, 2, 3, 1)


def _aligned(shape: Sequence[int], kind: str) -> Any:
    """Return an aligned array, as a host buffer needs; LiteRT's Python class copies others."""
    dtype = numpy_type(kind)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT + _EXTRA_BYTES, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _array_of(tensors: Sequence[_Tensor]) -> Any:
    return (c_void_p * len(tensors))(*(tensor.buffer.value for tensor in tensors))


def _copied_bytes(tensors: Sequence[_Tensor]) -> int:
    return sum(int(tensor.array.nbytes) for tensor in tensors if not tensor.in_place)
