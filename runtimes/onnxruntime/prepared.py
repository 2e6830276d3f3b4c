"""What is made of a model beforehand, so that its weights can be shared between sessions or given by the application.

The optimised model is saved with its weights beside it. Loaded with optimisation off it is the same graph with equal
results, and the weights are one mapped file. Weights of models in one folder that are equal, those of a network at
several resolutions, become one file with several names.
"""

from __future__ import annotations

import filecmp
import json
import os
from typing import Any, Callable, List, NamedTuple, Tuple

import numpy as np
import onnxruntime as ort

from runtimes.base import NotSupported

__all__ = ["GivenWeights", "prepare", "same_weights"]

_MODEL_FILE = "model.onnx"
_WEIGHTS_FILE = "weights.bin"
#: The tensors in the weights' file with their offsets; missing where the `onnx` package was.
_INDEX_FILE = "weights.json"
#: Smaller tensors stay inside model.onnx, where sharing them would not repay a page.
_EXTERNAL_FROM_BYTES = 1024


class _Tensor(NamedTuple):
    """One tensor of the weights' file."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    offset: int
    length: int


class GivenWeights:
    """The weights of a prepared model in memory of the application, which must live as long as the session."""

    def __init__(self, prepared: str) -> None:
        folder = os.path.dirname(prepared)
        tensors = _read_index(folder)
        if not tensors:
            raise NotSupported("onnx_no_large_weight", size=_EXTERNAL_FROM_BYTES)
        self._memory = np.fromfile(os.path.join(folder, _WEIGHTS_FILE), np.uint8)
        self._values = {}
        for tensor in tensors:
            piece = self._memory[tensor.offset : tensor.offset + tensor.length]
            array = piece.view(tensor.dtype).reshape(tensor.shape)
            self._values[tensor.name] = ort.OrtValue.ortvalue_from_numpy(array)

    @property
    def size_bytes(self) -> int:
        """Size of the memory."""
        return int(self._memory.nbytes)

    def give_to(self, options: Any) -> None:
        """Let a session of these options use this memory instead of the file."""
        for name, value in self._values.items():
            options.add_initializer(name, value)


def prepare(model: str, folder: str, optimise: Callable[[str, Any], None], options: Any) -> str:
    """Save the optimised model into the folder, good for this version of ONNX Runtime and this CPU; return its path.

    `optimise(model, options)` opens a session.
    """
    os.makedirs(folder)
    path = os.path.join(folder, _MODEL_FILE)
    options.optimized_model_filepath = path
    prefix = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{prefix}_file_name", _WEIGHTS_FILE)
    options.add_session_config_entry(f"{prefix}_min_size_in_bytes", str(_EXTERNAL_FROM_BYTES))
    optimise(model, options)
    _write_index(path, folder)
    _share_file(folder)
    _flush_to_disk(folder)
    return path


def same_weights(*models: str) -> bool:
    """Whether two prepared models map one file."""
    files = [os.path.join(os.path.dirname(model), _WEIGHTS_FILE) for model in models]
    return all(map(os.path.exists, files)) and os.path.samefile(*files)


def _write_index(model: str, folder: str) -> None:
    """List the tensors of the weights' file, where the `onnx` package is installed."""
    try:
        import onnx
    except ImportError:
        return
    index = []
    for tensor in onnx.load(model, load_external_data=False).graph.initializer:
        if tensor.external_data:
            location = {entry.key: entry.value for entry in tensor.external_data}
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).name
            offset, length = int(location["offset"]), int(location["length"])
            index.append(_Tensor(tensor.name, dtype, tuple(tensor.dims), offset, length))
    with open(os.path.join(folder, _INDEX_FILE), "w", encoding="utf-8") as file:
        json.dump(index, file)


def _read_index(folder: str) -> List[_Tensor]:
    path = os.path.join(folder, _INDEX_FILE)
    if not os.path.exists(path):
        raise NotSupported("onnx_package_missing")
    with open(path, encoding="utf-8") as file:
        return [_Tensor(*entry) for entry in json.load(file)]


def _share_file(folder: str) -> None:
    """Make the weights another name of an equal file that was prepared before, beside this folder."""
    own = os.path.join(folder, _WEIGHTS_FILE)
    parent = os.path.dirname(folder)
    for name in sorted(os.listdir(parent)):
        other = os.path.join(parent, name, _WEIGHTS_FILE)
        if other != own and os.path.exists(other) and os.path.exists(own) and filecmp.cmp(own, other, shallow=False):
            os.unlink(own)
            os.link(other, own)
            return


def _flush_to_disk(folder: str) -> None:
    """Have the files on disk before anything is measured: writing them back later would show in system memory."""
    for name in os.listdir(folder):
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
