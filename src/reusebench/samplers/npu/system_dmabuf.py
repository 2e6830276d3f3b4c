"""Device memory of the whole system: all dma-bufs, and the memory given out by DMA heaps."""

from __future__ import annotations

import errno
import re

from reusebench.measured.messages import Message
from reusebench.samplers.host import Host
from reusebench.samplers.npu.file_source import FileSource

__all__ = ["RK_DMA_HEAP", "SYSTEM_DMABUF"]

#: `Total: 2048 KiB`, the whole file (rk_dmabuf_size_show in
#: drivers/soc/rockchip/rk_dmabuf_procfs.c).
_RK_DMABUF_TOTAL = re.compile(r"Total: (\d{1,16}) KiB\s*")
#: `Total 3 objects, 2097152 bytes`, the last line (dma_buf_debug_show in
#: drivers/dma-buf/dma-buf.c).
_BUFINFO_TOTAL = re.compile(r"^Total \d+ objects, (\d{1,19}) bytes\s*\Z", re.MULTILINE)
#: `Total : 0x200000 (2048 KiB)`, the last line (rk_dma_heap_proc_show in
#: drivers/dma-buf/rk_heaps/rk-dma-heap.c).
_HEAP_TOTAL = re.compile(r"^Total : 0x([0-9a-f]{1,16}) \(\d+ KiB\)\s*\Z", re.MULTILINE)
#: Errors from reading the size of a buffer that has been freed.
_FREED = (errno.ENOENT, errno.ENODEV, errno.EIO)


def _rk_dmabuf_bytes(text: str) -> int | None:
    """Return the counter that Rockchip's kernel keeps; no buffer is visited."""
    total = _RK_DMABUF_TOTAL.fullmatch(text)
    return int(total[1]) * 1024 if total else None


class _Buffers(FileSource[int]):
    """The sum of INODE/size in a folder with one file per buffer.

    See drivers/dma-buf/dma-buf-sysfs-stats.c.
    """

    def read(self, host: Host) -> int | None:
        try:
            sizes = host.read_all([f"{self.path}/{inode}/size" for inode in host.names(self.path)])
        except OSError:
            return None
        sum_bytes = 0
        for size in sizes:
            size_bytes = self._size_bytes(size)
            if size_bytes is None:
                return None
            sum_bytes += size_bytes
        return sum_bytes

    def _size_bytes(self, size: bytes | OSError) -> int | None:
        """Return the size of one buffer, 0 if it has just been freed, None if it is unknown."""
        if isinstance(size, OSError):
            return 0 if size.errno in _FREED else None
        return self.parse(size.decode(errors="replace"))


def _buffer_bytes(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


def _bufinfo_bytes(text: str) -> int | None:
    """Return the total, for which the kernel locks and describes each buffer."""
    total = _BUFINFO_TOTAL.search(text)
    return int(total[1]) if total else None


def _heap_bytes(text: str) -> int | None:
    """Return the memory that all heaps have given out, as dma-bufs and to drivers."""
    total = _HEAP_TOTAL.search(text)
    return int(total[1], 16) if total else None


#: All dma-bufs of the system, cheapest first: a counter, files without root and locks, a file that
#: needs both.
SYSTEM_DMABUF = (
    FileSource(
        "/proc/rk_dmabuf/size",
        _rk_dmabuf_bytes,
        Message("kernel_lacks", {"option": "CONFIG_RK_DMABUF_PROCFS"}),
    ),
    _Buffers(
        "/sys/kernel/dmabuf/buffers",
        _buffer_bytes,
        Message("kernel_lacks", {"option": "CONFIG_DMABUF_SYSFS_STATS"}),
    ),
    FileSource("/sys/kernel/debug/dma_buf/bufinfo", _bufinfo_bytes, Message("debugfs_missing")),
)

#: Source of NPU memory on boards without an IOMMU (RV1103, RV1106). debugfs has the same file.
RK_DMA_HEAP = (
    FileSource(
        "/proc/rk_dma_heap/dma_heap_info",
        _heap_bytes,
        Message("kernel_lacks", {"option": "CONFIG_DMABUF_HEAPS_ROCKCHIP"}),
    ),
)
