"""One reading of all NPU memory sources that this board and this user have."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.samplers.host import Host
from reusebench.samplers.npu.file_source import FileSource, first_readable
from reusebench.samplers.npu.process_dmabuf import process_dmabufs
from reusebench.samplers.npu.rknpu import SRAM, Sram
from reusebench.samplers.npu.system_dmabuf import RK_DMA_HEAP, SYSTEM_DMABUF
from reusebench.samplers.readings import NpuMemory

__all__ = ["NpuSources", "find_npu_sources"]


@dataclass(frozen=True)
class NpuSources:
    """The files to read, looked for once in a session; None: there is none."""

    host: Host
    system_dmabuf: FileSource[int] | None
    rk_dma_heap: FileSource[int] | None
    sram: FileSource[Sram] | None

    def read(self, pid: int) -> NpuMemory:
        """Return one reading of the process and the system; raise ProcessLookupError if the
        process has gone.
        """
        buffers = process_dmabufs(self.host, pid)
        by_exporter: dict[str, int] = {}
        for buffer in buffers or ():
            by_exporter[buffer.exporter] = by_exporter.get(buffer.exporter, 0) + buffer.size_bytes
        system_bytes = self.system_dmabuf.read(self.host) if self.system_dmabuf else None
        sram = self.sram.read(self.host) if self.sram else None
        return NpuMemory(
            process_dmabuf_bytes=None if buffers is None else sum(by_exporter.values()),
            process_dmabuf_count=None if buffers is None else len(buffers),
            process_dmabuf_bytes_by_exporter=None if buffers is None else by_exporter,
            system_dmabuf_bytes=system_bytes,
            system_dmabuf_source=self.system_dmabuf.path
            if self.system_dmabuf and system_bytes is not None
            else None,
            rk_dma_heap_bytes=self.rk_dma_heap.read(self.host) if self.rk_dma_heap else None,
            sram_used_bytes=sram.used_bytes if sram else None,
            sram_total_bytes=sram.total_bytes if sram else None,
        )


def find_npu_sources(host: Host) -> NpuSources:
    """Try every source once, and keep the cheapest of those that have the same figure."""
    return NpuSources(
        host,
        first_readable(SYSTEM_DMABUF, host),
        first_readable(RK_DMA_HEAP, host),
        first_readable(SRAM, host),
    )
