"""The content of the application's input buffers: noise, one value or a file's data."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Callable, Iterable, NamedTuple, Optional

from reusebench.measured.runtimes.base import InputData, NotSupported, input_pattern
from reusebench.measured.runtimes.rknn.abi import (
    FORMAT_NC1HWC2,
    TYPE_FLOAT32,
    TYPE_UINT8,
    TYPES,
    TensorAttr,
)
from reusebench.measured.runtimes.rknn.attributes import is_picture, is_quantised, is_real, name_of

__all__ = ["FedInput", "bound_input", "copied_input"]


class _Elements(NamedTuple):
    """The conversion of numbers to the elements of a type."""

    #: Format of struct.
    code: str
    lowest: float
    highest: float

    def packed(self, numbers: Iterable[float]) -> bytes:
        """Return the elements; a number beyond the type becomes the nearest one that it has."""
        elements = [max(self.lowest, min(self.highest, number)) for number in numbers]
        if self.code not in "fe":
            elements = [round(element) for element in elements]
        return struct.pack(f"<{len(elements)}{self.code}", *elements)


#: Conversions by the name of the type; plain Python cannot write the others.
_ELEMENTS = {
    "float32": _Elements("f", -math.inf, math.inf),
    "float16": _Elements("e", -65504, 65504),
    "int8": _Elements("b", -(1 << 7), (1 << 7) - 1),
    "uint8": _Elements("B", 0, (1 << 8) - 1),
    "int16": _Elements("h", -(1 << 15), (1 << 15) - 1),
    "uint16": _Elements("H", 0, (1 << 16) - 1),
    "int32": _Elements("i", -(1 << 31), (1 << 31) - 1),
    "uint32": _Elements("I", 0, (1 << 32) - 1),
    "int64": _Elements("q", -(1 << 63), (1 << 63) - 1),
    "bool": _Elements("?", 0, 1),
}
_BYTE_VALUES = range(256)
#: Elements that are converted at a time: a large input as Python's numbers would add to memory.
_CHUNK = 4096
#: Bytes before the length of the header in a .npy file of version 1.0 (numpy.lib.format): magic and
#: version. The length is little-endian.
_MAGIC_BYTES = 8
_LENGTH = struct.Struct("<H")


class FedInput(NamedTuple):
    """One input as the application feeds it."""

    #: Attributes for the library, with the type and the format of the application's elements.
    attribute: TensorAttr
    size_bytes: int
    elements: _Elements
    #: A number becomes an element as number / scale + zero.
    scale: float
    zero: int
    #: Noise, from one of 256 random values.
    noise: Callable[[int], float]
    #: Data of the user; None means noise.
    data: Optional[InputData]

    def filled(self) -> ctypes.Array[ctypes.c_char]:
        """Return a new buffer with the elements of the input."""
        buffer = ctypes.create_string_buffer(self.size_bytes)
        target = memoryview(buffer).cast("B")
        if self.data is not None and self.data.file is not None:
            self._read(self.data, target)
        elif self.data is not None and self.data.value is not None:
            _repeat(self._packed([self.data.value] * _CHUNK), target)
        else:
            _repeat(self._noise(input_pattern()), target)
        return buffer

    def _packed(self, numbers: Iterable[float]) -> bytes:
        if (self.scale, self.zero) != (1.0, 0):
            numbers = [number / self.scale + self.zero for number in numbers]
        return self.elements.packed(numbers)

    def _noise(self, pattern: bytes) -> bytes:
        """Return an element for each byte of the pattern, at most as many as the input has."""
        table = [self._packed([self.noise(byte)]) for byte in _BYTE_VALUES]
        element_bytes = len(table[0])
        if element_bytes == 1:
            return pattern.translate(b"".join(table))
        count = self.size_bytes // element_bytes
        return b"".join(table[byte] for byte in pattern[:count])

    def _read(self, data: InputData, target: memoryview) -> None:
        """Read a .npy file; real numbers are converted if the elements have another type."""
        assert data.file is not None
        with open(data.file, "rb") as file:
            file.seek(_MAGIC_BYTES)
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            file.seek(length, 1)
            if data.type != TYPES[TYPE_FLOAT32] or self.attribute.type == TYPE_FLOAT32:
                file.readinto(target)
                return
            start = 0
            for chunk in iter(lambda: file.read(_CHUNK * 4), b""):
                packed = self._packed(memoryview(chunk).cast("f"))
                target[start : start + len(packed)] = packed
                start += len(packed)


def copied_input(attribute: TensorAttr, data: Optional[InputData]) -> FedInput:
    """Return the input as the library copies it: pixels, float32, which it converts, or indices."""
    if is_picture(attribute) and not _has_real_numbers(data):
        attribute.type = TYPE_UINT8
        noise = _pixel
    elif is_real(attribute):
        attribute.type = TYPE_FLOAT32
        noise = _fraction
    else:
        noise = _index
    elements = _elements(attribute)
    size = attribute.n_elems * struct.calcsize(elements.code)
    return FedInput(attribute, size, elements, 1.0, 0, noise, data)


def bound_input(attribute: TensorAttr, data: Optional[InputData]) -> FedInput:
    """Return the input as the NPU reads it in place: pixels, or elements of the model's own type.

    Raises NotSupported for data that would have to be scaled, or to be put in the NPU's own order.
    """
    name = name_of(attribute)
    if is_picture(attribute):
        if _has_real_numbers(data):
            raise NotSupported("rknn_pixels_in_place", input=name)
        attribute.type = TYPE_UINT8
        return FedInput(attribute, attribute.n_elems, _elements(attribute), 1.0, 0, _pixel, data)
    if attribute.fmt == FORMAT_NC1HWC2 and data is not None and data.file is not None:
        raise NotSupported("rknn_order_of_npu", input=name)
    scale = 1.0
    zero = 0
    if is_quantised(attribute):
        scale = attribute.scale
        zero = attribute.zp
    noise = _fraction if is_real(attribute) else _index
    return FedInput(attribute, attribute.size, _elements(attribute), scale, zero, noise, data)


def _has_real_numbers(data: Optional[InputData]) -> bool:
    return data is not None and data.file is not None and data.type == TYPES[TYPE_FLOAT32]


def _elements(attribute: TensorAttr) -> _Elements:
    name = TYPES[attribute.type]
    if name not in _ELEMENTS:
        raise NotSupported("rknn_element_type", input=name_of(attribute), type=name)
    return _ELEMENTS[name]


def _pixel(byte: int) -> float:
    return byte


def _fraction(byte: int) -> float:
    return byte / 255


def _index(byte: int) -> float:
    """Return 0 or 1, which any table has."""
    return byte & 1


def _repeat(piece: bytes, target: memoryview) -> None:
    for start in range(0, len(target), len(piece)):
        part = target[start : start + len(piece)]
        part[:] = piece[: len(part)]
