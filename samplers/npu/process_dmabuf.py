"""The dma-bufs that one process holds, by a descriptor or by a mapping alone.

The formats are those of dma_buf_show_fdinfo and dmabuffs_dname in the kernel's drivers/dma-buf/dma-buf.c (Linux 5.3;
Rockchip's 4.19 has them too), fs/proc/fd.c and fs/proc/task_mmu.c. On a PC 100 descriptors cost 0.2 ms, 100 dma-bufs
0.5 ms.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from samplers.files import directory, read_at

__all__ = ["UNKNOWN_EXPORTER", "DmaBuf", "process_dmabufs"]

#: A mapping shows the buffer, but not who made it.
UNKNOWN_EXPORTER = "unknown"

#: What a descriptor links to; the second form is of kernels before 5.3, whose dma-bufs have neither inode nor size.
_LINKS = ("/dmabuf:", "anon_inode:dmabuf")


@dataclass(frozen=True)
class DmaBuf:
    """One buffer. Descriptors and mappings of the same buffer have the same inode."""

    inode: int
    size_bytes: int
    #: Who made it: "drm" (the NPU driver's own buffers, on boards with an IOMMU), or the name of a DMA heap.
    exporter: str


def process_dmabufs(pid: int, root: Path = Path("/")) -> list[DmaBuf] | None:
    """Return the dma-bufs of the process, one with several descriptors or mappings once.

    None where this user may not see them, or the kernel does not show their sizes. Raise ProcessLookupError where the
    process has gone, also where it was not waited for yet.
    """
    folder = root / "proc" / str(pid)
    try:
        buffers = {buffer.inode: buffer for buffer in _mapped(folder)}
        buffers.update((buffer.inode, buffer) for buffer in _held(folder))
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"process {pid} has gone") from None
    except (OSError, ValueError):
        return None
    return list(buffers.values())


def _held(folder: Path) -> Iterator[DmaBuf]:
    """Yield the dma-bufs behind descriptors; a buffer with two descriptors comes twice."""
    with directory(folder / "fd") as links, directory(folder / "fdinfo") as infos, os.scandir(links) as entries:
        for entry in entries:
            try:
                if os.readlink(entry.name, dir_fd=links).startswith(_LINKS):
                    yield _dmabuf(entry.name, links, _fdinfo(entry.name, infos))
            except FileNotFoundError:
                continue  # closed since it was listed


def _dmabuf(name: str, links: int, info: dict[str, str]) -> DmaBuf:
    """Return the dma-buf of one descriptor; raise ValueError where the kernel does not show its size."""
    if "size" not in info:
        raise ValueError("fdinfo without a size: the kernel is older than 5.3")
    size_bytes = int(info["size"])
    # fdinfo has the inode since 5.14.
    inode = int(info["ino"]) if "ino" in info else _inode(name, links)
    return DmaBuf(inode, size_bytes, info.get("exp_name", UNKNOWN_EXPORTER))


def _inode(name: str, links: int) -> int:
    return os.stat(name, dir_fd=links).st_ino


def _fdinfo(name: str, infos: int) -> dict[str, str]:
    """Return the lines `key:<tab>value` but the buffer's name, which comes last and may hold anything."""
    text = read_at(name, infos).decode(errors="replace").partition("\nname:")[0]
    lines = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in lines}


def _mapped(folder: Path) -> Iterator[DmaBuf]:
    """Yield the mapped dma-bufs with the size that is mapped; raise ProcessLookupError where the process has ended."""
    maps = (folder / "maps").read_bytes()
    if not maps:
        raise ProcessLookupError
    if b" /dmabuf:" not in maps:
        return
    ends: dict[int, int] = {}
    for line in maps.decode(errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/dmabuf:"):
            start, _, end = fields[0].partition("-")
            extent = int(fields[2], 16) + int(end, 16) - int(start, 16)
            inode = int(fields[4])
            ends[inode] = max(extent, ends.get(inode, 0))
    yield from (DmaBuf(inode, extent, UNKNOWN_EXPORTER) for inode, extent in ends.items())
