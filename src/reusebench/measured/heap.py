"""How much of the C library's heap is in use: a leak shows here at once, and in RSS only where no
hole holds it.

Runs in the measured process: standard library only, Python 3.8. ctypes is imported with it; numpy
and Rockchip's adapter bring that along.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

__all__ = ["Heap"]

#: struct mallinfo2 and mallinfo of glibc's malloc.h have ten numbers in this order; of these two
#: are used.
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
    """Since glibc 2.33."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


class _Mallinfo(ctypes.Structure):
    """Before: the numbers wrap at 4 GiB."""

    _fields_ = [(name, ctypes.c_uint) for name in _FIELDS]


class Heap:
    """The heap of this process, and the least that was in use of it since the last
    `take_lowest`.
    """

    def __init__(self) -> None:
        self._call = _mallinfo()
        self._lowest: Optional[int] = None

    def read(self) -> None:
        """Take a reading: bytes that are allocated, in all arenas and in mappings of their own."""
        if self._call is not None:
            info = self._call()
            in_use = info.uordblks + info.hblkhd
            self._lowest = in_use if self._lowest is None else min(self._lowest, in_use)

    def take_lowest(self) -> Optional[int]:
        """Return the lowest reading since the last time, in bytes; None without one, or in another
        C library.
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
