"""Rockchip's RKNN runtime through its C API.

abi.py is the header as ctypes, binding.py the checked calls, memory.py and tensors.py what an application allocates
and how tensors move, adapter.py the contexts that scenarios ask for. library.py finds and describes the library's
file without loading it. Importing this package loads nothing of Rockchip's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtimes.base import Runtime

__all__ = ["open_runtime"]


def open_runtime() -> Runtime:
    """Load the library and return the adapter: for the measured process only."""
    from runtimes.rknn.adapter import open_runtime as load

    return load()
