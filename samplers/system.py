"""Memory of the whole system from /proc/meminfo, and how much it moves while nothing of ours runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from samplers.procfs import parse_sizes

__all__ = ["SystemMemory", "idle_noise_bytes", "read_system", "used_bytes"]

_MEMINFO = Path("/proc/meminfo")
_NOISE_INTERVAL_S = 0.02


@dataclass(frozen=True)
class SystemMemory:
    """One reading of /proc/meminfo. None: this kernel has no such line (Cma* without CONFIG_CMA)."""

    total_bytes: int
    free_bytes: int
    #: The kernel's estimate of what a new process could take without swapping; mapped files count as available.
    available_bytes: int
    cached_bytes: int
    slab_bytes: int
    shmem_bytes: int
    swap_free_bytes: int
    cma_total_bytes: int | None
    cma_free_bytes: int | None

    @property
    def used_bytes(self) -> int:
        """MemTotal - MemAvailable: "system memory" in the tables, and `used` of recent `free`."""
        return self.total_bytes - self.available_bytes


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


def idle_noise_bytes(seconds: float) -> int:
    """Return half the range over which system memory moves in that time: the +- of system figures."""
    readings = [used_bytes()]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_NOISE_INTERVAL_S)
        readings.append(used_bytes())
    return (max(readings) - min(readings)) // 2
