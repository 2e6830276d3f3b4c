"""One reading of all NPU memory sources that this board and this user have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reusebench.samplers.host import Host
from reusebench.samplers.npu.drm_clients import DrmMemory, drm_memory
from reusebench.samplers.npu.file_source import FileSource, first_readable
from reusebench.samplers.npu.mainline import mainline_npus
from reusebench.samplers.npu.process_dmabuf import DmaBuf, process_dmabufs
from reusebench.samplers.npu.rknpu import SRAM, Sram, has_rknpu
from reusebench.samplers.npu.system_dmabuf import RK_DMA_HEAP, SYSTEM_DMABUF
from reusebench.samplers.readings import NpuMemory

__all__ = ["NpuSources", "find_npu_sources", "has_npu"]


@dataclass(frozen=True)
class NpuSources:
    """The files to read, looked for once per session; None if there is no such file."""

    host: Host
    system_dmabuf: FileSource[int] | None
    rk_dma_heap: FileSource[int] | None
    sram: FileSource[Sram] | None
    #: Nodes of NPUs with drivers of mainline Linux, whose buffers are no dma-bufs.
    nodes: tuple[str, ...] = ()

    def read(self, pid: int) -> NpuMemory:
        """Return one reading; ProcessLookupError if the process has gone."""
        buffers = None if self.nodes else process_dmabufs(self.host, pid)
        clients = self._drm_memory(pid) if self.nodes else None
        buffer_count: int | None = None
        process_bytes: int | None = None
        by_exporter: dict[str, int] | None = None
        if buffers is not None:
            buffer_count = len(buffers)
            process_bytes = sum(buffer.size_bytes for buffer in buffers)
            by_exporter = _bytes_by_exporter(buffers)

        system_bytes: int | None = None
        system_source: str | None = None
        if self.system_dmabuf:
            system_bytes = self.system_dmabuf.read(self.host)
            if system_bytes is not None:
                system_source = self.system_dmabuf.path

        sram = self.sram.read(self.host) if self.sram else None
        return NpuMemory(
            process_dmabuf_bytes=process_bytes,
            process_dmabuf_count=buffer_count,
            process_dmabuf_bytes_by_exporter=by_exporter,
            system_dmabuf_bytes=system_bytes,
            system_dmabuf_source=system_source,
            rk_dma_heap_bytes=self.rk_dma_heap.read(self.host) if self.rk_dma_heap else None,
            sram_used_bytes=sram.used_bytes if sram else None,
            sram_total_bytes=sram.total_bytes if sram else None,
            process_drm_bytes=clients.total_bytes if clients else None,
            process_drm_resident_bytes=clients.resident_bytes if clients else None,
            process_drm_shared_bytes=clients.shared_bytes if clients else None,
        )

    def _drm_memory(self, pid: int) -> DrmMemory | None:
        """Return the buffers of the process's open files; None if they are not shown."""
        try:
            return drm_memory(self.host, [pid], self.nodes)
        except PermissionError:
            return None


def _bytes_by_exporter(buffers: Iterable[DmaBuf]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for buffer in buffers:
        sizes[buffer.exporter] = sizes.get(buffer.exporter, 0) + buffer.size_bytes
    return sizes


def find_npu_sources(host: Host) -> NpuSources:
    """Try every source once; of those with the same figure keep the cheapest."""
    return NpuSources(
        host,
        first_readable(SYSTEM_DMABUF, host),
        first_readable(RK_DMA_HEAP, host),
        first_readable(SRAM, host),
        () if has_rknpu(host) else tuple(npu.node for npu in mainline_npus(host)),
    )


def has_npu(host: Host) -> bool:
    """Whether this kernel has a driver for an NPU: Rockchip's, or one that Mesa's Teflon knows."""
    return has_rknpu(host) or bool(mainline_npus(host))
