"""Memory that the application gives to a context, from any source."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import zlib
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.base import Allocation, NotSupported
from reusebench.measured.runtimes.rknn.binding import Binding, Memory
from reusebench.measured.runtimes.rknn.library_file import find_library

__all__ = ["BoundMemory", "Piece", "allocate", "name_again"]

#: Heaps whose buffers every NPU can reach: first the contiguous ones, which chips without an IOMMU
#: need.
_HEAPS = (
    "/dev/rk_dma_heap/rk-dma-heap-cma",
    "/dev/dma_heap/cma",
    "/dev/dma_heap/linux,cma",
    "/dev/dma_heap/system-uncached-dma32",
    "/dev/dma_heap/system-dma32",
    "/dev/dma_heap/system",
)
#: struct dma_heap_allocation_data of linux/dma-heap.h: len, fd, fd_flags, heap_flags; rk-dma-heap.h
#: has the same.
_HEAP_DATA = "=QIIQ"
_HEAP_ALLOC = {"dma_heap": 0xC0184800, "rk_dma_heap": 0xC0185200}

#: RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE (rknn_api.h): rknn_destroy_mem frees the rknn_tensor_mem
#: itself.
_ALLOC_INSIDE = 1

#: Names of the library of Rockchip's media memory zone in its SDK and its camera images; it is in
#: the loader's path, or in the folder of the runtime's library.
_MMZ_LIBRARIES = ("libmpimmz.so", "librockit.so")
#: RK_MMZ_ALLOC_TYPE_CMA | RK_MMZ_ALLOC_UNCACHEABLE (rk_mpi_mmz.h).
_MMZ_FLAGS = 0x11


class Piece:
    """A piece of memory of one context; release() gives it back to its source."""

    def __init__(
        self,
        memory: Memory,
        release: Callable[[], None],
        fd: Optional[int] = None,
    ) -> None:
        #: Pointer to rknn_tensor_mem.
        self.memory = memory
        self.release = release
        #: File descriptor of the memory; below 1 if there is none.
        self.fd = int(memory.contents.fd) if fd is None else fd

    @property
    def address(self) -> int:
        """Address in this process."""
        return int(self.memory.contents.virt_addr)

    def checksum(self) -> int:
        """Return the CRC-32 of the content."""
        size = int(self.memory.contents.size)
        return zlib.crc32((ctypes.c_char * size).from_address(self.address))

    def allocation(self, kind: str) -> Allocation:
        """Return the entry of the account."""
        inode = os.fstat(self.fd).st_ino if self.fd > 0 else 0
        return Allocation(kind, int(self.memory.contents.size), inode)


class BoundMemory:
    """The memory of bound tensors, in the order of binding, with another name for each context."""

    def __init__(self, allocator: str) -> None:
        self._allocator = allocator
        self._pieces: List[Piece] = []

    def take(self, binding: Binding, context: int, number: int, size: int) -> Tuple[Piece, bool]:
        """Return the memory of a tensor by its number, and whether it is new."""
        if number < len(self._pieces):
            return name_again(binding, context, self._pieces[number], size), False
        self._pieces.append(allocate(self._allocator, binding, context, size))
        return self._pieces[number], True

    def forget(self) -> None:
        """Drop the pieces, which their owner has released; the next tensors get new ones."""
        self._pieces.clear()


def name_again(binding: Binding, context: int, whole: Piece, size: int) -> Piece:
    """Return the first bytes of another context's memory for this context, too."""
    memory = binding.create_mem_from_fd(context, whole.fd, whole.address, size)
    return Piece(memory, lambda: binding.destroy_mem(context, memory))


def allocate(allocator: str, binding: Binding, context: int, size: int) -> Piece:
    """Return at least `size` bytes for the context; `allocator` is as in runtimes.base.Memory."""
    return _ALLOCATORS[allocator](binding, context, size)


def _from_runtime(binding: Binding, context: int, size: int) -> Piece:
    memory = binding.create_mem(context, size)
    return Piece(memory, lambda: binding.destroy_mem(context, memory))


def _from_dma_heap(binding: Binding, context: int, size: int) -> Piece:
    fd = _open_heap_buffer(size)
    mapping = mmap.mmap(fd, size)
    view = ctypes.c_char.from_buffer(mapping)
    piece = _from_foreign_fd(binding, context, fd, ctypes.addressof(view), size)
    held: List[Any] = [view]

    def release() -> None:
        piece.release()
        held.clear()
        mapping.close()
        os.close(fd)

    del view
    return Piece(piece.memory, release)


def _from_physical_address(binding: Binding, context: int, size: int) -> Piece:
    """Return memory by its physical address; the library allocates it."""
    whole = _from_runtime(binding, context, size)
    physical = int(whole.memory.contents.phys_addr)
    memory = binding.create_mem_from_phys(context, physical, whole.address, size)

    def release() -> None:
        binding.destroy_mem(context, memory)
        whole.release()

    return Piece(memory, release, whole.fd)


def _from_mmz(binding: Binding, context: int, size: int) -> Piece:
    library = _mmz_library()
    block = ctypes.c_void_p()
    code = library.RK_MPI_MMZ_Alloc(
        ctypes.byref(block), ctypes.c_uint32(size), ctypes.c_uint32(_MMZ_FLAGS)
    )
    if code:
        raise NotSupported("rknn_mmz_refused", size=size, code=code)

    library.RK_MPI_MMZ_Handle2VirAddr.restype = ctypes.c_void_p
    address = library.RK_MPI_MMZ_Handle2VirAddr(block)
    fd = library.RK_MPI_MMZ_Handle2Fd(block)
    piece = _from_foreign_fd(binding, context, fd, address, size)

    def release() -> None:
        piece.release()
        library.RK_MPI_MMZ_Free(block)

    return Piece(piece.memory, release)


def _from_foreign_fd(binding: Binding, context: int, fd: int, address: int, size: int) -> Piece:
    """Return memory by a file descriptor that the library did not make.

    If this flag is set, librknnrt 1.5.2 and 1.6.0 were seen to hang in every rknn_set_*_mem of such
    memory with the driver /dev/rknpu. rknn_destroy_mem needs it again, to free the struct.
    """
    memory = binding.create_mem_from_fd(context, fd, address, size)
    struct_is_librarys = memory.contents.flags & _ALLOC_INSIDE
    memory.contents.flags &= ~_ALLOC_INSIDE

    def release() -> None:
        memory.contents.flags |= struct_is_librarys
        binding.destroy_mem(context, memory)

    return Piece(memory, release)


def _open_heap_buffer(size: int) -> int:
    """Return the file descriptor of a new buffer of the first heap that gives one."""
    refusals = []
    for heap in _HEAPS:
        try:
            return _heap_buffer(heap, size)
        except OSError as error:
            refusals.append(f"{heap}: {error.strerror}")
    raise NotSupported("rknn_no_dma_heap", size=size, reasons="; ".join(refusals))


def _heap_buffer(heap: str, size: int) -> int:
    device = os.open(heap, os.O_RDWR | os.O_CLOEXEC)
    try:
        request = bytearray(struct.pack(_HEAP_DATA, size, 0, os.O_RDWR | os.O_CLOEXEC, 0))
        fcntl.ioctl(device, _HEAP_ALLOC[heap.split("/")[2]], request)
        return int(struct.unpack(_HEAP_DATA, request)[1])
    finally:
        os.close(device)


def _mmz_library() -> ctypes.CDLL:
    folder = os.path.dirname(find_library() or "")
    paths = [*_MMZ_LIBRARIES, *(os.path.join(folder, name) for name in _MMZ_LIBRARIES)]
    refusals = []
    for path in paths:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            # The loader says more than "not found" only if the file exists.
            if os.path.exists(path):
                refusals.append(str(error))
    reason: Union[Message, str] = "; ".join(refusals) or Message("mmz_library_not_found")
    one, other = _MMZ_LIBRARIES
    raise NotSupported("rknn_no_mmz_library", one=one, other=other, reason=reason)


_ALLOCATORS: Dict[str, Callable[[Binding, int, int], Piece]] = {
    "create_mem": _from_runtime,
    "dma_heap": _from_dma_heap,
    "physical": _from_physical_address,
    "mmz": _from_mmz,
}
