"""Inputs and outputs as numpy arrays, for the runtimes whose Python API takes them.

Imports numpy, which these runtimes import themselves.
"""

from __future__ import annotations

import functools
from typing import Any, Iterable, Sequence

import numpy as np

from runtimes.base import ImageInput, NotSupported, input_pattern

__all__ = ["as_buffer", "image_in", "noise"]

_CHANNELS = (1, 3)


def noise(shape: Sequence[int], dtype: Any) -> Any:
    """Return the fixed noise pattern as an array of that shape and type: floats in 0..1, indices 0 or 1."""
    values = np.empty(shape, dtype)
    # Filled piece by piece: a temporary array of the input's size would count in the process's memory.
    flat, pattern = values.reshape(-1), _pattern_as(dtype)
    for start in range(0, flat.size, pattern.size):
        piece = flat[start : start + pattern.size]
        piece[:] = pattern[: piece.size]
    return values


def as_buffer(output: Any) -> memoryview:
    """Return the bytes of an output without a copy; of one that is no array of numbers, those of its repr."""
    if isinstance(output, np.ndarray) and output.dtype != object:
        return np.ascontiguousarray(output).data
    return memoryview(repr(output).encode())


def image_in(inputs: Iterable[Any]) -> ImageInput:
    """Return the first of these arrays that is a picture, or its first picture; raise NotSupported if none is."""
    shapes = []
    for array in inputs:
        if array.ndim == 4 and (array.shape[1] in _CHANNELS or array.shape[3] in _CHANNELS):
            break
        shapes.append("x".join(map(str, array.shape)))
    else:
        raise NotSupported("no_picture_input", shapes=", ".join(shapes))
    picture = array[0]
    if array.shape[1] in _CHANNELS:
        layout, (channels, height, width) = "nchw", picture.shape
        pitch = width * picture.itemsize
    else:
        layout, (height, width, channels) = "nhwc", picture.shape
        pitch = width * channels * picture.itemsize
    return ImageInput(picture.data.cast("B"), width, height, channels, layout, picture.dtype.name, pitch)


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _pattern_as(dtype: Any) -> Any:
    values = np.frombuffer(input_pattern(), dtype=np.uint8)
    if np.issubdtype(dtype, np.floating):
        return (values / np.float32(255)).astype(dtype)
    if dtype in (np.uint8, np.int8):
        return values.view(dtype)
    return (values & 1).astype(dtype)
