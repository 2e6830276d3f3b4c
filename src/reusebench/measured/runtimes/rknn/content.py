"""What the application's input buffers hold: noise, one value, or the data of a file, in the type
that is taken.
"""

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
    """How numbers become the elements of a type."""

    #: Of struct.
    code: str
    lowest: float
    highest: float

    def packed(self, numbers: Iterable[float]) -> bytes:
        """Return the elements; a number beyond the type becomes the last one that it has."""
        elements = [max(self.lowest, min(self.highest, number)) for number in numbers]
        if self.code not in "fe":
            elements = [round(element) for element in elements]
        return struct.pack(f"<{len(elements)}{self.code}", *elements)


#: By the name of the type; what is not here, plain Python cannot write.
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
#: Elements that are converted at a time: all of a large input as Python's numbers would be weighed.
_CHUNK = 4096
#: Of a .npy file of version 1.0 (numpy.lib.format): magic and version, then the length of the
#: header, little-endian.
_MAGIC_BYTES = 8
_LENGTH = struct.Struct("<H")


class FedInput(NamedTuple):
    """One input as the application feeds it."""

    #: As the library is told: with the type and the format of the application's elements.
    attribute: TensorAttr
    size_bytes: int
    elements: _Elements
    #: What becomes of a number before it is an element: (number / scale + zero).
    scale: float
    zero: int
    #: Noise, from one of 256 random values.
    noise: Callable[[int], float]
    #: None: noise.
    data: Optional[InputData]

    def filled(self) -> ctypes.Array[ctypes.c_char]:
        """Return a new buffer with what the input is fed with."""
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
        """Return one element for each byte of the pattern, or for as many as the input has."""
        table = [self._packed([self.noise(byte)]) for byte in _BYTE_VALUES]
        if len(table[0]) == 1:
            return pattern.translate(b"".join(table))
        return b"".join(table[byte] for byte in pattern[: self.size_bytes // len(table[0])])

    def _read(self, data: InputData, target: memoryview) -> None:
        """Read a .npy file: as it is, or as numbers where it has real ones and the elements are of
        another type.
        """
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
    """Return the input as the library takes it over: pixels; real numbers as float32, which it
    converts; indices.
    """
    if is_picture(attribute) and not _has_real_numbers(data):
        attribute.type = TYPE_UINT8
        noise = _pixel
    elif is_real(attribute):
        attribute.type = TYPE_FLOAT32
        noise = _fraction
    else:
        noise = _index
    elements = _elements(attribute)
    return FedInput(
        attribute, attribute.n_elems * struct.calcsize(elements.code), elements, 1.0, 0, noise, data
    )


def bound_input(attribute: TensorAttr, data: Optional[InputData]) -> FedInput:
    """Return the input as the NPU reads it where it is: pixels, else elements of the model's own
    type.

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
    scale, zero = (attribute.scale, attribute.zp) if is_quantised(attribute) else (1.0, 0)
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
