"""A prepared model (preparing.py), as sessions use it."""

from __future__ import annotations

import json
import os
from typing import Any, List, NamedTuple, Tuple

import numpy as np
import onnxruntime as ort

from reusebench.measured.runtimes.base import NotSupported

__all__ = [
    "EXTERNAL_FROM_BYTES",
    "INDEX_FILE",
    "WEIGHTS_FILE",
    "GivenWeights",
    "IndexedTensor",
    "same_weights",
]

WEIGHTS_FILE = "weights.bin"
#: Offsets of the tensors in the weights' file; missing if the `onnx` package was.
INDEX_FILE = "weights.json"
#: Smaller tensors stay inside the model's file, because sharing them would not repay a page.
EXTERNAL_FROM_BYTES = 1024
_LINE_BYTES = 64


class IndexedTensor(NamedTuple):
    """One tensor of the weights' file."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    offset: int
    length: int


class GivenWeights:
    """The weights of a prepared model in the application's memory; it must outlive the session."""

    def __init__(self, prepared: str) -> None:
        folder = os.path.dirname(prepared)
        tensors = _read_index(folder)
        if not tensors:
            raise NotSupported("onnx_no_large_weight", size=EXTERNAL_FROM_BYTES)
        self._memory = np.empty(sum(_aligned(tensor.length) for tensor in tensors), np.uint8)
        self._values = {}
        start = 0
        with open(os.path.join(folder, WEIGHTS_FILE), "rb") as file:
            for tensor in tensors:  # the file has padding between them
                piece = self._memory[start : start + tensor.length]
                file.seek(tensor.offset)
                file.readinto(piece.data)
                array = piece.view(tensor.dtype).reshape(tensor.shape)
                self._values[tensor.name] = ort.OrtValue.ortvalue_from_numpy(array)
                start += _aligned(tensor.length)

    @property
    def size_bytes(self) -> int:
        """Size of that memory."""
        return int(self._memory.nbytes)

    def give_to(self, options: Any) -> None:
        """Let a session with these options use this memory instead of the file."""
        for name, value in self._values.items():
            options.add_initializer(name, value)


def same_weights(*models: str) -> bool:
    """Whether two prepared models map the same file."""
    files = [os.path.join(os.path.dirname(model), WEIGHTS_FILE) for model in models]
    return all(map(os.path.exists, files)) and os.path.samefile(*files)


def _aligned(length: int) -> int:
    """Return the length rounded up to whole cache lines."""
    return length + -length % _LINE_BYTES


def _read_index(folder: str) -> List[IndexedTensor]:
    path = os.path.join(folder, INDEX_FILE)
    if not os.path.exists(path):
        raise NotSupported("onnx_package_missing")
    with open(path, encoding="utf-8") as file:
        return [IndexedTensor(*entry) for entry in json.load(file)]
