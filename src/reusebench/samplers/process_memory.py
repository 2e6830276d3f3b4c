"""Memory of one process and its children, from /proc/PID: smaps_rollup, status, maps, pagemap.

Exact only while the process waits at a barrier. smaps_rollup walks the page tables under the
process's mmap lock: 6 ms for 500 MiB. It slows a process that allocates meanwhile, so it is read at
barriers only. /proc is searched for children each time: 1.2 ms for 120 processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reusebench.samplers.descendants import all_processes, descendants, parse_relation
from reusebench.samplers.errors import SamplerError
from reusebench.samplers.held_files import read_held
from reusebench.samplers.host import Host, own_pid
from reusebench.samplers.huge_pages import (
    HugePages,
    distinct_huge_bytes,
    huge_mappings,
    mapped_addresses,
)
from reusebench.samplers.mappings import repeated_bytes
from reusebench.samplers.npu.process_dmabuf import dmabuf_bytes
from reusebench.samplers.proc_files import parse_sizes
from reusebench.samplers.readings import ProcessMemory

__all__ = [
    "Shares",
    "check_readable",
    "pss_readable",
    "read_process",
    "read_shares",
    "reset_peak",
    "rollup_readable",
]

#: Value for /proc/PID/clear_refs that resets VmHWM to the current RSS (proc(5), Linux 4.0).
_RESET_PEAK = b"5"
_THREADS = re.compile(r"^Threads:\s+(\d+)$", re.MULTILINE)
#: `Max open files 1024 524288 files`: the soft limit, then the hard one.
_OPEN_FILES = re.compile(r"^Max open files\s+(\d+)\s", re.MULTILINE)
#: Private_Hugetlb is left out: RSS and PSS do not have such pages either.
_PRIVATE = ("Private_Clean", "Private_Dirty")
#: The files of a process that its memory is read from.
_FILES = ("smaps_rollup", "status", "maps")


def read_process(host: Host, pid: int, with_dmabufs: bool = False) -> ProcessMemory:
    """Return a full reading of the process and of those that it has started.

    It takes ten round trips or more. Raises ProcessLookupError if the process has gone.
    """
    processes = all_processes(host)
    paths = [_path(pid, name) for name in (*_FILES, "limits")]
    paths += [_path(process, "stat") for process in processes]
    contents = host.read_all(paths)
    own_files = contents[: len(_FILES)]
    limits_file, *stats = contents[len(_FILES) :]
    relations = [relation for stat in stats if (relation := parse_relation(stat))]
    try:
        root = _member(host, pid, own_files)
        limits = _content(limits_file).decode(errors="replace")
        fd_count = len(host.names(_path(pid, "fd")))
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} has gone") from None

    started = descendants(pid, relations)
    zombies = {relation.pid for relation in relations if relation.is_zombie}
    children, unread = _read_children(host, started)
    members = [root, *children]
    open_files = _OPEN_FILES.search(limits)
    totals = _sum(_totals(member.mapped) for member in members)
    maps = {member.pid: member.maps for member in members}
    held = read_held(host, maps)
    huge_pages = {member.pid: HugePages.of(member.mapped) for member in members}
    return ProcessMemory(
        **totals,
        pss_anon_bytes=_known_sum(member.mapped.get("Pss_Anon") for member in members),
        pss_file_bytes=_known_sum(member.mapped.get("Pss_File") for member in members),
        pss_shmem_bytes=_known_sum(member.mapped.get("Pss_Shmem") for member in members),
        rss_anon_bytes=_known_sum(member.counted.get("RssAnon") for member in members),
        rss_file_bytes=_known_sum(member.counted.get("RssFile") for member in members),
        rss_shmem_bytes=_known_sum(member.counted.get("RssShmem") for member in members),
        peak_rss_bytes=_known_sum(member.counted.get("VmHWM") for member in members),
        fd_count=fd_count,
        thread_count=root.thread_count,
        fd_limit=int(open_files[1]) if open_files else None,
        distinct_bytes=_distinct_bytes(host, members, totals["pss_bytes"], huge_pages),
        hugetlb_bytes=distinct_huge_bytes(host, huge_pages),
        held_file_bytes=held.file_bytes,
        dmabuf_bytes=_dmabuf_bytes(host, list(maps)) if with_dmabufs else None,
        uncounted_fd_count=held.uncounted,
        child_count=len(children),
        child_pss_bytes=sum(child.mapped["Pss"] for child in children),
        unread_child_count=unread,
        zombie_count=len(zombies.intersection(started)),
    )


class _Member(NamedTuple):
    """One process of a reading."""

    pid: int
    #: Sums over its mappings, from smaps_rollup or smaps.
    mapped: dict[str, int]
    #: The kernel's counters, from status.
    counted: dict[str, int]
    thread_count: int
    maps: bytes


def _member(host: Host, pid: int, files: Sequence[bytes | OSError]) -> _Member:
    """Return a process from the contents of _FILES; raise OSError if one cannot be read.

    Raises ProcessLookupError for a zombie.
    """
    rollup, status_file, maps = files
    status = _content(status_file).decode(errors="replace")
    threads = _THREADS.search(status)
    return _Member(
        pid,
        _mapped_sizes(host, pid, rollup),
        parse_sizes(status),
        int(threads[1]) if threads else 1,
        _content(maps),
    )


def _read_children(host: Host, pids: Sequence[int]) -> tuple[list[_Member], int]:
    """Return those that are still there, and the number of those that may not be read."""
    if not pids:
        return [], 0
    paths = [_path(pid, name) for pid in pids for name in _FILES]
    contents = host.read_all(paths)
    children = []
    unread = 0
    for position, pid in enumerate(pids):
        first = position * len(_FILES)
        try:
            children.append(_member(host, pid, contents[first : first + len(_FILES)]))
        except (ProcessLookupError, FileNotFoundError):
            continue
        except PermissionError:
            unread += 1
    return children, unread


def _dmabuf_bytes(host: Host, pids: Sequence[int]) -> int | None:
    try:
        return dmabuf_bytes(host, pids)
    except PermissionError:
        return None


def _distinct_bytes(
    host: Host,
    members: Sequence[_Member],
    pss_bytes: int,
    huge_pages: Mapping[int, HugePages],
) -> int | None:
    """Return the pages in memory, each once; None if that cannot be told.

    Anonymous pages of one process are its own. Those that its children share with it, from before
    they were forked, are counted once by PSS: nobody else can map them.
    """
    maps = {member.pid: member.maps for member in members}
    huge = huge_mappings(host, [pid for pid, pages in huge_pages.items() if any(pages)])
    repeated = repeated_bytes(host, maps, mapped_addresses(huge))
    if repeated is None:
        return None
    distinct_bytes = sum(member.mapped["Rss"] for member in members) - repeated
    if len(members) > 1:
        for member in members:
            mapped = member.mapped
            if "Pss_Anon" not in mapped or "Anonymous" not in mapped:
                return None
            distinct_bytes += mapped["Pss_Anon"] - mapped["Anonymous"]
    # The files are read one after the other: a process that runs meanwhile may have grown.
    return max(distinct_bytes, pss_bytes)


def _sum(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sums by key; all parts have the same keys."""
    total: dict[str, int] = {}
    for sizes in parts:
        for key, size in sizes.items():
            total[key] = total.get(key, 0) + size
    return total


def _known_sum(sizes: Iterable[int | None]) -> int | None:
    """Return the sum; None if a part is unknown."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


class Shares(NamedTuple):
    """The process's share of its memory, in bytes; shares of several processes can be added."""

    pss_bytes: int
    uss_bytes: int
    #: Memory swapped out; before Linux 4.3, shared pages count in each process.
    swap_bytes: int
    #: RSS at the same moment, and transparent huge pages in it.
    rss_bytes: int
    huge_page_bytes: int
    #: Pages of hugetlbfs, which are in no other share.
    hugetlb: HugePages = HugePages(0, 0)


def read_shares(host: Host, pid: int) -> Shares:
    """Return the shares of one process, without its children.

    Raises ProcessLookupError if the process has gone, PermissionError if it is not this user's.
    """
    (rollup,) = host.read_all([_path(pid, "smaps_rollup")])
    try:
        mapped = _mapped_sizes(host, pid, rollup)
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} has gone") from None
    totals = _totals(mapped)
    swap_bytes = mapped.get("SwapPss", totals["swap_bytes"])
    return Shares(
        totals["pss_bytes"],
        totals["uss_bytes"],
        swap_bytes,
        totals["rss_bytes"],
        mapped.get("AnonHugePages", 0),
        HugePages.of(mapped),
    )


def reset_peak(host: Host, pid: int) -> bool:
    """Start a new phase for peak_rss_bytes; return False if the kernel does not allow it."""
    try:
        host.write(_path(pid, "clear_refs"), _RESET_PEAK)
    except OSError:
        return False
    return True


def check_readable(host: Host) -> None:
    """Raise SamplerError if PSS of a process of ours, or system memory, cannot be read.

    All savings rest on PSS.
    """
    pid = own_pid(host)
    if pss_readable(host, pid):
        return
    errors = host.read_all([_path(pid, name) for name in ("smaps_rollup", "smaps")])
    if all(isinstance(error, FileNotFoundError) for error in errors):
        raise SamplerError(
            "this kernel gives no PSS: neither /proc/PID/smaps_rollup nor /proc/PID/smaps is there."
            " It needs CONFIG_PROC_PAGE_MONITOR=y; `reusebench doctor` shows every memory source"
        )
    reasons = []
    for error in errors:
        reasons.append(str(error.strerror) if isinstance(error, OSError) else "empty")
    raise SamplerError(
        "PSS cannot be read from /proc/PID/smaps_rollup and /proc/PID/smaps"
        f" ({'; '.join(reasons)}): mount a whole /proc, in which this user may read the"
        " memory of its own processes"
    )


def pss_readable(host: Host, pid: int) -> bool:
    """Whether the process's PSS can be read, from smaps_rollup or from smaps."""
    return rollup_readable(host, pid) or _is_readable(host, _path(pid, "smaps"))


def rollup_readable(host: Host, pid: int) -> bool:
    """Whether /proc/PID/smaps_rollup can be read (Linux 4.14 and later, own processes)."""
    return _is_readable(host, _path(pid, "smaps_rollup"))


def _path(pid: int, name: str) -> str:
    return f"/proc/{pid}/{name}"


def _content(result: bytes | OSError) -> bytes:
    if isinstance(result, OSError):
        raise result
    return result


def _is_readable(host: Host, path: str) -> bool:
    try:
        return bool(host.read(path))
    except OSError:
        return False


def _mapped_sizes(host: Host, pid: int, rollup: bytes | OSError) -> dict[str, int]:
    """Return the sums over all mappings; raise OSError.

    On kernels before smaps_rollup they come from smaps: the sums are the same, but without the
    parts of PSS.
    """
    if isinstance(rollup, (FileNotFoundError, PermissionError)):
        rollup = host.read(_path(pid, "smaps"))
    sizes = parse_sizes(_content(rollup).decode(errors="replace"))
    if "Pss" not in sizes:  # a zombie
        raise ProcessLookupError(f"process {pid} has gone")
    return sizes


def _totals(mapped: dict[str, int]) -> dict[str, int]:
    return {
        "rss_bytes": mapped["Rss"],
        "pss_bytes": mapped["Pss"],
        "uss_bytes": sum(mapped.get(key, 0) for key in _PRIVATE),
        "swap_bytes": mapped.get("Swap", 0),
    }
