"""Memory of the whole system from /proc/meminfo, and its noise before anything of ours runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from reusebench.samplers.cpu_time import CPU_TIME, CpuTime, core_times, times_between
from reusebench.samplers.host import Host, read_text
from reusebench.samplers.proc_files import parse_meminfo
from reusebench.samplers.readings import SystemMemory

__all__ = ["Idle", "observe_idle", "oom_kills", "read_system"]

_NOISE_INTERVAL_S = 0.02


def read_system(host: Host) -> SystemMemory:
    """Return one reading (14 us); raise SamplerError if /proc/meminfo lacks a key."""
    return parse_meminfo(read_text(host, "/proc/meminfo") or "")


def oom_kills(host: Host) -> int:
    """Return the number of processes that the kernel has killed for memory since boot.

    0 before Linux 4.13, which does not count them.
    """
    vmstat = read_text(host, "/proc/vmstat") or ""
    for line in vmstat.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0


@dataclass(frozen=True)
class Idle:
    """The activity of the machine while nothing of ours ran."""

    #: Half the range over which system memory moved: the ± of system figures.
    memory_noise_bytes: int
    #: Share of all CPUs' time that other work took.
    cpu_percent: float


def observe_idle(host: Host, seconds: float) -> Idle:
    """Watch the machine for `seconds`; clock ticks make cpu_percent exact to a few percent."""
    used_bytes = [read_system(host).used_bytes]
    before = _core_times(host)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_NOISE_INTERVAL_S)
        used_bytes.append(read_system(host).used_bytes)
    cpu = CpuTime()
    for core in times_between(before, _core_times(host)).values():
        cpu = cpu.plus(core)
    return Idle((max(used_bytes) - min(used_bytes)) // 2, cpu.percent)


def _core_times(host: Host) -> dict[int, CpuTime]:
    return core_times(read_text(host, CPU_TIME) or "")
