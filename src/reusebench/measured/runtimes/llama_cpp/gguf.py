"""What the header of a GGUF file says, read by llama.cpp's own library."""

from __future__ import annotations

import ctypes
from typing import Any

from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.llama_cpp.library import Library

__all__ = ["tensor_bytes"]

#: Tensors begin at multiples of this in a buffer (ggml-impl.h: TENSOR_ALIGNMENT).
_ALIGNMENT = 32


class _Params(ctypes.Structure):
    """gguf_init_params: no tensor is read or allocated."""

    _fields_ = [("no_alloc", ctypes.c_bool), ("context", ctypes.c_void_p)]


def tensor_bytes(library: Library, path: str) -> int:
    """Return the size of a buffer with all tensors of a file."""
    functions = library.handle
    functions.gguf_init_from_file.restype = ctypes.c_void_p
    functions.gguf_init_from_file.argtypes = [ctypes.c_char_p, _Params]
    functions.gguf_get_n_tensors.restype = ctypes.c_int64
    functions.gguf_get_n_tensors.argtypes = [ctypes.c_void_p]
    functions.gguf_get_tensor_size.restype = ctypes.c_size_t
    functions.gguf_get_tensor_size.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    functions.gguf_free.argtypes = [ctypes.c_void_p]

    header: Any = functions.gguf_init_from_file(path.encode(), _Params(True, None))
    if not header:
        raise AdapterError("llama_cpp_no_gguf", path=path)
    size = 0
    for index in range(functions.gguf_get_n_tensors(header)):
        tensor = functions.gguf_get_tensor_size(header, index)
        size += -(-tensor // _ALIGNMENT) * _ALIGNMENT
    functions.gguf_free(header)
    return size
