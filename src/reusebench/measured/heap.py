"""The C library's heap in use.

A leak shows here at once, in RSS only if no hole in the heap takes it. Runs in the measured
process: standard library only, Python 3.8. It imports ctypes, which numpy and Rockchip's adapter
import too.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

__all__ = ["Heap"]

#: Fields of struct mallinfo2 and mallinfo, in the order of glibc's malloc.h; two of them are used.
_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2, since glibc 2.33."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


class _Mallinfo(ctypes.Structure):
    """struct mallinfo of older versions, whose numbers wrap at 4 GiB."""

    _fields_ = [(name, ctypes.c_uint) for name in _FIELDS]


class Heap:
    """The heap of this process, and its lowest reading since the last `take_lowest`."""

    def __init__(self) -> None:
        self._call = _mallinfo()
        self._lowest: Optional[int] = None

    def read(self) -> None:
        """Read the bytes that are allocated, in all arenas and in mappings of their own."""
        if self._call is not None:
            info = self._call()
            in_use = info.uordblks + info.hblkhd
            self._lowest = in_use if self._lowest is None else min(self._lowest, in_use)

    def take_lowest(self) -> Optional[int]:
        """Return the lowest reading since the last call, in bytes; None without any, or without
        mallinfo.
        """
        lowest = self._lowest
        self._lowest = None
        return lowest


def _mallinfo() -> Any:
    library = ctypes.CDLL(None)
    for name, form in (("mallinfo2", _Mallinfo2), ("mallinfo", _Mallinfo)):
        call = getattr(library, name, None)
        if call is not None:
            call.restype = form
            return call
    return None
