"""The processes of a program, and the memory that they take together."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from reusebench.recorder.moments import Moment, ProcessState
from reusebench.samplers.descendants import fields_after_name
from reusebench.samplers.held_files import Held, read_held
from reusebench.samplers.host import Host, names_in, own_pid, read_text, read_texts
from reusebench.samplers.huge_pages import distinct_huge_bytes
from reusebench.samplers.npu.drm_clients import DrmMemory, drm_memory
from reusebench.samplers.npu.process_dmabuf import dmabuf_bytes
from reusebench.samplers.proc_files import parse_resident_pages
from reusebench.samplers.process_memory import Shares, read_shares, reset_peak

__all__ = ["Peaks", "ProcessTree", "SeenProcess", "has_children"]

#: Fields of /proc/PID/stat after the name (proc(5)): cminflt, cmajflt, starttime, startstack.
#: They change when the process executes another program or has waited for a child.
_LIFE_FIELDS = (8, 10, 19, 25)
#: Likewise minflt and majflt.
_FAULT_FIELDS = (7, 9)
#: Readings of shares, if a process ends in each.
_MOST_SHARE_READINGS = 3
#: States of a process that has no memory any more.
_ENDED_STATES = ("Z", "X")
_HIGH_WATER = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)


@dataclass
class SeenProcess:
    """One process, for the time in which it was seen; times are monotonic."""

    pid: int
    #: The kernel's name for it, up to 15 characters.
    name: str
    first_seen_ns: int
    last_seen_ns: int
    #: Highest RSS that was read or that the kernel noted.
    peak_rss_bytes: int = 0
    #: False if this user may not read its PSS, or for a time was not allowed to.
    pss_readable: bool = True


@dataclass(frozen=True)
class Peaks:
    """The kernel's high-water marks of RSS."""

    #: Highest mark that has risen since the last reading; 0 if none has.
    largest_bytes: int
    #: Sum over all processes since the last begin_phase; None if a mark is unknown.
    sum_bytes: int | None


class _Status(NamedTuple):
    name: str
    #: Zero for a zombie.
    state: ProcessState
    #: Values of _LIFE_FIELDS.
    life: tuple[str, ...]

    @property
    def high_water_bytes(self) -> int:
        """The kernel's high-water mark of RSS."""
        return self.state.high_water_bytes


class ProcessTree:
    """All processes below a root. Those once seen stay, even if their parent has gone."""

    def __init__(self, host: Host, root: int, now_ns: int, with_root: bool) -> None:
        """Begin with the current processes; the root's own memory counts if `with_root`."""
        self._host = host
        self._root = root
        self._lists_children = _lists_children(host)
        self._live: dict[int, SeenProcess] = {}
        #: Those of them whose shares could no longer be read.
        self._lost: set[int] = set()
        #: Key: process whose memory the kernel is taking back, or has; its peak.
        self._ending: dict[int, int] = {}
        #: Key: process; its high-water mark at the last reading.
        self._high_water: dict[int, int] = {}
        #: Key: process; its life at the last begin_phase. None if a mark could not be reset then,
        #: and so may be older than the phase.
        self._lives: dict[int, tuple[str, ...]] | None = None
        self.seen: list[SeenProcess] = []
        if with_root:
            self._add([root], now_ns)
        self.discover(now_ns)

    @property
    def live(self) -> list[SeenProcess]:
        """The processes that were alive at the last reading."""
        return list(self._live.values())

    def discover(self, now_ns: int) -> None:
        """Look for new processes."""
        by_parent = None if self._lists_children else _children_by_parent(self._host)
        known = {self._root}
        pending = [self._root, *self._live]
        while pending:
            pid = pending.pop()
            if by_parent is None:
                children = _listed_children(self._host, pid)
            else:
                children = by_parent.get(pid, [])
            new = set(children) - known
            known |= new
            pending += new
        self._add(known - {self._root} - set(self._live), now_ns)

    def sample(self, now_ns: int) -> tuple[int, int]:
        """Return the sum of the RSS of all live processes, and the largest RSS."""
        statms = self._host.read_all([f"/proc/{pid}/statm" for pid in self._live])
        sizes = [
            self._note_size(process, statm, now_ns) for process, statm in zip(self.live, statms)
        ]
        return sum(sizes), max(sizes, default=0)

    def forget_peaks(self) -> None:
        """Ignore the current high-water marks: they may be older than the recording."""
        for pid, status in _statuses(self._host, self._live).items():
            self._high_water[pid] = status.high_water_bytes

    def begin_phase(self, now_ns: int, resets: bool) -> Moment:
        """Begin a phase, in which the high-water marks rise anew; return the counters.

        `resets` is False for a program that was just started, whose marks are new anyway.
        """
        statuses = _statuses(self._host, self._live)
        self._lives = _lives(statuses)
        states = _states(statuses)
        if not resets:
            return Moment(now_ns, states)
        for pid, state in states.items():
            if reset_peak(self._host, pid):
                self._high_water[pid] = 0
                states[pid] = replace(state, high_water_bytes=state.resident_bytes)
            else:
                self._lives = None
        return Moment(now_ns, states)

    def read_moment(self, now_ns: int) -> tuple[Moment, Peaks]:
        """Return the kernel's counters of all live processes, and its high-water marks."""
        statuses = _statuses(self._host, self._live)
        moment = Moment(now_ns, _states(statuses))
        largest_bytes = 0
        for pid, status in statuses.items():
            largest_bytes = max(largest_bytes, self._risen(self._live[pid], status))

        # A process that came, went or executed another program since may have had any peak.
        if not statuses or self._lives != _lives(statuses):
            return moment, Peaks(largest_bytes, sum_bytes=None)
        sum_bytes = sum(status.high_water_bytes for status in statuses.values())
        return moment, Peaks(largest_bytes, sum_bytes)

    def read_peaks(self) -> Peaks:
        """Return the kernel's high-water marks."""
        return self.read_moment(0)[1]

    def read_shares(self) -> tuple[dict[int, Shares], int]:
        """Return the shares of each readable process, and the peaks of those that are ending.

        A process that is ending has no readable memory, and others do not yet have its shares. The
        dictionary is empty if there is no process. Raises PermissionError if there are processes,
        and none of them may be read.
        """
        for _ in range(_MOST_SHARE_READINGS):
            self._forget_ended()
            lost_count = len(self._lost)
            shares = self._read_shares()
            if len(self._lost) == lost_count:
                break
        return shares, sum(self._ending.values())

    def _read_shares(self) -> dict[int, Shares]:
        shares: dict[int, Shares] = {}
        refusal: PermissionError | None = None
        for process in self._live.values():
            if process.pid in self._lost:
                continue
            try:
                shares[process.pid] = read_shares(self._host, process.pid)
            except ProcessLookupError:
                self._lost.add(process.pid)
                self._ending[process.pid] = process.peak_rss_bytes
            except PermissionError as error:
                process.pss_readable = False
                refusal = error
        if refusal is not None and not shares:
            raise refusal
        return shares

    def _forget_ended(self) -> None:
        """Forget the ending processes that have given back all memory: zombies, and those gone."""
        stats = read_texts(self._host, [f"/proc/{pid}/stat" for pid in self._ending])
        for pid in list(self._ending):
            stat = stats.get(f"/proc/{pid}/stat")
            if not stat or fields_after_name(stat)[0] in _ENDED_STATES:
                del self._ending[pid]

    def hugetlb_bytes(self, shares: Mapping[int, Shares]) -> int:
        """Return the huge pages of processes with these shares, each page once."""
        return distinct_huge_bytes(
            self._host, {pid: share.hugetlb for pid, share in shares.items()}
        )

    def read_held(self) -> Held | None:
        """Return memory that the processes hold beside the pages that they map.

        None if there is no process. Raises PermissionError if there are processes, and none of them
        may be read.
        """
        contents = self._host.read_all([f"/proc/{pid}/maps" for pid in self._live])
        maps = {}
        for pid, content in zip(self._live, contents):
            if isinstance(content, bytes) and content:  # a zombie maps nothing
                maps[pid] = content
        if maps:
            return read_held(self._host, maps)
        for content in contents:
            if isinstance(content, PermissionError):
                raise content
        return None

    def read_dmabufs(self) -> int | None:
        """Return the bytes of the dma-bufs that the processes hold; None if there is no process.

        A shared buffer counts once. Raises PermissionError if there are processes, and none shows
        its dma-bufs.
        """
        return dmabuf_bytes(self._host, list(self._live))

    def read_drm(self, nodes: Sequence[str]) -> DrmMemory | None:
        """Return the buffers of the processes in devices with these nodes, as drm_memory does."""
        return drm_memory(self._host, list(self._live), nodes)

    def _add(self, pids: Collection[int], now_ns: int) -> None:
        """Add these processes, except zombies, which have no memory."""
        for pid, status in _statuses(self._host, pids).items():
            if status.high_water_bytes:
                self._live[pid] = SeenProcess(pid, status.name, now_ns, now_ns)
                self.seen.append(self._live[pid])

    def _note_size(self, process: SeenProcess, statm: bytes | OSError, now_ns: int) -> int:
        """Return the process's RSS; if it has ended, or is a zombie, remove it and return 0."""
        pages = 0 if isinstance(statm, OSError) else parse_resident_pages(statm)
        if not pages:
            del self._live[process.pid]
            if process.pid not in self._lost:
                self._ending[process.pid] = process.peak_rss_bytes
            self._lost.discard(process.pid)
            self._high_water.pop(process.pid, None)
            return 0
        size_bytes = pages * self._host.page_bytes
        process.last_seen_ns = now_ns
        process.peak_rss_bytes = max(process.peak_rss_bytes, size_bytes)
        return size_bytes

    def _risen(self, process: SeenProcess, status: _Status) -> int:
        """Return the process's high-water mark if it has risen, otherwise 0.

        The mark falls when the process executes another program.
        """
        high_water_bytes = status.high_water_bytes
        if not high_water_bytes:
            return 0
        process.name = status.name
        has_risen = high_water_bytes > self._high_water.get(process.pid, 0)
        self._high_water[process.pid] = high_water_bytes
        if not has_risen:
            return 0
        process.peak_rss_bytes = max(process.peak_rss_bytes, high_water_bytes)
        return high_water_bytes


def has_children(host: Host, pid: int) -> bool:
    """Whether a process has children, zombies included."""
    if _lists_children(host):
        return bool(_listed_children(host, pid))
    return pid in _children_by_parent(host)


def _statuses(host: Host, pids: Collection[int]) -> dict[int, _Status]:
    """Return the status of each process that has not gone."""
    paths: list[str] = []
    for pid in pids:
        paths += [f"/proc/{pid}/status", f"/proc/{pid}/stat"]
    texts = read_texts(host, paths)

    statuses = {}
    for pid in pids:
        status = texts.get(f"/proc/{pid}/status")
        stat = texts.get(f"/proc/{pid}/stat")
        if status and stat:
            statuses[pid] = _parse_status(status, stat)
    return statuses


def _parse_status(status: str, stat: str) -> _Status:
    name = status.partition("\n")[0].partition("\t")[2]
    fields = fields_after_name(stat)
    resident_bytes = _kib_in(_RESIDENT, status)
    state = ProcessState(
        resident_bytes=resident_bytes,
        high_water_bytes=_kib_in(_HIGH_WATER, status),
        fault_count=sum(int(fields[index]) for index in _FAULT_FIELDS),
        file_bytes=resident_bytes - _kib_in(_ANONYMOUS, status),
    )
    life = tuple(fields[index] for index in _LIFE_FIELDS)
    return _Status(name, state, life)


def _kib_in(line: re.Pattern[str], status: str) -> int:
    """Return the size in this line of a status, in bytes; 0 if it has none, as of a zombie."""
    size = line.search(status)
    return int(size[1]) * 1024 if size else 0


def _lives(statuses: dict[int, _Status]) -> dict[int, tuple[str, ...]]:
    return {pid: status.life for pid, status in statuses.items()}


def _states(statuses: dict[int, _Status]) -> dict[int, ProcessState]:
    """Return the counters of the processes, except zombies, which have no memory."""
    return {pid: status.state for pid, status in statuses.items() if status.high_water_bytes}


def _lists_children(host: Host) -> bool:
    """Whether this kernel has CONFIG_PROC_CHILDREN."""
    own = own_pid(host)
    return read_text(host, f"/proc/{own}/task/{own}/children") is not None


def _listed_children(host: Host, pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    folder = f"/proc/{pid}/task"
    lists = read_texts(host, [f"{folder}/{thread}/children" for thread in names_in(host, folder)])
    children: list[int] = []
    for text in lists.values():
        children += map(int, text.split())
    return children


def _children_by_parent(host: Host) -> dict[int, list[int]]:
    pids = [name for name in names_in(host, "/proc") if name.isdecimal()]
    children: dict[int, list[int]] = {}
    for stat in read_texts(host, [f"/proc/{pid}/stat" for pid in pids]).values():
        pid = int(stat.split(maxsplit=1)[0])
        parent = int(fields_after_name(stat)[1])
        children.setdefault(parent, []).append(pid)
    return children
