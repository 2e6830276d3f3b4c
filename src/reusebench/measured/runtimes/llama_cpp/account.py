"""The memory that llama.cpp allocated for a context, by its own account.

The library returns it as a std::map of buffer types, for which it has no function of C: the map is
read as GNU's C++ library lays it out.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterator

from reusebench.measured.runtimes.llama_cpp.library import Library

__all__ = ["allocated"]

#: llama_get_memory_breakdown(const llama_context *), and operator delete(void *).
_BREAKDOWN = "_Z26llama_get_memory_breakdownPK13llama_context"
_DELETE = "_ZdlPv"
#: std::_Rb_tree_increment, which other C++ libraries than GNU's do not have.
_OF_GNU = "_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base"
#: Buffer type of tensors that are read as they are in the file.
_READ = b"CPU"


class _Map(ctypes.Structure):
    """A std::map; larger than two words, so that it is returned in memory as C++ does it."""

    _fields_ = [
        ("compare", ctypes.c_size_t),
        ("color", ctypes.c_size_t),
        ("root", ctypes.c_void_p),
        ("leftmost", ctypes.c_void_p),
        ("rightmost", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
    ]


class _Node(ctypes.Structure):
    """One entry of it: the key is a buffer type, the value llama_memory_breakdown_data."""

    _fields_ = [
        ("color", ctypes.c_size_t),
        ("parent", ctypes.c_void_p),
        ("left", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("buffer_type", ctypes.c_void_p),
        ("weights", ctypes.c_size_t),
        ("cache", ctypes.c_size_t),
        ("scratch", ctypes.c_size_t),
    ]


def allocated(library: Library, context: Any, mapped_bytes: int = 0) -> Dict[str, int]:
    """Return the bytes of weights, cache and scratch memory of a llama_context.

    `mapped_bytes` are those of the file's tensors if weights that are only added up would be
    mapped: tensors that are laid out anew are mapped, too. Empty if the library was built with
    another C++ library.
    """
    if not all(hasattr(library.handle, name) for name in (_BREAKDOWN, _DELETE, _OF_GNU)):
        return {}
    breakdown = getattr(library.handle, _BREAKDOWN)
    delete = getattr(library.handle, _DELETE)
    breakdown.argtypes = [ctypes.c_void_p]
    breakdown.restype = _Map
    delete.argtypes = [ctypes.c_void_p]
    name = library.handle.ggml_backend_buft_name
    name.argtypes = [ctypes.c_void_p]
    name.restype = ctypes.c_char_p
    sums = {"weights_bytes": mapped_bytes, "kv_cache_bytes": 0, "scratch_bytes": 0}
    for address in list(_nodes(breakdown(context).root)):
        node = _Node.from_address(address)
        if not mapped_bytes or name(node.buffer_type) != _READ:
            sums["weights_bytes"] += node.weights
        sums["kv_cache_bytes"] += node.cache
        sums["scratch_bytes"] += node.scratch
        delete(address)
    return sums


def _nodes(address: Any) -> Iterator[int]:
    """Yield the addresses of a node and of all below it."""
    if address:
        node = _Node.from_address(address)
        yield from _nodes(node.left)
        yield from _nodes(node.right)
        yield address
