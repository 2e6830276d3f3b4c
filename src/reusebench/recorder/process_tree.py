"""The processes of a program: which there are, and what they take together."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from reusebench.samplers.host import Host, names_in, own_pid, read_text, read_texts
from reusebench.samplers.npu.process_dmabuf import process_dmabufs
from reusebench.samplers.proc_files import parse_resident_pages
from reusebench.samplers.process_memory import Shares, read_shares, reset_peak

__all__ = ["Peaks", "ProcessTree", "SeenProcess", "has_children"]

#: Of the fields behind the name in /proc/PID/stat (proc(5)): cminflt and cmajflt, starttime,
#: startstack.
_OF_LIFE = (8, 10, 19, 25)
_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


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
class Peaks:
    """What the kernel has noted of the highest RSS of each process."""

    #: The highest that has risen since the last time; 0: none has.
    largest_bytes: int
    #: Sum over all processes since the last begin_phase; None if some of it is not known.
    sum_bytes: int | None


class _Status(NamedTuple):
    name: str
    #: VmHWM, in bytes; 0 where it has ended, but was not waited for.
    high_bytes: int
    #: What of its /proc/PID/stat is other when it has executed another program, or has waited for a
    #: child.
    life: tuple[str, ...]


class ProcessTree:
    """All processes below a root; one that was seen once stays, also where its parent has gone."""

    def __init__(self, host: Host, root: int, now_ns: int, with_root: bool) -> None:
        """Begin with the processes that are there; of the root's own memory only `with_root`."""
        self._host = host
        self._root = root
        self._lists_children = _lists_children(host)
        self._live: dict[int, SeenProcess] = {}
        #: The kernel's high-water mark of each process when it was last read.
        self._high_water: dict[int, int] = {}
        #: Of all processes at the last begin_phase, where their high-water marks are of the phase
        #: alone.
        self._lives: dict[int, tuple[str, ...]] | None = None
        self.seen: list[SeenProcess] = []
        if with_root:
            self._add([root], now_ns)
        self.discover(now_ns)

    @property
    def live(self) -> list[SeenProcess]:
        """The processes that were there at the last reading."""
        return list(self._live.values())

    def discover(self, now_ns: int) -> None:
        """Look for new processes."""
        by_parent = None if self._lists_children else _children_by_parent(self._host)
        known = {self._root}
        pending = [self._root, *self._live]
        while pending:
            pid = pending.pop()
            new = (
                set(
                    _listed_children(self._host, pid)
                    if by_parent is None
                    else by_parent.get(pid, ())
                )
                - known
            )
            known |= new
            pending += new
        self._add(known - {self._root} - set(self._live), now_ns)

    def sample(self, now_ns: int) -> tuple[int, int]:
        """Return the sum of the RSS of all processes, and the largest; those that have ended are
        left out.
        """
        statms = self._host.read_all([f"/proc/{pid}/statm" for pid in self._live])
        sizes = [self._note_size(seen, statm, now_ns) for seen, statm in zip(self.live, statms)]
        return sum(sizes), max(sizes, default=0)

    def forget_peaks(self) -> None:
        """Pass over the high-water marks of before: they may be older than the recording."""
        for pid, status in _statuses(self._host, self._live).items():
            self._high_water[pid] = status.high_bytes

    def begin_phase(self, resets: bool) -> None:
        """Let the high-water marks begin anew; else, with a program that was just started, they do
        so anyway.
        """
        lives = {pid: status.life for pid, status in _statuses(self._host, self._live).items()}
        self._lives = lives
        for pid in lives if resets else ():
            if reset_peak(self._host, pid):
                self._high_water[pid] = 0
            else:
                self._lives = None

    def read_peaks(self) -> Peaks:
        """Return the kernel's high-water marks."""
        statuses = _statuses(self._host, self._live)
        largest_bytes = max(
            (self._risen(self._live[pid], status) for pid, status in statuses.items()), default=0
        )
        # Who came, went or became another one in the meantime may have had any peak.
        is_known = bool(statuses) and self._lives == {
            pid: status.life for pid, status in statuses.items()
        }
        return Peaks(
            largest_bytes,
            sum(status.high_bytes for status in statuses.values()) if is_known else None,
        )

    def read_shares(self) -> Shares | None:
        """Return the sum over all processes that can be read; None if there is none."""
        read: list[Shares] = []
        for seen in self._live.values():
            try:
                read.append(read_shares(self._host, seen.pid))
            except ProcessLookupError:
                continue
            except PermissionError:
                seen.pss_readable = False
                continue
            seen.pss_readable = True
        return Shares(*map(sum, zip(*read))) if read else None

    def read_dmabufs(self) -> int | None:
        """Return the bytes of the dma-bufs that the processes hold, a shared one once; None where
        none can be read.
        """
        sizes: dict[int, int] = {}
        readable = False
        for pid in self._live:
            try:
                buffers = process_dmabufs(self._host, pid)
            except ProcessLookupError:
                continue
            readable |= buffers is not None
            sizes.update((buffer.inode, buffer.size_bytes) for buffer in buffers or ())
        return sum(sizes.values()) if readable else None

    def _add(self, pids: Collection[int], now_ns: int) -> None:
        """Begin with these processes, but those that have ended: they have no memory."""
        for pid, status in _statuses(self._host, pids).items():
            if status.high_bytes:
                self._live[pid] = SeenProcess(pid, status.name, now_ns, now_ns)
                self.seen.append(self._live[pid])

    def _note_size(self, seen: SeenProcess, statm: bytes | OSError, now_ns: int) -> int:
        """Return the process's RSS; forget it where it has ended, waited for or not."""
        size = (
            0 if isinstance(statm, OSError) else parse_resident_pages(statm) * self._host.page_bytes
        )
        if not size:
            del self._live[seen.pid]
            self._high_water.pop(seen.pid, None)
            return 0
        seen.last_seen_ns = now_ns
        seen.peak_rss_bytes = max(seen.peak_rss_bytes, size)
        return size

    def _risen(self, seen: SeenProcess, status: _Status) -> int:
        """Return the process's high-water mark where it has risen, else 0. Executing a program
        makes it fall.
        """
        high = status.high_bytes
        if not high:
            return 0
        seen.name = status.name
        risen = high if high > self._high_water.get(seen.pid, 0) else 0
        self._high_water[seen.pid] = high
        seen.peak_rss_bytes = max(seen.peak_rss_bytes, risen)
        return risen


def _statuses(host: Host, pids: Collection[int]) -> dict[int, _Status]:
    """Return each process's state; without those that have gone."""
    texts = read_texts(host, [f"/proc/{pid}/{file}" for pid in pids for file in ("status", "stat")])
    statuses = {}
    for pid in pids:
        status = texts.get(f"/proc/{pid}/status")
        stat = texts.get(f"/proc/{pid}/stat")
        if status and stat:
            high = _HIGH_WATER.search(status)
            name = status.partition("\n")[0].partition("\t")[2]
            # The name, in parentheses, may hold anything.
            fields = stat.rpartition(")")[2].split()
            life = tuple(fields[number] for number in _OF_LIFE)
            statuses[pid] = _Status(name, int(high[1]) * 1024 if high else 0, life)
    return statuses


def _lists_children(host: Host) -> bool:
    """Whether this kernel has CONFIG_PROC_CHILDREN."""
    own = own_pid(host)
    return read_text(host, f"/proc/{own}/task/{own}/children") is not None


def has_children(host: Host, pid: int) -> bool:
    """Whether a process has children, those included whose end nobody has waited for."""
    return bool(
        _listed_children(host, pid) if _lists_children(host) else _children_by_parent(host).get(pid)
    )


def _listed_children(host: Host, pid: int) -> list[int]:
    """Return the children of all threads."""
    folder = f"/proc/{pid}/task"
    lists = read_texts(host, [f"{folder}/{thread}/children" for thread in names_in(host, folder)])
    return [int(child) for children in lists.values() for child in children.split()]


def _children_by_parent(host: Host) -> dict[int, list[int]]:
    processes = [name for name in names_in(host, "/proc") if name.isdecimal()]
    children: dict[int, list[int]] = {}
    for stat in read_texts(host, [f"/proc/{pid}/stat" for pid in processes]).values():
        # The name, in parentheses, may hold anything; the parent is the second field behind it.
        fields = stat.rpartition(")")[2].split()
        children.setdefault(int(fields[1]), []).append(int(stat.split(maxsplit=1)[0]))
    return children
