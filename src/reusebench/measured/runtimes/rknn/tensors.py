"""How a context's input gets in and its output out: copied by the library, copied by us, or used
where it is.
"""

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
from reusebench.measured.runtimes.rknn.binding import Binding
from reusebench.measured.runtimes.rknn.content import FedInput
from reusebench.measured.runtimes.rknn.memory import Piece, TensorMemory

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
#: Pictures, groups of channels, height, width, channels in a group.
_GROUPED_DIMENSIONS = 5
#: Of memoryview, by the bytes of an element.
_CODES: Dict[int, Literal["B", "H", "I"]] = {1: "B", 2: "H", 4: "I"}
#: Of pictures that frames can be written into.
_CHANNELS = (1, 3)


class RknnTensors(ABC):
    """All inputs, or all outputs, of one context."""

    #: The application's own side of each tensor; empty if it uses the bound memory itself.
    _buffers: List[ctypes.Array[ctypes.c_char]]

    @abstractmethod
    def move(self) -> None:
        """Take the input in before a run, or the output out after it."""

    def views(self) -> List[memoryview]:
        """Return the application's side of each tensor, without a copy."""
        return [memoryview(buffer) for buffer in self._buffers]

    def in_order(self) -> Iterator[memoryview]:
        """Yield the tensors piece by piece, in the order of elements that copied ones have."""
        yield from self.views()

    def copied_bytes(self) -> int:
        """Return how many bytes one inference copies: those of the application's own buffers."""
        return sum(map(len, self._buffers))

    def allocations(self) -> List[Allocation]:
        """Return the memory that was allocated for the NPU to reach."""
        return []

    def release(self) -> None:
        """Give that memory back."""
        return


class RknnInputTensors(RknnTensors):
    """All inputs of one context."""

    @abstractmethod
    def image_input(self) -> ImageInput:
        """Return the application's memory of the first input that is a picture."""


class CopiedInputs(RknnInputTensors):
    """The library copies from the application's buffers (rknn_inputs_set)."""

    def __init__(self, binding: Binding, context: int, inputs: Sequence[FedInput]) -> None:
        self._binding = binding
        self._context = context
        self._attributes = [fed.attribute for fed in inputs]
        self._buffers = [fed.filled() for fed in inputs]
        self._inputs = (RknnInput * len(inputs))()
        for index, (attribute, buffer) in enumerate(zip(self._attributes, self._buffers)):
            address = ctypes.addressof(buffer)
            self._inputs[index] = RknnInput(
                index, address, len(buffer), 0, attribute.type, attribute.fmt
            )

    def move(self) -> None:
        """Pass the buffers to the library."""
        self._binding.inputs_set(self._context, self._inputs)

    def image_input(self) -> ImageInput:
        """Return the application's buffer."""
        number = _first_image(self._attributes)
        return _image(memoryview(self._buffers[number]), self._attributes[number])


class CopiedOutputs(RknnTensors):
    """The library copies into the application's buffers (rknn_outputs_get), in the model's own
    type.
    """

    def __init__(self, binding: Binding, context: int, attributes: Sequence[TensorAttr]) -> None:
        self._binding = binding
        self._context = context
        self._buffers = [ctypes.create_string_buffer(attribute.size) for attribute in attributes]
        self._outputs = (RknnOutput * len(attributes))()
        for index, buffer in enumerate(self._buffers):
            address = ctypes.addressof(buffer)
            self._outputs[index] = RknnOutput(
                want_float=0, is_prealloc=1, index=index, buf=address, size=len(buffer)
            )

    def move(self) -> None:
        """Have the outputs copied."""
        self._binding.outputs_get(self._context, self._outputs)


class _Slot(NamedTuple):
    """A tensor in bound memory."""

    piece: Piece
    #: Of the tensor, without what stands behind its rows and behind the last of them.
    size: int
    #: Bytes of one row, and from one row to the next; one row is all of it where rows stand close.
    row: int
    pitch: int

    def put(self, buffer: ctypes.Array[ctypes.c_char]) -> None:
        """Copy the tensor in from the buffer, where its rows stand close."""
        source = ctypes.addressof(buffer)
        for number in range(self.size // self.row):
            ctypes.memmove(
                self.piece.address + number * self.pitch, source + number * self.row, self.row
            )


class _Bound(RknnTensors):
    """The NPU reads or writes memory that the application holds (rknn_set_io_mem).

    The application may keep buffers of its own besides and copy, as it must on the mini runtime,
    which has no call that copies.
    """

    #: Of the pieces, in the account.
    kind: str

    def __init__(self, binding: Binding, context: int, memory: TensorMemory) -> None:
        self._binding = binding
        self._context = context
        self._memory = memory
        self._slots: List[_Slot] = []
        self._allocations: List[Allocation] = []
        self._buffers = []

    def _bind(self, attribute: TensorAttr, size_bytes: int) -> _Slot:
        """Return new memory for a tensor of so many bytes, from now on the NPU's."""
        whole = max(attribute.size_with_stride, attribute.size)
        piece, is_new = self._memory.take(self._binding, self._context, len(self._slots), whole)
        if is_new:
            self._allocations.append(piece.allocation(self.kind))
        # What the NPU needs behind the tensor is no part of it: outputs are the same, copied or
        # not.
        slot = _slot(piece, attribute, size_bytes)
        self._slots.append(slot)
        self._binding.set_io_mem(self._context, piece.memory, attribute)
        return slot

    def views(self) -> List[memoryview]:
        """Return the application's buffers if there are any, else the bound memory."""
        if self._buffers:
            return super().views()
        return [
            memoryview((ctypes.c_char * slot.size).from_address(slot.piece.address))
            for slot in self._slots
        ]

    def allocations(self) -> List[Allocation]:
        """Return the bound memory, where no other context had it before."""
        return self._allocations

    def release(self) -> None:
        """Give the bound memory back."""
        while self._slots:
            self._slots.pop().piece.release()


class BoundInputs(_Bound, RknnInputTensors):
    """Input that the NPU reads where it is."""

    kind = "input"

    def __init__(
        self,
        binding: Binding,
        context: int,
        inputs: Sequence[FedInput],
        memory: TensorMemory,
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
        """Copy the application's buffer in where it has one; else the input is there already.

        What the CPU wrote meanwhile must leave its caches. An input that stays as it is needs no
        such call.
        """
        for buffer, slot in zip(self._buffers, self._slots):
            slot.put(buffer)
        if self._buffers or self._is_written:
            self._to_device()

    def image_input(self) -> ImageInput:
        """Return the application's buffer where it has one, else the bound memory with the pitch
        that the NPU needs.
        """
        number = _first_image(self._attributes)
        attribute = self._attributes[number]
        if self._buffers:
            return _image(memoryview(self._buffers[number]), attribute)
        self._is_written = True
        slot = self._slots[number]
        rows_bytes = (slot.size // slot.row - 1) * slot.pitch + slot.row
        memory = memoryview((ctypes.c_char * rows_bytes).from_address(slot.piece.address))
        return _image(memory, attribute, slot.pitch if slot.row != slot.size else None)

    def _to_device(self) -> None:
        for slot in self._slots:
            self._binding.mem_sync(self._context, slot.piece.memory, SYNC_TO_DEVICE)


class NativeOutputs(_Bound):
    """Output where the NPU itself leaves it, in its own order of channels, which the application
    must read.
    """

    kind = "output"

    def __init__(
        self,
        binding: Binding,
        context: int,
        attributes: Sequence[TensorAttr],
        plain: Sequence[TensorAttr],
        memory: TensorMemory,
    ) -> None:
        """Take the attributes of the NPU's order, and those of the model's."""
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
    """Output that the NPU leaves where the application reads it."""

    kind = "output"

    def __init__(
        self,
        binding: Binding,
        context: int,
        attributes: Sequence[TensorAttr],
        memory: TensorMemory,
        *,
        staged: bool,
    ) -> None:
        super().__init__(binding, context, memory)
        for attribute in attributes:
            slot = self._bind(attribute, attribute.size)
            if staged:
                self._buffers.append(ctypes.create_string_buffer(slot.size))

    def move(self) -> None:
        """Make the output visible to the CPU, and copy it out where the application has a
        buffer.
        """
        for slot in self._slots:
            self._binding.mem_sync(self._context, slot.piece.memory, SYNC_FROM_DEVICE)
        for buffer, slot in zip(self._buffers, self._slots):
            ctypes.memmove(buffer, slot.piece.address, slot.size)


def _pictures(view: memoryview, attribute: TensorAttr, plain: TensorAttr) -> Iterator[memoryview]:
    """Yield the pictures of a tensor in the model's order: the NPU has channels in groups, filled
    up with zeros.
    """
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
    """Return the tensor's layout in the piece: the NPU may need more room for a row of pixels than
    they have.
    """
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
    """Return the first picture in the memory; without a pitch its rows stand close."""
    _, height, width, channels = attribute.dims[:_IMAGE_DIMENSIONS]
    return ImageInput(
        memory.cast("B"), width, height, channels, "nhwc", "uint8", pitch or width * channels
    )
