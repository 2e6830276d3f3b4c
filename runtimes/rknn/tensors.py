"""How a context's input gets in and its output out: copied by the library, copied by us, or used where it is."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from typing import List, NamedTuple, Optional, Sequence

from runtimes.base import Allocation, DeclaredTensor, ImageInput, Interface, NotSupported, input_pattern
from runtimes.rknn.abi import (
    FORMAT_NHWC,
    QUERY_INPUT_ATTR,
    QUERY_NATIVE_INPUT_ATTR,
    QUERY_NATIVE_OUTPUT_ATTR,
    QUERY_OUTPUT_ATTR,
    SYNC_FROM_DEVICE,
    SYNC_TO_DEVICE,
    TYPE_UINT8,
    Input,
    Output,
    TensorAttr,
)
from runtimes.rknn.binding import Binding
from runtimes.rknn.memory import Piece, allocate

__all__ = ["BoundInputs", "BoundOutputs", "CopiedInputs", "CopiedOutputs", "InputTensors", "Tensors", "interface_of"]

_IMAGE_DIMENSIONS = 4
#: rknn_tensor_type, in its order.
_TYPES = ("float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")
_CHANNELS = (1, 3)


def interface_of(binding: Binding, context: int) -> Interface:
    """Return the inputs as the application feeds them, pictures as 8-bit pixels, and the outputs."""
    numbers = binding.numbers(context)
    inputs = [_as_image(binding.attribute(context, QUERY_INPUT_ATTR, index)) for index in range(numbers.n_input)]
    outputs = [binding.attribute(context, QUERY_OUTPUT_ATTR, index) for index in range(numbers.n_output)]
    return Interface(tuple(map(_declared, inputs)), tuple(map(_declared, outputs)), {})


class Tensors(ABC):
    """All inputs, or all outputs, of one context."""

    #: The application's own side of each tensor; empty where it uses the bound memory itself.
    _buffers: List[ctypes.Array[ctypes.c_char]]

    @abstractmethod
    def move(self) -> None:
        """Take the input in before a run, or the output out after it."""

    def views(self) -> List[memoryview]:
        """Return the application's side of each tensor, without a copy."""
        return [memoryview(buffer) for buffer in self._buffers]

    def copied_bytes(self) -> int:
        """Return how many bytes one inference copies: those of the application's own buffers."""
        return sum(map(len, self._buffers))

    def allocations(self) -> List[Allocation]:
        """Return the memory that was allocated for the NPU to reach."""
        return []

    def release(self) -> None:
        """Give that memory back."""
        return


class InputTensors(Tensors):
    """All inputs of one context."""

    @abstractmethod
    def image_input(self) -> ImageInput:
        """Return the application's memory of the first input that is a picture."""


class CopiedInputs(InputTensors):
    """The library copies from the application's buffers (rknn_inputs_set)."""

    def __init__(self, binding: Binding, context: int, count: int) -> None:
        self._binding, self._context = binding, context
        self._attributes = [_as_image(binding.attribute(context, QUERY_INPUT_ATTR, index)) for index in range(count)]
        self._buffers = [_filled(_image_bytes(attribute)) for attribute in self._attributes]
        self._inputs = (Input * count)()
        for index, (attribute, buffer) in enumerate(zip(self._attributes, self._buffers)):
            address = ctypes.addressof(buffer)
            self._inputs[index] = Input(index, address, len(buffer), 0, attribute.type, attribute.fmt)

    def move(self) -> None:
        """Pass the buffers to the library."""
        self._binding.inputs_set(self._context, self._inputs)

    def image_input(self) -> ImageInput:
        """Return the application's buffer."""
        number = _first_image(self._attributes)
        return _image(memoryview(self._buffers[number]), self._attributes[number])


class CopiedOutputs(Tensors):
    """The library copies into the application's buffers (rknn_outputs_get), in the model's own type."""

    def __init__(self, binding: Binding, context: int, count: int) -> None:
        self._binding, self._context = binding, context
        sizes = [binding.attribute(context, QUERY_OUTPUT_ATTR, index).size for index in range(count)]
        self._buffers = [ctypes.create_string_buffer(size) for size in sizes]
        self._outputs = (Output * count)()
        for index, buffer in enumerate(self._buffers):
            address = ctypes.addressof(buffer)
            self._outputs[index] = Output(want_float=0, is_prealloc=1, index=index, buf=address, size=len(buffer))

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
            ctypes.memmove(self.piece.address + number * self.pitch, source + number * self.row, self.row)


class _Bound(Tensors):
    """The NPU reads or writes memory that the application holds (rknn_set_io_mem).

    `staged`: the application keeps a buffer of its own besides and copies, as it must on the mini runtime, which has
    no call that copies.
    """

    #: Of the pieces, in the account.
    kind: str

    def __init__(
        self, binding: Binding, context: int, attributes: Sequence[TensorAttr], allocator: str, staged: bool
    ) -> None:
        self._binding, self._context = binding, context
        self._attributes = attributes
        self._slots: List[_Slot] = []
        self._buffers = []
        for attribute in attributes:
            piece = allocate(allocator, binding, context, max(attribute.size_with_stride, attribute.size))
            # What the NPU needs behind the tensor is no part of it: outputs are the same, copied or not.
            slot = _slot(piece, attribute)
            self._slots.append(slot)
            binding.set_io_mem(context, piece.memory, attribute)
            if staged:
                self._buffers.append(_filled(slot.size))

    def views(self) -> List[memoryview]:
        """Return the application's buffers if there are any, else the bound memory."""
        if self._buffers:
            return super().views()
        return [memoryview((ctypes.c_char * slot.size).from_address(slot.piece.address)) for slot in self._slots]

    def allocations(self) -> List[Allocation]:
        """Return the bound memory."""
        return [slot.piece.allocation(self.kind) for slot in self._slots]

    def release(self) -> None:
        """Give the bound memory back."""
        while self._slots:
            self._slots.pop().piece.release()


class BoundInputs(_Bound, InputTensors):
    """Input that the NPU reads where it is."""

    kind = "input"

    def __init__(
        self, binding: Binding, context: int, count: int, allocator: str, *, native: bool, staged: bool
    ) -> None:
        command = QUERY_NATIVE_INPUT_ATTR if native else QUERY_INPUT_ATTR
        attributes = [_as_image(binding.attribute(context, command, index)) for index in range(count)]
        super().__init__(binding, context, attributes, allocator, staged)
        #: Whether the application writes into the bound memory between inferences.
        self._is_written = False
        if not staged:
            for slot in self._slots:
                slot.put(_filled(slot.size))
        self._to_device()

    def move(self) -> None:
        """Copy the application's buffer in where it has one; else the input is there already.

        What the CPU wrote meanwhile must leave its caches. An input that stays as it is needs no such call.
        """
        for buffer, slot in zip(self._buffers, self._slots):
            slot.put(buffer)
        if self._buffers or self._is_written:
            self._to_device()

    def image_input(self) -> ImageInput:
        """Return the application's buffer where it has one, else the bound memory with the pitch that the NPU needs."""
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


class BoundOutputs(_Bound):
    """Output that the NPU leaves where the application reads it."""

    kind = "output"

    def __init__(
        self, binding: Binding, context: int, count: int, allocator: str, *, native: bool, staged: bool
    ) -> None:
        command = QUERY_NATIVE_OUTPUT_ATTR if native else QUERY_OUTPUT_ATTR
        attributes = [binding.attribute(context, command, index) for index in range(count)]
        super().__init__(binding, context, attributes, allocator, staged)

    def move(self) -> None:
        """Make the output visible to the CPU, and copy it out where the application has a buffer."""
        for slot in self._slots:
            self._binding.mem_sync(self._context, slot.piece.memory, SYNC_FROM_DEVICE)
        for buffer, slot in zip(self._buffers, self._slots):
            ctypes.memmove(buffer, slot.piece.address, slot.size)


def _declared(attribute: TensorAttr) -> DeclaredTensor:
    name = attribute.name.decode(errors="replace")
    return DeclaredTensor(name, _TYPES[attribute.type], tuple(attribute.dims[: attribute.n_dims]))


def _slot(piece: Piece, attribute: TensorAttr) -> _Slot:
    """Return the tensor's layout in the piece: the NPU may need more room for a row of pixels than they have."""
    size = _image_bytes(attribute)
    if attribute.type != TYPE_UINT8 or attribute.w_stride <= attribute.dims[2]:
        return _Slot(piece, size, size, size)
    return _Slot(piece, size, attribute.dims[2] * attribute.dims[3], attribute.w_stride * attribute.dims[3])


def _as_image(attribute: TensorAttr) -> TensorAttr:
    """Make an image's attribute that of 8-bit pixels in rows, in which the library takes it; leave others' own type."""
    if attribute.n_dims == _IMAGE_DIMENSIONS:
        attribute.type, attribute.fmt = TYPE_UINT8, FORMAT_NHWC
    return attribute


def _image_bytes(attribute: TensorAttr) -> int:
    return int(attribute.n_elems if attribute.type == TYPE_UINT8 else attribute.size)


def _first_image(attributes: Sequence[TensorAttr]) -> int:
    """Return the number of the first input that is a picture."""
    shapes = []
    for number, attribute in enumerate(attributes):
        if attribute.n_dims == _IMAGE_DIMENSIONS and attribute.dims[3] in _CHANNELS:
            return number
        shapes.append("x".join(map(str, attribute.dims[: attribute.n_dims])))
    raise NotSupported("rknn_no_picture_input", shapes=", ".join(shapes))


def _image(memory: memoryview, attribute: TensorAttr, pitch: Optional[int] = None) -> ImageInput:
    """Return the first picture in the memory; without a pitch its rows stand close."""
    _, height, width, channels = attribute.dims[:_IMAGE_DIMENSIONS]
    return ImageInput(memory.cast("B"), width, height, channels, "nhwc", "uint8", pitch or width * channels)


def _filled(size: int) -> ctypes.Array[ctypes.c_char]:
    """Return a new buffer of so many bytes with the fixed noise in it."""
    buffer = ctypes.create_string_buffer(size)
    pattern, target = input_pattern(), memoryview(buffer).cast("B")
    for start in range(0, size, len(pattern)):
        piece = target[start : start + len(pattern)]
        piece[:] = pattern[: len(piece)]
    return buffer
