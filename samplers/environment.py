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
    """Return the facts; None where this machine does not say."""
    meminfo = read_system()
    return Environment(
        board=board,
        board_model=_read("/proc/device-tree/model"),
        board_compatible=_strings(_read("/proc/device-tree/compatible")),
        npu_driver_version=rknpu_driver_version(),
        memory_total_bytes=meminfo.total_bytes,
        cma_total_bytes=meminfo.cma_total_bytes,
        page_size_bytes=os.sysconf("SC_PAGE_SIZE"),
        usable_cpus=len(os.sched_getaffinity(0)),
        cpu_governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cpu_max_khz=_read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
        transparent_hugepages=_chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        overcommit_memory=_read("/proc/sys/vm/overcommit_memory"),
        address_randomisation=_read("/proc/sys/kernel/randomize_va_space"),
        swaps=_swaps(),
        variables={key: value for key, value in sorted(os.environ.items()) if key.startswith(_PREFIXES)},
        memory_sources=tuple(memory_sources(os.getpid())),
    )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip("\0\n ")
    except OSError:
        return None


def _strings(zero_ended: str | None) -> tuple[str, ...] | None:
    """Return the words of a device tree's property."""
    return tuple(filter(None, zero_ended.split("\0"))) if zero_ended else None


def _chosen(choices: str | None) -> str | None:
    """Return the word in brackets of `always [madvise] never`."""
    return choices.partition("[")[2].partition("]")[0] or None if choices else None


def _swaps() -> int:
    """Return the number of swap areas in use."""
    listing = _read("/proc/swaps")
    return len(listing.splitlines()) - 1 if listing else 0
