"""The sources of figures that are readable on this machine, found by trying them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reusebench.measured.messages import Message, Value
from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.errors import SamplerError
from reusebench.samplers.host import Host, read_text, read_texts
from reusebench.samplers.machine.gauges import (
    Gauge,
    core_frequencies,
    device_frequencies,
    temperatures,
)
from reusebench.samplers.machine.throttling import Throttling
from reusebench.samplers.npu.file_source import FileSource, first_readable
from reusebench.samplers.npu.mainline import mainline_npus, tells_memory
from reusebench.samplers.npu.process_dmabuf import process_dmabufs
from reusebench.samplers.npu.rknpu import NPU_LOAD, SRAM, has_rknpu
from reusebench.samplers.npu.system_dmabuf import RK_DMA_HEAP, SYSTEM_DMABUF
from reusebench.samplers.process_memory import (
    pss_readable,
    read_process,
    reset_peak,
    rollup_readable,
)
from reusebench.samplers.readings import MemorySource
from reusebench.samplers.system_memory import read_system

__all__ = ["machine_sources", "memory_sources"]

_MIB = 2**20


def memory_sources(host: Host, pid: int) -> Iterator[MemorySource]:
    """Yield every memory source, tried on one of the user's own processes.

    Sources of NPU memory come only if there is an NPU.
    """
    if not pss_readable(host, pid):
        yield MemorySource("PSS", False, Message("pss_unreadable"))
        return
    has_statm = bool(read_text(host, f"/proc/{pid}/statm"))
    yield MemorySource("/proc/PID/statm", has_statm, Message("resident_counter"))
    yield _source("/proc/PID/smaps_rollup", rollup_readable(host, pid), "smaps_rollup")
    has_pss_parts = read_process(host, pid).pss_anon_bytes is not None
    yield _source("Pss_Anon, Pss_File, Pss_Shmem", has_pss_parts, "pss_by_kind")
    yield _source("/proc/PID/clear_refs", reset_peak(host, pid), "peak_reset")
    try:
        system = read_system(host)
    except SamplerError:
        yield _source("/proc/meminfo", False, "system_memory")
        return

    yield _source("/proc/meminfo", True, "system_memory")
    group = GroupWatch(host, pid).read()
    if group:
        left = f"{group.available_bytes / _MIB:.1f}"
        limit = f"{group.limit_bytes / _MIB:.1f}"
        remark = Message("memory_limit", {"limit": limit, "left": left})
        yield MemorySource(group.limit_source, True, remark)
    yield _source("CmaTotal, CmaFree", system.cma_total_bytes is not None, "cma")
    if has_rknpu(host):
        yield _source("/proc/PID/fdinfo", process_dmabufs(host, pid) is not None, "process_dmabufs")
        yield _best(SYSTEM_DMABUF, "system_dmabufs", host)
        yield _best(RK_DMA_HEAP, "rk_dma_heaps", host)
        yield _best(SRAM, "npu_sram", host)
        return
    for npu in mainline_npus(host):
        is_told = tells_memory(npu.driver)
        yield _source(f"/proc/PID/fdinfo of {npu.node}", is_told, "npu_fdinfo", driver=npu.driver)


def machine_sources(host: Host) -> Iterator[MemorySource]:
    """Yield the sources of MachineWatch, except CPU use, which every Linux has.

    NPU load comes only if there is an NPU.
    """
    yield _gauges("/sys/class/thermal/thermal_zone*", temperatures(host), "temperatures", host)
    yield _gauges(
        "/sys/devices/system/cpu/cpufreq", core_frequencies(host), "core_frequencies", host
    )
    yield _gauges("/sys/class/devfreq", device_frequencies(host), "device_frequencies", host)
    yield _source("throttling", Throttling(host).readable, "throttling")
    if has_rknpu(host):
        yield _best(NPU_LOAD, "npu_load", host)


def _source(name: str, readable: bool, code: str, **missing: Value) -> MemorySource:
    """Return a source with the message `code`, or `CODE_missing` if it is not readable."""
    remark = Message(code) if readable else Message(f"{code}_missing", missing)
    return MemorySource(name, readable, remark)


def _gauges(path: str, gauges: Sequence[Gauge], code: str, host: Host) -> MemorySource:
    texts = read_texts(host, [gauge.path for gauge in gauges])
    for gauge in gauges:
        gauge.take(texts)
    return _source(path, any(gauge.figures.count for gauge in gauges), code)


def _best(sources: Sequence[FileSource[Any]], code: str, host: Host) -> MemorySource:
    """Return the source in use, of several with the same figure.

    If none is readable, return a source that the user's rights forbid, or the first one, and its
    reason.
    """
    used = first_readable(sources, host)
    if used:
        return _source(used.path, True, code)
    refused = next((source for source in sources if source.refusal(host)), None)
    nearest = refused or sources[0]
    return _source(nearest.path, False, code, reason=nearest.refusal(host) or nearest.absent)
