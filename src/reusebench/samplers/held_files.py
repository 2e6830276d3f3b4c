"""Memory of files that processes hold and do not map: memfds, and files of tmpfs.

No figure of /proc/PID/smaps has it. What a process maps of such a file is in its RSS, and is not
counted here. What is queued in pipes and sockets cannot be counted: the kernel does not tell it.
On a PC two processes with 20 descriptors cost 0.3 ms, 1000 memfds 30 ms.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reusebench.samplers.host import FileStatus, Host, device_name
from reusebench.samplers.mappings import FileKey, mapped_bytes

__all__ = ["Held", "read_held"]

#: Descriptors that are looked at, of all processes together.
_MOST_DESCRIPTORS = 1024
_MEMFD = b"/memfd:"
#: Buffers of virtual boards (native/preload/descriptors.c), which NPU memory has.
_BUFFERS = (
    b"/memfd:rknpu (deleted)",
    b"/memfd:dma_heap (deleted)",
    b"/memfd:rocket (deleted)",
)
#: Paths of mapped memory that is on no mounted file system: memfds, segments of System V, and
#: anonymous memory that is shared.
_UNMOUNTED = (_MEMFD, b"/SYSV", b"/dev/zero (deleted)")
_QUEUES = (b"pipe:", b"socket:")
_DELETED = b" (deleted)"
#: Beginnings of links that lead to no file of memory; dma-bufs are a figure of their own.
_NO_FILES = (b"/proc/", b"/sys/", b"/dmabuf:", *_BUFFERS)
_MEMORY_SYSTEMS = (b"tmpfs", b"ramfs", b"rootfs", b"devtmpfs", b"hugetlbfs")
#: The access mode in the flags of /proc/PID/fdinfo/FD: 0 is for reading alone.
_ACCESS_MODE = 3


class Held(NamedTuple):
    """Memory of processes beside the pages that they map."""

    #: Memory of files, without what the processes map of them. None if that cannot be told.
    file_bytes: int | None
    #: Pipes and sockets, and descriptors that were not looked at: their memory cannot be counted.
    uncounted: int


class _Open(NamedTuple):
    """An open descriptor of a process."""

    pid: int
    descriptor: str
    link: bytes

    def path(self, folder: str) -> str:
        """Return the path of the descriptor in a folder of /proc/PID."""
        return f"/proc/{self.pid}/{folder}/{self.descriptor}"


class _FileSystems(NamedTuple):
    """The mounted file systems of memory."""

    #: Numbers of the mounts, as in mnt_id of /proc/PID/fdinfo/FD.
    mounts: frozenset[bytes]
    #: Devices, as in /proc/PID/maps.
    devices: frozenset[bytes]


def read_held(host: Host, maps: Mapping[int, bytes]) -> Held:
    """Return the held memory of these processes, each file and each pipe once.

    `maps` has the content of /proc/PID/maps by process. A file that is still in a folder counts if
    it can be written to: others may have written what is only read. What the reading process has
    open as well is not theirs. It takes up to six round trips, and one for each process.
    """
    readers = [pid for pid in _reader(host) if pid not in maps]
    theirs, left_out = _descriptors(host, list(maps))
    ours, _ = _descriptors(host, readers)
    opened = _opened(host, [*theirs, *ours])

    queues = _queues(file for file in opened if file.pid in maps)
    queues -= _queues(file for file in opened if file.pid in readers)
    uncounted = len(queues) + left_out

    in_memory, systems = _in_memory(host, opened, [*maps, *readers])
    paths = [file.path("fd") for file in in_memory if file.pid in maps]
    paths += _mapped_paths(maps, systems)
    if not paths:
        return Held(0, uncounted)
    our_paths = [file.path("fd") for file in in_memory if file.pid in readers]
    sizes = _sizes(host, paths, our_paths)
    mapped = mapped_bytes(host, maps, sizes.keys())
    if mapped is None:
        return Held(None, uncounted)
    return Held(max(0, sum(sizes.values()) - mapped), uncounted)


def _reader(host: Host) -> Iterator[int]:
    """Yield the reading process, if /proc shows it."""
    for link in host.links(["/proc/self"]):
        if isinstance(link, str):
            yield int(link)


def _descriptors(host: Host, pids: Sequence[int]) -> tuple[list[tuple[int, str]], int]:
    """Return process and number of descriptors, and how many there are beyond the limit."""
    descriptors = []
    for pid in pids:
        try:
            descriptors += [(pid, number) for number in host.names(f"/proc/{pid}/fd")]
        except OSError:  # it has ended, or is not this user's any more
            continue
    seen = descriptors[:_MOST_DESCRIPTORS]
    return seen, len(descriptors) - len(seen)


def _opened(host: Host, descriptors: Sequence[tuple[int, str]]) -> list[_Open]:
    """Return the descriptors with their links, without those that were closed since."""
    opened = []
    links = host.links([f"/proc/{pid}/fd/{number}" for pid, number in descriptors])
    for (pid, number), link in zip(descriptors, links):
        if isinstance(link, str):
            opened.append(_Open(pid, number, os.fsencode(link)))
    return opened


def _queues(opened: Iterable[_Open]) -> set[bytes]:
    """Return the pipes and sockets; both ends of a pipe are one."""
    return {file.link for file in opened if file.link.startswith(_QUEUES)}


def _in_memory(
    host: Host, opened: Sequence[_Open], pids: Sequence[int]
) -> tuple[list[_Open], _FileSystems]:
    """Return the files of memory that have no name or are open for writing, and their systems.

    Nothing but /proc is read for it: a file system of the network may not answer.
    """
    files = []
    for file in opened:
        if file.link.startswith(b"/") and not file.link.startswith(_NO_FILES):
            files.append(file)
    paths = [file.path("fdinfo") for file in files]
    contents = host.read_all([*paths, *(f"/proc/{pid}/mountinfo" for pid in pids)])
    readable = [content if isinstance(content, bytes) else b"" for content in contents]
    systems = _file_systems(readable[len(files) :])
    found = []
    for file, info in zip(files, readable):
        words = info.split()
        values = dict(zip(words[::2], words[1::2]))
        is_memory = values.get(b"mnt_id:") in systems.mounts or file.link.startswith(_MEMFD)
        can_write = int(values.get(b"flags:", b"0"), 8) & _ACCESS_MODE
        if is_memory and (can_write or file.link.endswith(_DELETED)):
            found.append(file)
    return found, systems


def _file_systems(mountinfos: Iterable[bytes]) -> _FileSystems:
    """Return the file systems of memory in the contents of /proc/PID/mountinfo."""
    mounts = set()
    devices = set()
    for content in mountinfos:
        for line in content.splitlines():
            place, _, system = line.partition(b" - ")
            if not system.startswith(_MEMORY_SYSTEMS):
                continue
            number, _, device = place.split(maxsplit=3)[:3]
            major, _, minor = device.partition(b":")
            mounts.add(number)
            devices.add(device_name(int(major), int(minor)))
    return _FileSystems(frozenset(mounts), frozenset(devices))


def _mapped_paths(maps: Mapping[int, bytes], systems: _FileSystems) -> Iterator[str]:
    """Yield the links to files of memory that are mapped; only root may follow them.

    Such a file need not be open any more, and what was written to it need not be in RSS.
    """
    seen: set[FileKey] = set()
    for pid, content in maps.items():
        for line in content.splitlines():
            addresses, access, _, device, inode, *path = line.split(maxsplit=5)
            if not path or (device, inode) in seen or path[0].startswith(_BUFFERS):
                continue
            is_written = access[1:2] == b"w" and access[3:4] == b"s"
            is_own = is_written or path[0].endswith(_DELETED)
            if path[0].startswith(_UNMOUNTED) or (device in systems.devices and is_own):
                seen.add((device, inode))
                start, _, end = addresses.partition(b"-")
                yield f"/proc/{pid}/map_files/{int(start, 16):x}-{int(end, 16):x}"


def _sizes(host: Host, paths: Sequence[str], our_paths: Sequence[str]) -> dict[FileKey, int]:
    """Return the sizes of files that are not ours and may be looked at."""
    statuses = host.statuses([*paths, *our_paths])
    sizes = {}
    for status in statuses[: len(paths)]:
        if isinstance(status, FileStatus) and status.stored_bytes:
            sizes[status.device, status.inode] = status.stored_bytes
    for status in statuses[len(paths) :]:
        if isinstance(status, FileStatus):
            sizes.pop((status.device, status.inode), None)
    return sizes
