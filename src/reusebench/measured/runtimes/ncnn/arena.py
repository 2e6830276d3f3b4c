"""Internal memory that the application gives ncnn: a block, cut into tensors and workspaces.

ncnn's own pools keep every piece that was ever requested, and give a large piece for a small
request. An arena cuts pieces of the requested size and joins those that come back. So its block is
hardly larger than the memory in use: 16.1 MiB for YOLOv5s at 320x320, of which 15.3 are in use;
ncnn's two pools keep 30.
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

#: Largest NCNN_MALLOC_ALIGN of ncnn/src/allocator.h.
ALIGNMENT = 64
OVERREAD = 64
#: MAP_NORESERVE (Linux, mman.h); Python's mmap has the name from 3.13 on.
_MAP_NORESERVE = 0x4000

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype = ctypes.c_void_p
_address.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Arena:
    """A block of address space, cut into pieces from its beginning; untouched pages take no memory.

    It is unmapped with its last holder.
    """

    def __init__(self) -> None:
        """Reserve as much address space as the machine has memory."""
        self._size = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            self._block = mmap.mmap(-1, self._size, flags=flags)
        except OSError as error:
            raise OutOfMemory("ncnn_no_address_space", size=self._size, error=str(error)) from None
        self._begin = int(np.frombuffer(self._block, np.uint8).ctypes.data)
        #: Address and size of each free piece, by address; no two touch each other.
        self._free: List[Tuple[int, int]] = [(self._begin, self._size)]
        self._taken: Dict[int, int] = {}
        #: Distance from the beginning to the end of the last piece that was in use since the last
        #: trim.
        self.used_bytes = 0
        # Python may switch to another thread whenever ncnn calls it.
        self._lock = Lock()

    def take(self, size: int) -> Optional[int]:
        """Return the address of the first free piece that is large enough, or None."""
        size = (size + OVERREAD + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        with self._lock:
            index = self._first_fit(size)
            if index is None:
                return None
            address, free_bytes = self._free.pop(index)
            if free_bytes > size:
                self._free.insert(index, (address + size, free_bytes - size))
            self._taken[address] = size
            self.used_bytes = max(self.used_bytes, address + size - self._begin)
        return address

    def _first_fit(self, size: int) -> Optional[int]:
        for index, (_, free_bytes) in enumerate(self._free):
            if free_bytes >= size:
                return index
        return None

    def give(self, address: int) -> None:
        """Take a piece back, and join it with free neighbours."""
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
        """Return the pages behind the last piece in use to the system."""
        with self._lock:
            ends = [address + size - self._begin for address, size in self._taken.items()]
            self.used_bytes = max(ends, default=0)
            begin = (self.used_bytes + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
            self._block.madvise(mmap.MADV_DONTNEED, begin, self._size - begin)


class Allocator(UnlockedPoolAllocator):  # type: ignore[misc]
    """The allocator that ncnn calls for a context: pieces of an arena, and outputs in their place.

    ncnn's Allocator itself has no constructor in Python.
    """

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self._arena = arena
        self._requests = 0
        #: Key: address. Value: number and size of the request that was last served there.
        self._served: Dict[int, Tuple[int, int]] = {}
        #: Key: number of a request. Value: its size, and the address to serve it with.
        self._placed: Dict[int, Tuple[int, int]] = {}
        self._addresses: Set[int] = set()
        #: Whether pieces were in use that never will be again.
        self._trims = False

    def begin(self) -> None:
        """Number the requests of an inference from 0; equal shapes make equal requests."""
        self._requests = 0
        if self._trims:
            self._arena.trim()
            self._trims = False

    def size_at(self, address: int) -> Optional[int]:
        """Return the size of the request that was served with an address, or None."""
        served = self._served.get(address)
        return served[1] if served else None

    def place(self, address: int, wanted: int) -> None:
        """Serve the request of `address` with `wanted`, from the next inference on."""
        number, size = self._served[address]
        self._placed[number] = (size, wanted)
        self._addresses.add(wanted)
        self._trims = True

    def fastMalloc(self, size: int) -> Any:
        """Return a piece; None tells ncnn that there is no memory."""
        number = self._requests
        self._requests += 1
        placed_size, address = self._placed.get(number, (None, None))
        if placed_size != size:
            address = self._arena.take(size)
        if address is None:
            return None
        self._served[address] = (number, size)
        return _capsule(address, None, None)

    def fastFree(self, piece: Any) -> None:
        """Take a piece back; memory of the application stays as it is."""
        address = _address(piece, None)
        if address not in self._addresses:
            self._arena.give(address)
