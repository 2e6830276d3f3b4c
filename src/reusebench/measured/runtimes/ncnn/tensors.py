"""The inputs and outputs of a context: copied by ncnn, or in the application's arrays."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
from ncnn import Mat

from reusebench.measured.runtimes.arrays import Arrays, as_buffer, filled, image_in
from reusebench.measured.runtimes.base import (
    Allocation,
    ImageInput,
    Inputs,
    NotSupported,
    data_for,
)
from reusebench.measured.runtimes.ncnn.arena import ALIGNMENT, OVERREAD, Allocator
from reusebench.measured.runtimes.ncnn.graph import Graph

__all__ = ["ArrayOutputs", "NcnnInputTensors", "NcnnOutputTensors"]

#: Layers that leave their input as it is and write a tensor of their own. Others may work in place,
#: or pass the memory of the input on to one that does.
_READERS = (
    "Convolution",
    "ConvolutionDepthWise",
    "Convolution1D",
    "Deconvolution",
    "InnerProduct",
    "Pooling",
    "Embed",
    "LSTM",
    "GRU",
    "RNN",
)
#: Most dimensions of a Mat.
_MOST_DIMENSIONS = 4


class NcnnInputTensors:
    """The application's input arrays; ncnn gets copies, or a Mat over each."""

    def __init__(self, graph: Graph, inputs: Inputs, arrays: Arrays, stays: bool) -> None:
        """`arrays` may come from other contexts, and gets what is missing; `stays`: no copies."""
        self._arrays: Dict[str, Any] = {}
        self._mats: Dict[str, Any] = {}
        self._stays = stays
        self._allocations: List[Allocation] = []
        for tensor in graph.interface.inputs:
            # ncnn asks a Mat that is worked on in place who else holds it; over an array it crashes
            # there.
            if stays and not all(layer.type in _READERS for layer in graph.readers(tensor.name)):
                raise NotSupported("ncnn_input_in_place", tensor=tensor.name)
            name = tensor.name
            if name not in arrays:
                arrays[name] = filled(data_for(tensor, inputs))
                if stays:
                    self._allocations.append(Allocation("input", arrays[name].nbytes, 0))
            self._arrays[name] = arrays[name]
            self._mats[name] = Mat(_without_batch(name, arrays[name]))
        #: Bytes that one inference copies.
        self.copied_bytes = 0
        if not stays:
            self.copied_bytes = sum(array.nbytes for array in self._arrays.values())

    def give_to(self, extractor: Any, allocator: Optional[Allocator]) -> None:
        """Give the inputs to the extractor; copies come from `allocator`, if there is one."""
        for name, mat in self._mats.items():
            if not self._stays:
                mat = mat.clone(allocator)
            extractor.input(name, mat)

    def image_input(self) -> ImageInput:
        """Return the array of the first input that is a picture."""
        return image_in(self._arrays.values())

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are read in place, unless another context made them."""
        return self._allocations


class NcnnOutputTensors:
    """Outputs as extract() returns them: copies, if they were in the pool of a net."""

    def __init__(self) -> None:
        self._mats: List[Any] = []
        #: Bytes that the last inference copied.
        self.copied_bytes = 0

    def drop(self) -> None:
        """Release the outputs of the last inference, so that the next one can use their memory."""
        self._mats = []

    def keep(self, mats: Dict[str, Any]) -> None:
        """Keep the outputs of an inference."""
        self._mats = list(mats.values())
        self.copied_bytes = sum(mat.numpy().nbytes for mat in self._mats)

    def views(self) -> List[memoryview]:
        """Return the bytes of each output."""
        return [as_buffer(mat.numpy()) for mat in self._mats]

    def allocations(self) -> List[Allocation]:
        """Return the application's memory that ncnn writes to."""
        return []


class ArrayOutputs(NcnnOutputTensors):
    """Outputs in the application's arrays: copied there from an arena, or in place.

    ncnn writes in place if its allocator serves a request with the application's memory. The first
    inference shows which request becomes which output, so its outputs are copied.
    """

    def __init__(self, allocator: Allocator, arrays: Arrays, in_place: bool) -> None:
        """`arrays` is as in NcnnInputTensors."""
        super().__init__()
        self._allocator = allocator
        self._arrays = arrays
        self._in_place = in_place
        self._names: List[str] = []
        self._allocations: List[Allocation] = []

    def keep(self, mats: Dict[str, Any]) -> None:
        """Copy outputs that are not in their place, and place them from the next inference on."""
        self._names = list(mats)
        self.copied_bytes = 0
        for name, mat in mats.items():
            output = mat.numpy()
            array = self._array_for(name, output)
            address = output.ctypes.data
            if address == array.ctypes.data:
                continue
            array[...] = output
            self.copied_bytes += output.nbytes
            if self._in_place and self._allocator.size_at(address) is not None:
                self._allocator.place(address, array.ctypes.data)

    def _array_for(self, name: str, output: Any) -> Any:
        array = self._arrays.get(name)
        if array is None or array.shape != output.shape:
            if self._in_place:
                array = _placed_like(output, self._allocator)
                self._allocations.append(Allocation("output", array.nbytes, 0))
            else:
                array = np.empty(output.shape, output.dtype)
            self._arrays[name] = array
        return array

    def views(self) -> List[memoryview]:
        """Return the bytes of each array."""
        return [as_buffer(self._arrays[name]) for name in self._names]

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are written in place, unless another context made them."""
        return self._allocations


def _without_batch(name: str, array: Any) -> Any:
    """Return the array as a Mat has it: without a batch, up to four dimensions of 8 or 32 bits."""
    if array.ndim > 1 and array.shape[0] == 1:
        inner = array[0]
    else:
        inner = array.reshape(array.shape or (1,))
    if inner.ndim > _MOST_DIMENSIONS or inner.itemsize not in (1, 4):
        shape = "x".join(map(str, array.shape))
        raise NotSupported("ncnn_no_such_mat", tensor=name, shape=shape, type=array.dtype.name)
    return inner


def _placed_like(output: Any, allocator: Allocator) -> Any:
    """Return an array with the layout of an output, in memory as large as ncnn requested."""
    size = allocator.size_at(output.ctypes.data) or output.nbytes
    memory = np.empty(size + ALIGNMENT + OVERREAD, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return np.ndarray(output.shape, output.dtype, memory, begin, output.strides)
