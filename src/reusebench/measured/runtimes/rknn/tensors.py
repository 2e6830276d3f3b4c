"""The inputs and outputs of a context: copied by the library, copied by us, or used in place."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from typing import Dict, Iterator, List, Literal, NamedTuple, Optional, Sequence

from reusebench.measured.runtimes.base import Allocation, ImageInput, NotSupported
from reusebench.measured.runtimes.rknn.abi import (
    FORMAT_NC1HWC2,
    FORMAT_NHWC,
    SYNC_FROM_DEVICE,
    SYNC_TO_DEVICE,
    TYPE_UINT8,
    RknnInput,
    RknnOutput,
    TensorAttr,
)
from reusebench.measured.runtimes.rknn.application_memory import BoundMemory, Piece
from reusebench.measured.runtimes.rknn.binding import Binding
from reusebench.measured.runtimes.rknn.content import FedInput

__all__ = [
    "BoundInputs",
    "BoundOutputs",
    "CopiedInputs",
    "CopiedOutputs",
    "NativeOutputs",
    "RknnInputTensors",
    "RknnTensors",
]

_IMAGE_DIMENSIONS = 4
#: Dimensions of the NPU's order: pictures, groups of channels, height, width, channels in a group.
_GROUPED_DIMENSIONS = 5
#: Formats of memoryview, by the bytes of an element.
_CODES: Dict[int, Literal["B", "H", "I"]] = {1: "B", 2: "H", 4: "I"}
#: Channels of pictures that frames can be written into.
_CHANNELS = (1, 3)


class RknnTensors(ABC):
    """All inputs, or all outputs, of one context."""

    #: Buffer of the application for each tensor; empty if it uses the bound memory itself.
    _buffers: List[ctypes.Array[ctypes.c_char]]

    @abstractmethod
    def move(self) -> None:
        """Take the input in before a run, or the output out after it."""

    def views(self) -> List[memoryview]:
        """Return the application's side of each tensor, without a copy."""
        return [memoryview(buffer) for buffer in self._buffers]

    def in_order(self) -> Iterator[memoryview]:
        """Yield the tensors piece by piece, in the element order of copied tensors."""
        yield from self.views()

    def copied_bytes(self) -> int:
        """Return the bytes that one inference copies: those of the application's own buffers."""
        return sum(map(len, self._buffers))

    def allocations(self) -> List[Allocation]:
        """Return the memory that was allocated for the NPU to reach."""
        return []

    def release(self) -> None:
        """Release that memory."""
        return


class RknnInputTensors(RknnTensors):
    """All inputs of one context."""

    @abstractmethod
    def image_input(self) -> ImageInput:
        """Return the application's memory of the first input that is a picture."""


class CopiedInputs(RknnInputTensors):
    """Inputs that the library copies from the application's buffers (rknn_inputs_set)."""

    def __init__(self, binding: Binding, context: int, inputs: Sequence[FedInput]) -> None:
        self._binding = binding
        self._context = context
        self._attributes = [fed.attribute for fed in inputs]
        self._buffers = [fed.filled() for fed in inputs]
        self._inputs = (RknnInput * len(inputs))()
        for index, (attribute, buffer) in enumerate(zip(self._attributes, self._buffers)):
            self._inputs[index] = RknnInput(
                index=index,
                buf=ctypes.addressof(buffer),
                size=len(buffer),
                pass_through=0,
                type=attribute.type,
                fmt=attribute.fmt,
            )

    def move(self) -> None:
        """Pass the buffers to the library."""
        self._binding.inputs_set(self._context, self._inputs)

    def image_input(self) -> ImageInput:
        """Return the application's buffer."""
        number = _first_image(self._attributes)
        return _image(memoryview(self._buffers[number]), self._attributes[number])


class CopiedOutputs(RknnTensors):
    """Outputs that the library copies into the application's buffers (rknn_outputs_get).

    They are in the model's own type.
    """

    def __init__(self, binding: Binding, context: int, attributes: Sequence[TensorAttr]) -> None:
        self._binding = binding
        self._context = context
        self._buffers = [ctypes.create_string_buffer(attribute.size) for attribute in attributes]
        self._outputs = (RknnOutput * len(attributes))()
        for index, buffer in enumerate(self._buffers):
            self._outputs[index] = RknnOutput(
                want_float=0,
                is_prealloc=1,
                index=index,
                buf=ctypes.addressof(buffer),
                size=len(buffer),
            )

    def move(self) -> None:
        """Have the outputs copied."""
        self._binding.outputs_get(self._context, self._outputs)


class _Slot(NamedTuple):
    """A tensor in bound memory."""

    piece: Piece
    #: Size of the tensor without row and trailing padding.
    size: int
    #: Bytes of one row; without padding all of the tensor is one row.
    row: int
    #: Bytes from one row to the next.
    pitch: int

    def put(self, buffer: ctypes.Array[ctypes.c_char]) -> None:
        """Copy the tensor in from a buffer without padding."""
        source = ctypes.addressof(buffer)
        target = self.piece.address
        for number in range(self.size // self.row):
            ctypes.memmove(target + number * self.pitch, source + number * self.row, self.row)


class _Bound(RknnTensors):
    """Tensors in the application's memory, which the NPU reads or writes (rknn_set_io_mem).

    The application may also keep buffers of its own and copy. It must on the mini runtime, which
    has no call that copies.
    """

    #: Kind of the pieces in the account.
    kind: str

    def __init__(self, binding: Binding, context: int, memory: BoundMemory) -> None:
        self._binding = binding
        self._context = context
        self._memory = memory
        self._slots: List[_Slot] = []
        self._allocations: List[Allocation] = []
        self._buffers = []

    def _bind(self, attribute: TensorAttr, size_bytes: int) -> _Slot:
        """Return new memory for a tensor of `size_bytes`, which is the NPU's from now on."""
        whole = max(attribute.size_with_stride, attribute.size)
        piece, is_new = self._memory.take(self._binding, self._context, len(self._slots), whole)
        if is_new:
            self._allocations.append(piece.allocation(self.kind))
        # Padding that the NPU needs is no part of the tensor: outputs are the same, copied or not.
        slot = _slot(piece, attribute, size_bytes)
        self._slots.append(slot)
        self._binding.set_io_mem(self._context, piece.memory, attribute)
        return slot

    def views(self) -> List[memoryview]:
        """Return the application's buffers if there are any; otherwise the bound memory."""
        if self._buffers:
            return super().views()
        return [_view_at(slot.piece.address, slot.size) for slot in self._slots]

    def allocations(self) -> List[Allocation]:
        """Return the bound memory, unless another context had it before."""
        return self._allocations

    def release(self) -> None:
        """Release the bound memory."""
        while self._slots:
            self._slots.pop().piece.release()


class BoundInputs(_Bound, RknnInputTensors):
    """Inputs that the NPU reads in place."""

    kind = "input"

    def __init__(
        self,
        binding: Binding,
        context: int,
        inputs: Sequence[FedInput],
        memory: BoundMemory,
        *,
        staged: bool,
    ) -> None:
        super().__init__(binding, context, memory)
        self._attributes = [fed.attribute for fed in inputs]
        #: Whether the application writes into the bound memory between inferences.
        self._is_written = False
        for fed in inputs:
            slot = self._bind(fed.attribute, fed.size_bytes)
            if staged:
                self._buffers.append(fed.filled())
            else:
                slot.put(fed.filled())
        self._to_device()

    def move(self) -> None:
        """Copy the application's buffers in; without any, the input is there already.

        Data that the CPU wrote must leave its caches. An input that does not change needs no such
        call.
        """
        for buffer, slot in zip(self._buffers, self._slots):
            slot.put(buffer)
        if self._buffers or self._is_written:
            self._to_device()

    def image_input(self) -> ImageInput:
        """Return the application's buffer, or the bound memory with the NPU's pitch."""
        number = _first_image(self._attributes)
        attribute = self._attributes[number]
        if self._buffers:
            return _image(memoryview(self._buffers[number]), attribute)
        self._is_written = True
        slot = self._slots[number]
        rows_bytes = (slot.size // slot.row - 1) * slot.pitch + slot.row
        memory = _view_at(slot.piece.address, rows_bytes)
        is_padded = slot.row != slot.size
        return _image(memory, attribute, slot.pitch if is_padded else None)

    def _to_device(self) -> None:
        for slot in self._slots:
            self._binding.mem_sync(self._context, slot.piece.memory, SYNC_TO_DEVICE)


class NativeOutputs(_Bound):
    """Outputs in the NPU's own order of channels, which the application must read."""

    kind = "output"

    def __init__(
        self,
        binding: Binding,
        context: int,
        attributes: Sequence[TensorAttr],
        plain: Sequence[TensorAttr],
        memory: BoundMemory,
    ) -> None:
        """`attributes` are in the NPU's order, `plain` in the model's."""
        super().__init__(binding, context, memory)
        self._attributes = attributes
        self._plain = plain
        for attribute in attributes:
            self._bind(attribute, attribute.size)

    def move(self) -> None:
        """Make the output visible to the CPU."""
        for slot in self._slots:
            self._binding.mem_sync(self._context, slot.piece.memory, SYNC_FROM_DEVICE)

    def in_order(self) -> Iterator[memoryview]:
        """Yield the pictures of an output as the model has them."""
        for view, attribute, plain in zip(self.views(), self._attributes, self._plain):
            if attribute.fmt == FORMAT_NC1HWC2:
                yield from _pictures(view, attribute, plain)
            else:
                yield view.cast("B")[: plain.size]


class BoundOutputs(_Bound):
    """Outputs that the application reads in the NPU's memory."""

    kind = "output"

    def __init__(
        self,
        binding: Binding,
        context: int,
        attributes: Sequence[TensorAttr],
        memory: BoundMemory,
        *,
        staged: bool,
    ) -> None:
        super().__init__(binding, context, memory)
        for attribute in attributes:
            slot = self._bind(attribute, attribute.size)
            if staged:
                self._buffers.append(ctypes.create_string_buffer(slot.size))

    def move(self) -> None:
        """Make the output visible to the CPU, and copy it into the application's buffers."""
        for slot in self._slots:
            self._binding.mem_sync(self._context, slot.piece.memory, SYNC_FROM_DEVICE)
        for buffer, slot in zip(self._buffers, self._slots):
            ctypes.memmove(buffer, slot.piece.address, slot.size)


def _view_at(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address))


def _pictures(view: memoryview, attribute: TensorAttr, plain: TensorAttr) -> Iterator[memoryview]:
    """Yield the pictures of a tensor in the model's order: the NPU pads groups of channels."""
    count, groups, height, width, in_group = attribute.dims[:_GROUPED_DIMENSIONS]
    pixels = height * width
    code = _CODES[plain.size // plain.n_elems]
    elements = view.cast("B").cast(code)
    channels = plain.n_elems // (count * pixels)
    for picture in range(count):
        whole = memoryview(bytearray(pixels * channels * elements.itemsize)).cast(code)
        for channel in range(channels):
            group, number = divmod(channel, in_group)
            start = (picture * groups + group) * pixels * in_group + number
            plane = elements[start : start + pixels * in_group : in_group]
            if plain.fmt == FORMAT_NHWC:
                whole[channel::channels] = plane
            else:
                whole[channel * pixels : (channel + 1) * pixels] = plane
        yield whole.cast("B")


def _slot(piece: Piece, attribute: TensorAttr, size_bytes: int) -> _Slot:
    """Return the tensor's layout in the piece: the NPU may pad rows of pixels."""
    width = attribute.dims[2]
    has_rows = attribute.n_dims == _IMAGE_DIMENSIONS and attribute.fmt == FORMAT_NHWC
    if not has_rows or attribute.w_stride <= width:
        return _Slot(piece, size_bytes, size_bytes, size_bytes)
    row = size_bytes // (attribute.dims[0] * attribute.dims[1])
    return _Slot(piece, size_bytes, row, row // width * attribute.w_stride)


def _first_image(attributes: Sequence[TensorAttr]) -> int:
    """Return the number of the first input that is a picture."""
    shapes = []
    for number, attribute in enumerate(attributes):
        is_pixels = attribute.type == TYPE_UINT8 and attribute.n_dims == _IMAGE_DIMENSIONS
        if is_pixels and attribute.dims[3] in _CHANNELS:
            return number
        shapes.append("x".join(map(str, attribute.dims[: attribute.n_dims])))
    raise NotSupported("rknn_no_picture_input", shapes=", ".join(shapes))


def _image(memory: memoryview, attribute: TensorAttr, pitch: Optional[int] = None) -> ImageInput:
    """Return the first picture in the memory; without a pitch its rows have no padding."""
    _, height, width, channels = attribute.dims[:_IMAGE_DIMENSIONS]
    return ImageInput(
        memory=memory.cast("B"),
        width=width,
        height=height,
        channels=channels,
        layout="nhwc",
        type="uint8",
        pitch_bytes=pitch or width * channels,
    )
