"""What of this machine bears on memory and speed, and stays the same from run to run."""

from __future__ import annotations

import os
from pathlib import Path

from samplers.npu import rknpu_driver_version
from samplers.readings import Environment
from samplers.sources import memory_sources
from samplers.system import read_system

__all__ = ["environment"]

#: Variables that change what an allocator or a thread pool does, and so what is measured.
_PREFIXES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "OMP_", "ORT_", "RKNN_")


def environment(board: str) -> Environment:
    """Return the facts; None where this machine does not show them."""
    meminfo = read_system()
    # Words that end with a zero byte, and `always [madvise] never`.
    compatible = _read("/proc/device-tree/compatible")
    hugepages = _read("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    swaps = _read("/proc/swaps")
    return Environment(
        board=board,
        board_model=_read("/proc/device-tree/model"),
        board_compatible=tuple(filter(None, compatible.split("\0"))) if compatible else None,
        npu_driver_version=rknpu_driver_version(),
        memory_total_bytes=meminfo.total_bytes,
        cma_total_bytes=meminfo.cma_total_bytes,
        page_size_bytes=os.sysconf("SC_PAGE_SIZE"),
        usable_cpus=len(os.sched_getaffinity(0)),
        cpu_governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cpu_max_khz=_read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
        transparent_hugepages=hugepages.partition("[")[2].partition("]")[0] or None,
        overcommit_memory=_read("/proc/sys/vm/overcommit_memory"),
        address_randomisation=_read("/proc/sys/kernel/randomize_va_space"),
        swaps=len(swaps.splitlines()) - 1 if swaps else 0,
        variables={key: value for key, value in sorted(os.environ.items()) if key.startswith(_PREFIXES)},
        memory_sources=tuple(memory_sources(os.getpid())),
    )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip("\0\n ")
    except OSError:
        return None
