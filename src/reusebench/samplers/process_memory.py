"""Memory of one process from /proc/PID/smaps_rollup and /proc/PID/status.

Exact only while the process waits at a barrier. smaps_rollup walks the page tables under the
process's mmap lock: 6 ms for 500 MiB. It slows a process that allocates meanwhile, so it is read at
barriers only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reusebench.samplers.errors import SamplerError
from reusebench.samplers.host import Host, own_pid
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
_PRIVATE = ("Private_Clean", "Private_Dirty", "Private_Hugetlb")


def read_process(host: Host, pid: int) -> ProcessMemory:
    """Return a full reading of the process in two round trips; ProcessLookupError if it is gone."""
    try:
        rollup, status_file, limits_file = host.read_all(
            [_path(pid, name) for name in ("smaps_rollup", "status", "limits")]
        )
        status = _content(status_file).decode(errors="replace")
        limits = _content(limits_file).decode(errors="replace")
        mapped = _mapped_sizes(host, pid, rollup)
        sizes = parse_sizes(status)
        threads = _THREADS.search(status)
        open_files = _OPEN_FILES.search(limits)
        return ProcessMemory(
            **_totals(mapped),
            pss_anon_bytes=mapped.get("Pss_Anon"),
            pss_file_bytes=mapped.get("Pss_File"),
            pss_shmem_bytes=mapped.get("Pss_Shmem"),
            rss_anon_bytes=sizes.get("RssAnon"),
            rss_file_bytes=sizes.get("RssFile"),
            rss_shmem_bytes=sizes.get("RssShmem"),
            peak_rss_bytes=sizes.get("VmHWM"),
            fd_count=len(host.names(_path(pid, "fd"))),
            thread_count=int(threads[1]) if threads else 1,
            fd_limit=int(open_files[1]) if open_files else None,
        )
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} has gone") from None


class Shares(NamedTuple):
    """The process's share of its memory, in bytes; shares of several processes can be added."""

    pss_bytes: int
    uss_bytes: int
    #: Memory swapped out; before Linux 4.3, shared pages count in each process.
    swap_bytes: int


def read_shares(host: Host, pid: int) -> Shares:
    """Return the process's shares.

    Raises ProcessLookupError if the process has gone, PermissionError if it is not this user's.
    """
    (rollup,) = host.read_all([_path(pid, "smaps_rollup")])
    try:
        mapped = _mapped_sizes(host, pid, rollup)
    except FileNotFoundError:
        raise ProcessLookupError(f"process {pid} has gone") from None
    totals = _totals(mapped)
    swap_bytes = mapped.get("SwapPss", totals["swap_bytes"])
    return Shares(totals["pss_bytes"], totals["uss_bytes"], swap_bytes)


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
