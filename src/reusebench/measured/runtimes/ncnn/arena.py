"""Internal memory that the application gives ncnn: one block, from which tensors and workspaces are
cut.

ncnn's own pools keep every piece that was ever asked for, and give a large piece for a small
request. An arena cuts pieces of the size that is asked for and joins those that come back, so its
block is hardly larger than what is in use at once: 16.1 MiB for YOLOv5s at 320x320, of which 15.3
are in use; ncnn's two pools keep 30.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from bisect import bisect
from threading import Lock
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np
from ncnn import UnlockedPoolAllocator

from reusebench.measured.runtimes.base import OutOfMemory

__all__ = ["ALIGNMENT", "OVERREAD", "Allocator", "Arena"]

#: ncnn/src/allocator.h: NCNN_MALLOC_ALIGN at its largest, and NCNN_MALLOC_OVERREAD: kernels read so
#: far past the end.
ALIGNMENT = 64
OVERREAD = 64
#: mmap.h of Linux; Python's mmap names it from 3.13 on.
_MAP_NORESERVE = 0x4000

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype = ctypes.c_void_p
_address.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Arena:
    """Cuts pieces from the beginning of a block of address space; pages that were never touched
    take no memory.

    It is unmapped with its last holder.
    """

    def __init__(self) -> None:
        """Reserve as much address space as the machine has memory."""
        self._size = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
        try:
            self._block = mmap.mmap(
                -1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            )
        except OSError as error:
            raise OutOfMemory("ncnn_no_address_space", size=self._size, error=str(error)) from None
        self._begin = int(np.frombuffer(self._block, np.uint8).ctypes.data)
        #: Address and size of each free piece, by address; no two touch each other.
        self._free: List[Tuple[int, int]] = [(self._begin, self._size)]
        self._taken: Dict[int, int] = {}
        #: From the beginning to the end of the last piece that ever was since the last trim.
        self.used_bytes = 0
        # Python may go on with another thread wherever ncnn calls it.
        self._lock = Lock()

    def take(self, size: int) -> Optional[int]:
        """Return the address of a piece, the first that is large enough; None if none is."""
        size = (size + OVERREAD + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        with self._lock:
            index = next(
                (i for i, (_, free_bytes) in enumerate(self._free) if free_bytes >= size), None
            )
            if index is None:
                return None
            address, free_bytes = self._free.pop(index)
            if free_bytes > size:
                self._free.insert(index, (address + size, free_bytes - size))
            self._taken[address] = size
            self.used_bytes = max(self.used_bytes, address + size - self._begin)
        return address

    def give(self, address: int) -> None:
        """Take a piece back, and join it with free ones beside it."""
        with self._lock:
            size = self._taken.pop(address)
            free = self._free
            index = bisect(free, (address, 0))
            if index < len(free) and free[index][0] == address + size:
                size += free.pop(index)[1]
            if index and sum(free[index - 1]) == address:
                index -= 1
                address, before = free.pop(index)
                size += before
            free.insert(index, (address, size))

    def trim(self) -> None:
        """Give the pages behind the last piece that is in use back to the system."""
        with self._lock:
            ends = [address + size - self._begin for address, size in self._taken.items()]
            self.used_bytes = max(ends, default=0)
            begin = (self.used_bytes + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
            self._block.madvise(mmap.MADV_DONTNEED, begin, self._size - begin)


class Allocator(UnlockedPoolAllocator):  # type: ignore[misc]
    """What ncnn calls for the memory of one context's tensors: pieces of an arena, and outputs
    where they are wanted.

    ncnn's Allocator itself has no constructor in Python.
    """

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self._arena = arena
        self._requests = 0
        #: By address: the number and the size of the request that was last served there.
        self._served: Dict[int, Tuple[int, int]] = {}
        #: By the number of a request: the size that it has, and the address that it is to be served
        #: with.
        self._placed: Dict[int, Tuple[int, int]] = {}
        self._addresses: Set[int] = set()
        #: Whether pieces were in use that never will be again.
        self._trims = False

    def begin(self) -> None:
        """Number the requests of an inference from 0: they are the same in every inference with
        equal shapes.
        """
        self._requests = 0
        if self._trims:
            self._arena.trim()
            self._trims = False

    def size_at(self, address: int) -> Optional[int]:
        """Return the size of the request that was served with an address; None if none was."""
        served = self._served.get(address)
        return served[1] if served else None

    def place(self, address: int, wanted: int) -> None:
        """Serve the request that was served with one address with another from the next inference
        on.
        """
        number, size = self._served[address]
        self._placed[number] = (size, wanted)
        self._addresses.add(wanted)
        self._trims = True

    def fastMalloc(self, size: int) -> Any:
        """Return a piece; None tells ncnn that there is no memory."""
        number = self._requests
        self._requests += 1
        placed = self._placed.get(number)
        address = placed[1] if placed and placed[0] == size else self._arena.take(size)
        if address is None:
            return None
        self._served[address] = (number, size)
        return _capsule(address, None, None)

    def fastFree(self, piece: Any) -> None:
        """Take a piece back; what is the application's stays where it is."""
        address = _address(piece, None)
        if address not in self._addresses:
            self._arena.give(address)
