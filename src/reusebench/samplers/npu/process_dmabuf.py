"""The dma-bufs of processes, held by a descriptor or only by a mapping.

The formats come from dma_buf_show_fdinfo and dmabuffs_dname in the kernel's
drivers/dma-buf/dma-buf.c (Linux 5.3; also in Rockchip's 4.19), fs/proc/fd.c and fs/proc/task_mmu.c.
On a PC 100 descriptors cost 0.2 ms, 100 dma-bufs 0.5 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reusebench.samplers.host import Host

__all__ = ["UNKNOWN_EXPORTER", "DmaBuf", "dmabuf_bytes", "process_dmabufs"]

T = TypeVar("T")

#: Exporter of a buffer that is only mapped: a mapping does not show it.
UNKNOWN_EXPORTER = "unknown"

#: Link targets of descriptors. The second form is of kernels before 5.3, whose dma-bufs have
#: neither inode nor size.
_LINKS = ("/dmabuf:", "anon_inode:dmabuf")


@dataclass(frozen=True)
class DmaBuf:
    """One buffer. Descriptors and mappings of the same buffer have the same inode."""

    inode: int
    size_bytes: int
    #: Maker of the buffer: "drm" (the NPU driver's own buffers, on boards with an IOMMU), or the
    #: name of a DMA heap.
    exporter: str


def process_dmabufs(host: Host, pid: int) -> list[DmaBuf] | None:
    """Return the dma-bufs of the process, each once, in at most five round trips.

    None if this user may not see them, or if the kernel does not show their sizes. Raises
    ProcessLookupError if the process has gone or is a zombie.
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


def dmabuf_bytes(host: Host, pids: Iterable[int]) -> int | None:
    """Return the bytes of the dma-bufs of several processes, each once; None if all have gone.

    Raises PermissionError if there are processes, and none shows its dma-bufs.
    """
    sizes: dict[int, int] = {}
    is_readable = False
    is_refused = False
    for pid in pids:
        try:
            buffers = process_dmabufs(host, pid)
        except ProcessLookupError:
            continue
        if buffers is None:
            is_refused = True
            continue
        is_readable = True
        sizes.update((buffer.inode, buffer.size_bytes) for buffer in buffers)
    if is_readable:
        return sum(sizes.values())
    if is_refused:
        raise PermissionError("no process shows its dma-bufs")
    return None


def _held(host: Host, folder: str) -> Iterator[DmaBuf]:
    """Yield the dma-bufs behind descriptors; a buffer with two descriptors comes twice."""
    links = _read_open(f"{folder}/fd", host.names(f"{folder}/fd"), host.links)
    descriptors = [name for name, link in links.items() if link.startswith(_LINKS)]
    contents = _read_open(f"{folder}/fdinfo", descriptors, host.read_all)
    infos = {name: _fdinfo(content) for name, content in contents.items()}
    # fdinfo has the inode since Linux 5.14.
    without_inode = [name for name, info in infos.items() if "ino" not in info]
    statuses = _read_open(f"{folder}/fd", without_inode, host.statuses)
    for name, info in infos.items():
        if "size" not in info:
            raise ValueError("fdinfo without a size: the kernel is older than 5.3")
        size_bytes = int(info["size"])
        if "ino" in info:
            inode = int(info["ino"])
        elif name in statuses:
            inode = int(statuses[name].inode)
        else:
            continue
        yield DmaBuf(inode, size_bytes, info.get("exp_name", UNKNOWN_EXPORTER))


def _read_open(
    folder: str, names: Sequence[str], read: Callable[[Sequence[str]], list[T | OSError]]
) -> dict[str, T]:
    """Return results by name, without descriptors closed since the listing; raise OSError."""
    results: dict[str, T] = {}
    if not names:
        return results
    for name, result in zip(names, read([f"{folder}/{name}" for name in names])):
        if not isinstance(result, OSError):
            results[name] = result
        elif not isinstance(result, FileNotFoundError):
            raise result
    return results


def _fdinfo(content: bytes) -> dict[str, str]:
    """Return the lines `key:<tab>value` before the buffer's name, which may hold anything."""
    text = content.decode(errors="replace").partition("\nname:")[0]
    values = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        values[key] = value.strip()
    return values


def _mapped(maps: bytes) -> Iterator[DmaBuf]:
    """Yield the mapped dma-bufs with their mapped size; ProcessLookupError for a zombie."""
    if not maps:
        raise ProcessLookupError
    if b" /dmabuf:" not in maps:
        return
    #: Key: inode; the highest mapped offset.
    ends: dict[int, int] = {}
    for line in maps.decode(errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/dmabuf:"):
            address_range, _, offset, _, inode_text, _ = fields
            start, _, end = address_range.partition("-")
            mapped_end = int(offset, 16) + int(end, 16) - int(start, 16)
            inode = int(inode_text)
            ends[inode] = max(mapped_end, ends.get(inode, 0))
    for inode, size_bytes in ends.items():
        yield DmaBuf(inode, size_bytes, UNKNOWN_EXPORTER)
