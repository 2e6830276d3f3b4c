"""Which sources of memory figures can be read here, found by reading them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from samplers.process import ResidentCounter, pss_readable, read_process, reset_peak, rollup_readable
from samplers.system import read_system

__all__ = ["MemorySource", "memory_sources"]


@dataclass(frozen=True)
class MemorySource:
    """One source of figures."""

    name: str
    readable: bool
    #: What it is for, or what is missed without it.
    remark: str


def memory_sources(pid: int) -> Iterator[MemorySource]:
    """Yield every source, tried on the given process, which must be one of the user's own."""
    if not pss_readable(pid):
        yield MemorySource("PSS", False, "nothing can be measured: the kernel lacks CONFIG_PROC_PAGE_MONITOR")
        return
    counter = ResidentCounter(pid)
    yield MemorySource("/proc/PID/statm", counter.read_bytes() is not None, "RSS between barriers, for the timeline")
    counter.close()
    process = read_process(pid)
    rollup = rollup_readable(pid)
    remark = "PSS, USS, swap at barriers"
    yield MemorySource("/proc/PID/smaps_rollup", rollup, remark if rollup else f"{remark}: psutil reads smaps, slower")
    split = process.pss_anon_bytes is not None
    whole = "this kernel's smaps_rollup does not split PSS"
    yield MemorySource("PSS by kind", split, "anonymous, file, shared" if split else whole)
    resettable = reset_peak(pid)
    missing = "no peak per phase: the kernel lacks CONFIG_PROC_PAGE_MONITOR, or the user may not write clear_refs"
    yield MemorySource("VmHWM, reset", resettable, "peak RSS of each phase" if resettable else missing)
    system = read_system()
    yield MemorySource("/proc/meminfo", True, "system memory: MemTotal - MemAvailable")
    cma = system.cma_total_bytes is not None
    yield MemorySource("CmaTotal, CmaFree", cma, "contiguous memory of devices" if cma else "this kernel has no CMA")
