"""Readings of memory and of the machine, as plain data.

A field is None if this kernel, board or user cannot read it.
"""

from __future__ import annotations

from typing import Optional

import msgspec

from reusebench.measured.messages import Message

__all__ = [
    "CpuUse",
    "Environment",
    "Frequency",
    "GroupMemory",
    "MachineState",
    "MemorySource",
    "NpuLoad",
    "NpuMemory",
    "Pressure",
    "ProcessMemory",
    "Reading",
    "SystemMemory",
    "Temperature",
    "Throttle",
]


class ProcessMemory(msgspec.Struct, frozen=True):
    """Memory of one process, and of the processes that it has started.

    USS <= PSS <= distinct <= RSS.
    """

    #: Pages of the process in memory; a file mapped N times in one process counts N times.
    rss_bytes: int
    #: RSS with shared pages divided by the number of their mappings in all processes.
    pss_bytes: int
    #: Pages that no other process maps.
    uss_bytes: int
    swap_bytes: int
    #: The three parts of PSS.
    pss_anon_bytes: Optional[int]
    pss_file_bytes: Optional[int]
    pss_shmem_bytes: Optional[int]
    #: The three parts of RSS, as the kernel counts them (exact within some pages per CPU).
    rss_anon_bytes: Optional[int]
    rss_file_bytes: Optional[int]
    rss_shmem_bytes: Optional[int]
    #: Highest RSS since the last reset_peak.
    peak_rss_bytes: Optional[int]
    #: The process's own, without those of its children; so are the threads and the limit.
    fd_count: int
    thread_count: int
    #: Most file descriptors that the process may have open (RLIMIT_NOFILE).
    fd_limit: Optional[int] = None
    #: Pages in memory, each once, however many mappings it has here and whoever else maps it:
    #: "application memory". None if it cannot be read, and in readings before it was.
    distinct_bytes: Optional[int] = None
    #: Pages of hugetlbfs, which are in no other figure.
    hugetlb_bytes: int = 0
    #: Memory of files that it holds and does not map (memfds, files of tmpfs), which is in no other
    #: figure; None if it cannot be read.
    held_file_bytes: Optional[int] = None
    #: dma-bufs that it holds on a machine without an NPU; None otherwise, as NpuMemory has them.
    dmabuf_bytes: Optional[int] = None
    #: Its pipes and sockets, whose memory cannot be counted, and descriptors not looked at.
    uncounted_fd_count: int = 0
    #: Processes below it whose memory is in the sums.
    child_count: int = 0
    #: Part of pss_bytes that is theirs.
    child_pss_bytes: int = 0
    #: Processes below it whose memory this user may not read.
    unread_child_count: int = 0
    #: Processes below it that have ended and that their parents have not waited for.
    zombie_count: int = 0


class SystemMemory(msgspec.Struct, frozen=True):
    """Memory of the whole system, from /proc/meminfo. Cma* is None without CONFIG_CMA."""

    total_bytes: int
    free_bytes: int
    #: The kernel's estimate of the memory that a new process could take without swapping; mapped
    #: files count as available.
    available_bytes: int
    cached_bytes: int
    slab_bytes: int
    shmem_bytes: int
    swap_free_bytes: int
    cma_total_bytes: Optional[int]
    cma_free_bytes: Optional[int]

    @property
    def used_bytes(self) -> int:
        """MemTotal - MemAvailable: "system memory" in the tables, and `used` of recent `free`."""
        return self.total_bytes - self.available_bytes


class NpuMemory(msgspec.Struct, frozen=True):
    """Memory of the NPU, except CMA, which is in SystemMemory."""

    #: dma-bufs that the process holds; one with several descriptors and mappings counts once.
    process_dmabuf_bytes: Optional[int]
    process_dmabuf_count: Optional[int]
    #: The same bytes by exporter: "drm" for the NPU driver, or the name of a DMA heap.
    process_dmabuf_bytes_by_exporter: Optional[dict[str, int]]
    #: dma-bufs of all processes and drivers.
    system_dmabuf_bytes: Optional[int]
    #: Path of the source file.
    system_dmabuf_source: Optional[str]
    #: Memory given out by Rockchip's DMA heaps; its dma-bufs are in system_dmabuf_bytes as well.
    rk_dma_heap_bytes: Optional[int]
    #: SRAM of the NPU taken by all processes; it is no part of the system's memory.
    sram_used_bytes: Optional[int]
    sram_total_bytes: Optional[int]
    #: Buffers of the process's open files of a device with a driver of mainline Linux, whether or
    #: not they have pages yet; None with Rockchip's driver, and if the driver does not tell.
    process_drm_bytes: Optional[int] = None
    #: Part of them that has pages.
    process_drm_resident_bytes: Optional[int] = None
    #: Part of them that another open file has as well; if both are counted here, it counts twice.
    process_drm_shared_bytes: Optional[int] = None

    @property
    def process_bytes(self) -> Optional[int]:
        """Buffers of the process: dma-bufs, or those of a driver of mainline Linux."""
        if self.process_dmabuf_bytes is not None:
            return self.process_dmabuf_bytes
        return self.process_drm_bytes


class GroupMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the control group of a process, if it or one above it has a limit."""

    #: The tightest limit of the group and of all above it.
    limit_bytes: int
    #: The file that has it.
    limit_source: str
    #: Memory that can still be charged before any limit of these groups, if page cache is dropped.
    available_bytes: int
    #: Memory that the kernel charges to the process's own group, whoever caused it: the following
    #: parts, and parts that the kernel does not tell.
    charged_bytes: int
    anon_bytes: Optional[int] = None
    #: Page cache of files that processes of the group were the first to read or write.
    file_bytes: Optional[int] = None
    #: Files of tmpfs, memfds and shared memory.
    shmem_bytes: Optional[int] = None
    kernel_bytes: Optional[int] = None
    #: Page cache that was not used of late.
    inactive_file_bytes: Optional[int] = None

    @property
    def counted_bytes(self) -> int:
        """The count of `docker stats` and `kubectl top`: all but inactive page cache."""
        return max(0, self.charged_bytes - (self.inactive_file_bytes or 0))


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence of short memory, counted from the start of the process."""

    #: Page faults of the process that waited for a disk or for swap, including first loads of
    #: files.
    major_faults: Optional[int] = None
    #: Evicted pages that were read again, including those evicted before the start.
    refaulted_file_bytes: Optional[int] = None
    #: The same for anonymous pages.
    refaulted_anon_bytes: Optional[int] = None
    #: Scope of the refaults: "cgroup" for the process's control group, or "system".
    refaults_of: Optional[str] = None
    swapped_in_bytes: Optional[int] = None
    swapped_out_bytes: Optional[int] = None
    #: Memory that the kernel took back from any process in use of it, or from the page cache.
    reclaimed_bytes: Optional[int] = None
    #: Scope of what was taken back, as in refaults_of.
    reclaims_of: Optional[str] = None
    #: Time in which at least one process waited for memory (PSI).
    stalled_some_ns: Optional[int] = None
    #: Time in which all runnable processes did.
    stalled_full_ns: Optional[int] = None
    #: Scope of the stalls, as in refaults_of.
    stalls_of: Optional[str] = None


class Reading(msgspec.Struct, frozen=True):
    """All readings of one moment."""

    process: ProcessMemory
    system: SystemMemory
    #: None on a machine without an NPU.
    npu: Optional[NpuMemory] = None
    pressure: Optional[Pressure] = None
    #: None without a limit.
    group: Optional[GroupMemory] = None


class CpuUse(msgspec.Struct, frozen=True):
    """Mean CPU use over a time, in percent; 100 is one core."""

    cores_percent: tuple[float, ...]
    process_percent: float
    harness_percent: float


class Temperature(msgspec.Struct, frozen=True):
    """One thermal zone over a time."""

    name: str
    first_celsius: float
    highest_celsius: float
    last_celsius: float


class Frequency(msgspec.Struct, frozen=True):
    """One clock over a time."""

    name: str
    lowest_hz: float
    mean_hz: float
    highest_hz: float


class NpuLoad(msgspec.Struct, frozen=True):
    """Load of one core of the NPU over a time, in percent."""

    core: int
    mean: float
    highest: float


class Throttle(msgspec.Struct, frozen=True):
    """Something that slowed the machine down."""

    name: str
    #: "cooling_device", "thermal_throttle" or "firmware".
    kind: str
    #: Share of the readings in which it did.
    share_percent: float


class MachineState(msgspec.Struct, frozen=True):
    """The state of the machine during a run."""

    temperatures: tuple[Temperature, ...]
    frequencies: tuple[Frequency, ...]
    #: None if it cannot be read.
    npu_load_percent: Optional[tuple[NpuLoad, ...]]
    #: None if it cannot be read.
    throttled: Optional[tuple[Throttle, ...]]


class MemorySource(msgspec.Struct, frozen=True):
    """One source of figures on this machine."""

    #: The file, or the keys in it.
    name: str
    readable: bool
    #: Its purpose, or what is missing without it.
    remark: Message


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a machine that affect memory and speed, and stay the same from run to run."""

    board: str
    board_model: Optional[str] = None
    #: Strings of the device tree, most specific first: `radxa,rock-5b`, `rockchip,rk3588`.
    board_compatible: Optional[tuple[str, ...]] = None
    npu_driver_version: Optional[str] = None
    memory_total_bytes: int
    #: The tightest limit of the control groups of a process started there; None if there is none.
    memory_limit_bytes: Optional[int] = None
    cma_total_bytes: Optional[int] = None
    page_size_bytes: int
    usable_cpus: int
    cpu_governor: Optional[str] = None
    cpu_max_khz: Optional[str] = None
    transparent_hugepages: Optional[str] = None
    overcommit_memory: Optional[str] = None
    address_randomisation: Optional[str] = None
    #: Number of swap areas in use.
    swaps: int
    #: Environment variables that affect allocators or thread pools.
    variables: dict[str, str]
    memory_sources: tuple[MemorySource, ...] = ()
    #: Remote board only: RSS of the reader, which runs in addition to the measured process.
    reader_bytes: Optional[int] = None
    #: Virtual board only: why the library ran unsandboxed; None if it was sandboxed.
    exposure: Optional[str] = None
