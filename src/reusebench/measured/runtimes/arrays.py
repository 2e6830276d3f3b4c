"""Inputs and outputs as numpy arrays, for the runtimes whose Python API takes them.

Imports numpy, which these runtimes import themselves.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Generic, Iterable, List, Optional, Protocol, Sequence, TypeVar

import numpy as np

from reusebench.measured.runtimes.base import (
    BFLOAT16,
    TEXT,
    Allocation,
    Copies,
    ImageInput,
    InputData,
    NotSupported,
    RuntimeContext,
    input_pattern,
)

__all__ = [
    "Arrays",
    "ContextOfTensors",
    "MovedTensors",
    "SharedArrays",
    "as_buffer",
    "filled",
    "image_in",
    "noise",
    "numpy_type",
]

_CHANNELS = (1, 3)
#: bfloat16 is float32 without the lower half of its bits.
_BFLOAT16_SHIFT = 16


#: Arrays of the application, by the name of the tensor: of one context, or of all that share them.
Arrays = Dict[str, Any]


class MovedTensors(Protocol):
    """The object that moves the inputs and outputs of one context."""

    def views(self) -> Sequence[memoryview]:
        """Return the outputs of the last run."""

    def image_input(self) -> ImageInput:
        """Return the application's memory of the first input that is a picture."""

    def copies(self) -> Copies:
        """Return the bytes that the last run copied."""

    def allocations(self) -> List[Allocation]:
        """Return the application's memory that the runtime uses in place."""


_Moved = TypeVar("_Moved", bound=MovedTensors)


class ContextOfTensors(RuntimeContext, Generic[_Moved]):
    """A context whose inputs and outputs are moved by one object."""

    #: None once the context is destroyed.
    _tensors: Optional[_Moved] = None

    def outputs(self) -> Sequence[memoryview]:
        """Return the outputs of the last run."""
        return self._tensors.views() if self._tensors else []

    def image_input(self) -> ImageInput:
        """Return the application's memory, which every inference copies or reads in place."""
        assert self._tensors is not None
        return self._tensors.image_input()

    def copies(self) -> Copies:
        """Return the bytes that the last run copied."""
        return self._tensors.copies() if self._tensors else Copies(0, 0)

    def allocations(self) -> List[Allocation]:
        """Return the application's tensors that the runtime uses in place."""
        return self._tensors.allocations() if self._tensors else []


class SharedArrays:
    """The arrays of contexts that share them, by their number (runtimes.base.Memory.io)."""

    def __init__(self) -> None:
        self._arrays: Dict[int, Arrays] = {}

    def of(self, number: Optional[int]) -> Arrays:
        """Return the arrays of a number, which its first context fills; otherwise new ones."""
        return {} if number is None else self._arrays.setdefault(number, {})


def filled(tensor: InputData) -> Any:
    """Return an input as an array: bfloat16 as its bits (uint16), text as objects."""
    dtype = numpy_type(tensor.type)
    if tensor.file is not None:
        values = np.load(tensor.file, allow_pickle=False)
        return values.astype(dtype, copy=False).reshape(tensor.shape)
    if tensor.value is None:
        return noise(tensor.shape, tensor.type)
    value: Any = tensor.value
    if tensor.type == TEXT:
        value = str(value)
    elif tensor.type == BFLOAT16:
        value = _bfloat16_bits(np.float32(value))
    return np.full(tensor.shape, value, dtype)


def noise(shape: Sequence[int], kind: str) -> Any:
    """Return noise as an array: floats in 0..1, integers of more than 8 bits and digits 0 or 1.

    `kind` is a type of elements as in runtimes.base.DeclaredTensor.
    """
    values = np.empty(shape, numpy_type(kind))
    # Filled piece by piece: a temporary array of the input's size would add to the process's
    # memory.
    flat = values.reshape(-1)
    pattern = _pattern_as(kind)
    for start in range(0, flat.size, pattern.size):
        piece = flat[start : start + pattern.size]
        piece[:] = pattern[: piece.size]
    return values


def numpy_type(kind: str) -> Any:
    """Return numpy's type for a type of elements as in runtimes.base.DeclaredTensor."""
    return np.dtype({BFLOAT16: "uint16", TEXT: "object"}.get(kind, kind))


def as_buffer(output: Any) -> memoryview:
    """Return the bytes of an output without a copy, or of its repr if it is no array of numbers."""
    if isinstance(output, np.ndarray) and output.dtype != object:
        return np.ascontiguousarray(output).data
    return memoryview(repr(output).encode())


def image_in(inputs: Iterable[Any]) -> ImageInput:
    """Return the first picture among these arrays; raise NotSupported if there is none."""
    shapes = []
    for array in inputs:
        if array.ndim == 4 and (array.shape[1] in _CHANNELS or array.shape[3] in _CHANNELS):
            break
        shapes.append("x".join(map(str, array.shape)))
    else:
        raise NotSupported("no_picture_input", shapes=", ".join(shapes))
    picture = array[0]
    if array.shape[1] in _CHANNELS:
        layout = "nchw"
        channels, height, width = picture.shape
        pitch_bytes = width * picture.itemsize
    else:
        layout = "nhwc"
        height, width, channels = picture.shape
        pitch_bytes = width * channels * picture.itemsize
    memory = picture.data.cast("B")
    return ImageInput(memory, width, height, channels, layout, picture.dtype.name, pitch_bytes)


def _bfloat16_bits(values: Any) -> Any:
    return (values.view(np.uint32) >> _BFLOAT16_SHIFT).astype(np.uint16)


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _pattern_as(kind: str) -> Any:
    values = np.frombuffer(input_pattern(), dtype=np.uint8)
    dtype = numpy_type(kind)
    if kind == BFLOAT16:
        return _bfloat16_bits(values / np.float32(255))
    if kind == TEXT:
        return (values & 1).astype(str).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        return (values / np.float32(255)).astype(dtype)
    if dtype in (np.uint8, np.int8):
        return values.view(dtype)
    return (values & 1).astype(dtype)
