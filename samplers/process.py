"""Memory of one process: psutil, /proc/PID/smaps_rollup and /proc/PID/status.

Exact only while the process stands at a barrier. smaps_rollup walks the page tables under the process's mmap lock: 6 ms
for 500 MiB, and a process that allocates is slowed while it is read; so it is read at barriers only.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from samplers.files import parse_sizes
from samplers.readings import ProcessMemory

__all__ = [
    "ResidentCounter",
    "pss_readable",
    "read_process",
    "read_shares",
    "reset_peak",
    "rollup_readable",
]

#: Written to /proc/PID/clear_refs, resets VmHWM to the present RSS (proc(5), since Linux 4.0).
_RESET_PEAK = "5"


def read_process(pid: int) -> ProcessMemory:
    """Return one full reading of the process; raise ProcessLookupError where it has gone."""
    try:
        process = psutil.Process(pid)
        rollup = _read_sizes(pid, "smaps_rollup")
        status = _read_sizes(pid, "status")
        totals = _totals(rollup) if rollup else _totals_of_psutil(process)
        return ProcessMemory(
            **totals,
            pss_anon_bytes=rollup.get("Pss_Anon"),
            pss_file_bytes=rollup.get("Pss_File"),
            pss_shmem_bytes=rollup.get("Pss_Shmem"),
            rss_anon_bytes=status.get("RssAnon"),
            rss_file_bytes=status.get("RssFile"),
            rss_shmem_bytes=status.get("RssShmem"),
            peak_rss_bytes=status.get("VmHWM"),
            fd_count=process.num_fds(),
            thread_count=process.num_threads(),
            fd_limit=process.rlimit(psutil.RLIMIT_NOFILE)[0],
        )
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(str(error)) from None


def read_shares(pid: int) -> tuple[int, int]:
    """Return PSS and USS; raise ProcessLookupError where the process has gone, PermissionError where it is not ours."""
    rollup = _read_sizes(pid, "smaps_rollup")
    try:
        totals = _totals(rollup) if rollup else _totals_of_psutil(psutil.Process(pid))
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(str(error)) from None
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from None
    return totals["pss_bytes"], totals["uss_bytes"]


def reset_peak(pid: int) -> bool:
    """Start a new phase for peak_rss_bytes; False where the kernel does not allow it."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def pss_readable(pid: int) -> bool:
    """Whether the process's PSS can be read at all, from smaps_rollup or from smaps."""
    return rollup_readable(pid) or bool(_read_sizes(pid, "smaps"))


def rollup_readable(pid: int) -> bool:
    """Whether /proc/PID/smaps_rollup can be read (Linux 4.14 and later, own processes)."""
    return bool(_read_sizes(pid, "smaps_rollup"))


class ResidentCounter:
    """RSS of a running process from /proc/PID/statm, kept open: 1 us a reading, and no lock of the process.

    The kernel keeps this counter per CPU and folds it in batches, so a reading may be some hundred KiB off.
    """

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read_bytes(self) -> int | None:
        """Return the present RSS, or None once the process has gone."""
        try:
            fields = os.pread(self._file, 128, 0).split()
        except ProcessLookupError:
            return None
        # A process that has ended but was not waited for still has the file, with zero pages.
        return int(fields[1]) * self._page_bytes or None if fields else None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _read_sizes(pid: int, name: str) -> dict[str, int]:
    try:
        return parse_sizes(Path(f"/proc/{pid}/{name}").read_text())
    except (FileNotFoundError, PermissionError):
        return {}


def _totals(rollup: dict[str, int]) -> dict[str, int]:
    private = ("Private_Clean", "Private_Dirty", "Private_Hugetlb")
    return {
        "rss_bytes": rollup["Rss"],
        "pss_bytes": rollup["Pss"],
        "uss_bytes": sum(rollup.get(key, 0) for key in private),
        "swap_bytes": rollup.get("Swap", 0),
    }


def _totals_of_psutil(process: psutil.Process) -> dict[str, int]:
    """Return the same totals from psutil, which walks the full smaps file of older kernels."""
    full = process.memory_full_info()
    return {"rss_bytes": full.rss, "pss_bytes": full.pss, "uss_bytes": full.uss, "swap_bytes": full.swap}
