"""The dma-bufs that one process holds, by a descriptor or by a mapping alone.

The formats are those of dma_buf_show_fdinfo and dmabuffs_dname in the kernel's
drivers/dma-buf/dma-buf.c (Linux 5.3; Rockchip's 4.19 has them too), fs/proc/fd.c and
fs/proc/task_mmu.c. On a PC 100 descriptors cost 0.2 ms, 100 dma-bufs 0.5 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reusebench.samplers.host import Host

__all__ = ["UNKNOWN_EXPORTER", "DmaBuf", "process_dmabufs"]

T = TypeVar("T")

#: A mapping shows the buffer, but not who made it.
UNKNOWN_EXPORTER = "unknown"

#: What a descriptor links to; the second form is of kernels before 5.3, whose dma-bufs have neither
#: inode nor size.
_LINKS = ("/dmabuf:", "anon_inode:dmabuf")


@dataclass(frozen=True)
class DmaBuf:
    """One buffer. Descriptors and mappings of the same buffer have the same inode."""

    inode: int
    size_bytes: int
    #: Who made it: "drm" (the NPU driver's own buffers, on boards with an IOMMU), or the name of a
    #: DMA heap.
    exporter: str


def process_dmabufs(host: Host, pid: int) -> list[DmaBuf] | None:
    """Return the dma-bufs of the process, one with several descriptors or mappings once, in five
    round trips at most.

    None if this user may not see them, or the kernel does not show their sizes. Raise
    ProcessLookupError if the process has gone, also where it was not waited for yet.
    """
    folder = f"/proc/{pid}"
    try:
        buffers = {buffer.inode: buffer for buffer in _mapped(host.read(f"{folder}/maps"))}
        buffers.update((buffer.inode, buffer) for buffer in _held(host, folder))
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(f"process {pid} has gone") from None
    except (OSError, ValueError):
        return None
    return list(buffers.values())


def _held(host: Host, folder: str) -> Iterator[DmaBuf]:
    """Yield the dma-bufs behind descriptors; a buffer with two descriptors comes twice."""
    links = _those_open(f"{folder}/fd", host.names(f"{folder}/fd"), host.links)
    descriptors = [name for name, link in links.items() if link.startswith(_LINKS)]
    contents = _those_open(f"{folder}/fdinfo", descriptors, host.read_all)
    infos = {name: _fdinfo(content) for name, content in contents.items()}
    # fdinfo has the inode since 5.14.
    without_inode = [name for name, info in infos.items() if "ino" not in info]
    inodes = _those_open(f"{folder}/fd", without_inode, host.inodes)
    for name, info in infos.items():
        if "size" not in info:
            raise ValueError("fdinfo without a size: the kernel is older than 5.3")
        size_bytes = int(info["size"])
        if "ino" in info or name in inodes:
            inode = int(info["ino"]) if "ino" in info else inodes[name]
            yield DmaBuf(inode, size_bytes, info.get("exp_name", UNKNOWN_EXPORTER))


def _those_open(
    folder: str, names: Sequence[str], read: Callable[[Sequence[str]], list[T | OSError]]
) -> dict[str, T]:
    """Return what is read of each name, without descriptors that were closed since they were
    listed; raise OSError.
    """
    results: dict[str, T] = {}
    for name, result in zip(names, read([f"{folder}/{name}" for name in names]) if names else ()):
        if not isinstance(result, OSError):
            results[name] = result
        elif not isinstance(result, FileNotFoundError):
            raise result
    return results


def _fdinfo(content: bytes) -> dict[str, str]:
    """Return the lines `key:<tab>value` but the buffer's name, which comes last and may hold
    anything.
    """
    text = content.decode(errors="replace").partition("\nname:")[0]
    lines = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in lines}


def _mapped(maps: bytes) -> Iterator[DmaBuf]:
    """Yield the mapped dma-bufs with the size that is mapped; raise ProcessLookupError if the
    process has ended.
    """
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
