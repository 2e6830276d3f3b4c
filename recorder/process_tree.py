"""The processes of a program: which there are, and what they take together."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from samplers.npu.process_dmabuf import process_dmabufs
from samplers.process import ResidentCounter, read_shares

__all__ = ["ProcessTree", "SeenProcess", "Shares"]

_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
#: Bytes of a file that are read: some 8,000 children.
_MOST_BYTES = 65536


@dataclass
class SeenProcess:
    """One process, as long as it was seen; times are monotonic."""

    pid: int
    #: The kernel's name of it, up to 15 characters.
    name: str
    first_seen_ns: int
    last_seen_ns: int
    #: Highest RSS that was read, or that the kernel noted.
    peak_rss_bytes: int = 0
    #: Whether this user may read its PSS.
    pss_readable: bool = True


@dataclass(frozen=True)
class Shares:
    """The sum over all processes that can be read."""

    pss_bytes: int
    uss_bytes: int


class ProcessTree:
    """All processes below a root; one that was seen once stays, also where its parent has gone."""

    def __init__(self, root: int, now_ns: int, with_root: bool) -> None:
        """Begin with the processes that are there; of the root's own memory only `with_root`."""
        self._root = root
        self._live: dict[int, tuple[SeenProcess, ResidentCounter]] = {}
        #: The kernel's high-water mark of each process when it was last read.
        self._high_water: dict[int, int] = {}
        self.seen: list[SeenProcess] = []
        if with_root:
            self._add(root, now_ns)
        self.discover(now_ns)

    @property
    def live(self) -> list[SeenProcess]:
        """The processes that were there at the last reading."""
        return [seen for seen, _ in self._live.values()]

    def discover(self, now_ns: int) -> None:
        """Look for new processes."""
        by_parent = None if _lists_children() else _children_by_parent()
        known, pending = {self._root}, [self._root, *self._live]
        while pending:
            pid = pending.pop()
            new = set(_listed_children(pid) if by_parent is None else by_parent.get(pid, ())) - known
            known |= new
            pending += new
        for pid in known - {self._root} - set(self._live):
            self._add(pid, now_ns)

    def sample(self, now_ns: int) -> tuple[int, int]:
        """Return the sum of the RSS of all processes, and the largest; those that have ended are left out."""
        sizes = [self._sample(seen, counter, now_ns) for seen, counter in list(self._live.values())]
        return sum(sizes), max(sizes, default=0)

    def forget_peaks(self) -> None:
        """Pass over the high-water marks of before: they may be older than the recording."""
        for seen, _ in self._live.values():
            self._high_water[seen.pid] = _status(seen.pid)[1]

    def read_peaks(self) -> int:
        """Return the highest of the kernel's high-water marks that have risen since the last time; 0: none has."""
        return max((self._risen(seen) for seen, _ in self._live.values()), default=0)

    def read_shares(self) -> Shares | None:
        """Return the sum of PSS and USS; None where no process can be read."""
        pss_bytes, uss_bytes, readable = 0, 0, False
        for seen, _ in self._live.values():
            try:
                pss, uss = read_shares(seen.pid)
            except ProcessLookupError:
                continue
            except PermissionError:
                seen.pss_readable = False
                continue
            seen.pss_readable = readable = True
            pss_bytes += pss
            uss_bytes += uss
        return Shares(pss_bytes, uss_bytes) if readable else None

    def read_dmabufs(self) -> int | None:
        """Return the bytes of the dma-bufs that the processes hold, a shared one once; None where none can be read."""
        sizes: dict[int, int] = {}
        readable = False
        for pid in self._live:
            try:
                buffers = process_dmabufs(pid)
            except ProcessLookupError:
                continue
            readable |= buffers is not None
            sizes.update((buffer.inode, buffer.size_bytes) for buffer in buffers or ())
        return sum(sizes.values()) if readable else None

    def close(self) -> None:
        """Close what is open; what was seen stays."""
        for _, counter in self._live.values():
            counter.close()
        self._live.clear()

    def _add(self, pid: int, now_ns: int) -> None:
        """Begin with this process, unless it has ended."""
        try:
            counter = ResidentCounter(pid)
        except OSError:
            return
        if counter.read_bytes() is None:
            counter.close()
            return
        seen = SeenProcess(pid, _status(pid)[0], now_ns, now_ns)
        self.seen.append(seen)
        self._live[pid] = seen, counter

    def _sample(self, seen: SeenProcess, counter: ResidentCounter, now_ns: int) -> int:
        size = counter.read_bytes()
        if size is None:
            counter.close()
            del self._live[seen.pid]
            self._high_water.pop(seen.pid, None)
            return 0
        seen.last_seen_ns = now_ns
        seen.peak_rss_bytes = max(seen.peak_rss_bytes, size)
        return size

    def _risen(self, seen: SeenProcess) -> int:
        """Return the process's high-water mark where it has risen, else 0. Executing a program makes it fall."""
        name, high = _status(seen.pid)
        if not high:
            return 0
        seen.name = name
        risen = high > self._high_water.get(seen.pid, 0)
        self._high_water[seen.pid] = high
        seen.peak_rss_bytes = max(seen.peak_rss_bytes, high if risen else 0)
        return high if risen else 0


def _status(pid: int) -> tuple[str, int]:
    """Return the process's name and VmHWM; 0 where it has ended."""
    text = _read(f"/proc/{pid}/status")
    high = _HIGH_WATER.search(text)
    return text.partition("\n")[0].partition("\t")[2], int(high[1]) * 1024 if high else 0


@functools.cache
def _lists_children() -> bool:
    """Whether this kernel has CONFIG_PROC_CHILDREN."""
    own = os.getpid()
    return Path(f"/proc/{own}/task/{own}/children").exists()


def _listed_children(pid: int) -> list[int]:
    """Return the children of all threads."""
    try:
        with os.scandir(f"/proc/{pid}/task") as threads:
            return [int(child) for thread in threads for child in _read(f"{thread.path}/children").split()]
    except OSError:
        return []


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        # The name, in parentheses, may hold anything; the parent is the second field behind it.
        fields = _read(f"{process}/stat").rpartition(")")[2].split()
        if fields:
            children.setdefault(int(fields[1]), []).append(int(process.name))
    return children


def _read(path: str) -> str:
    """Return the beginning of a file of /proc, in the quickest way; nothing once its process has gone."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, _MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)
