"""Memory of the whole system from /proc/meminfo, and how much it moves before anything of ours runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from samplers.files import parse_sizes
from samplers.readings import SystemMemory

__all__ = ["Idle", "observe_idle", "oom_kills", "read_system", "used_bytes"]

_MEMINFO = Path("/proc/meminfo")
_VMSTAT = Path("/proc/vmstat")
_NOISE_INTERVAL_S = 0.02


def read_system(meminfo: Path = _MEMINFO) -> SystemMemory:
    """Return one reading (14 us)."""
    sizes = parse_sizes(meminfo.read_text())
    return SystemMemory(
        total_bytes=sizes["MemTotal"],
        free_bytes=sizes["MemFree"],
        available_bytes=sizes["MemAvailable"],
        cached_bytes=sizes["Cached"],
        slab_bytes=sizes["Slab"],
        shmem_bytes=sizes["Shmem"],
        swap_free_bytes=sizes["SwapFree"],
        cma_total_bytes=sizes.get("CmaTotal"),
        cma_free_bytes=sizes.get("CmaFree"),
    )


def used_bytes() -> int:
    """Return the system memory in use now."""
    return read_system().used_bytes


def oom_kills(vmstat: Path = _VMSTAT) -> int:
    """Return how many processes the kernel has killed for memory since boot (Linux 4.13; 0 where not counted)."""
    counts = dict(line.split() for line in vmstat.read_text().splitlines())
    return int(counts.get("oom_kill", 0))


@dataclass(frozen=True)
class Idle:
    """What the machine did while nothing of ours ran."""

    #: Half the range over which system memory moved: the +- of system figures.
    memory_noise_bytes: int
    #: Share of all CPUs' time that other work took.
    cpu_percent: float


def observe_idle(seconds: float) -> Idle:
    """Watch the machine for that time; the scheduler's clock ticks make cpu_percent exact to some percent."""
    readings, before = [used_bytes()], psutil.cpu_times()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_NOISE_INTERVAL_S)
        readings.append(used_bytes())
    return Idle((max(readings) - min(readings)) // 2, _busy_percent(before, psutil.cpu_times()))


def _busy_percent(before: Any, after: Any) -> float:
    """Return the share of time that was neither idle nor waiting for a disk between two psutil.cpu_times()."""
    spent = {
        name: getattr(after, name) - getattr(before, name) for name in ("user", "nice", "system", "irq", "softirq")
    }
    resting = sum(getattr(after, name) - getattr(before, name) for name in ("idle", "iowait"))
    busy = sum(spent.values())
    return 100 * busy / (busy + resting) if busy + resting > 0 else 0.0
