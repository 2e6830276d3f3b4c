"""Which sources of figures can be read here, of memory and of the machine beside a run, found by reading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from samplers.machine.gauges import Gauge, core_frequencies, device_frequencies, temperatures
from samplers.machine.throttling import Throttling
from samplers.npu.file_source import FileSource, first_readable
from samplers.npu.load import NPU_LOAD
from samplers.npu.process_dmabuf import process_dmabufs
from samplers.npu.rknpu import SRAM, has_npu
from samplers.npu.system_dmabuf import RK_DMA_HEAP, SYSTEM_DMABUF
from samplers.process import ResidentCounter, pss_readable, read_process, reset_peak, rollup_readable
from samplers.readings import MemorySource
from samplers.system import read_system

__all__ = ["machine_sources", "memory_sources"]


def memory_sources(pid: int, root: Path = Path("/")) -> Iterator[MemorySource]:
    """Yield every source, tried on the given process, which must be one of the user's own.

    Those of the NPU come only where there is one; they are looked for below `root`.
    """
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
    if has_npu(root):
        yield from _npu_sources(pid, root)


def machine_sources(root: Path = Path("/")) -> Iterator[MemorySource]:
    """Yield what MachineWatch reads besides CPU use, which every Linux has; NPU load only where there is an NPU."""
    yield _gauges("/sys/class/thermal/thermal_zone*", temperatures(root), "temperatures")
    yield _gauges("/sys/devices/system/cpu/cpufreq", core_frequencies(root), "frequencies of the cores")
    yield _gauges("/sys/class/devfreq", device_frequencies(root), "frequencies of NPU, GPU and memory")
    throttling = Throttling(root).readable
    remark = "cooling devices, Intel's counters, the firmware of a Raspberry Pi"
    yield MemorySource("throttling", throttling, remark if throttling else f"none of: {remark}")
    if has_npu(root):
        yield from _best(NPU_LOAD, "load of the NPU's cores", root)


def _gauges(path: str, gauges: Sequence[Gauge], purpose: str) -> MemorySource:
    for gauge in gauges:
        gauge.read()
    readable = any(gauge.figures.count for gauge in gauges)
    return MemorySource(path, readable, purpose if readable else f"{purpose}: this kernel shows none")


def _npu_sources(pid: int, root: Path) -> Iterator[MemorySource]:
    seen = process_dmabufs(pid, root) is not None
    purpose = "dma-bufs of the process"
    unseen = f"{purpose}: not shown to this user, or a kernel before 5.3"
    yield MemorySource("/proc/PID/fdinfo", seen, purpose if seen else unseen)
    yield from _best(SYSTEM_DMABUF, "dma-bufs of the system", root)
    yield from _best(RK_DMA_HEAP, "Rockchip's DMA heaps", root)
    yield from _best(SRAM, "SRAM of the NPU", root)


def _best(sources: Sequence[FileSource[Any]], purpose: str, root: Path) -> Iterator[MemorySource]:
    """Yield the source that is used, of several that say the same; where there is none, what stands in the way."""
    used = first_readable(sources, root)
    if used:
        yield MemorySource(used.path, True, purpose)
        return
    refused = next((source for source in sources if source.refusal(root)), None)
    nearest = refused or sources[0]
    yield MemorySource(nearest.path, False, f"{purpose}: {nearest.refusal(root) or nearest.absent}")
