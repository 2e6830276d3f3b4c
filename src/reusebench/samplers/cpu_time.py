"""CPU time of the cores from /proc/stat, in clock ticks.

A core is busy while it runs user or kernel code or serves interrupts (user, nice, system, irq and
softirq of proc(5); guest time is part of user). It rests in idle and iowait. Time that a hypervisor
gave to others (steal) is left out: 100 % is the time that this machine had. A tick is usually 10
ms, so a share over a second is exact to a few percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CPU_TIME", "CpuTime", "core_times", "times_between"]

CPU_TIME = "/proc/stat"


@dataclass(frozen=True)
class CpuTime:
    """CPU time of one core or several."""

    busy_ticks: int = 0
    resting_ticks: int = 0

    def since(self, before: CpuTime) -> CpuTime:
        """Return the time since an earlier reading; a decrease (iowait, proc(5)) counts as 0."""
        busy = self.busy_ticks - before.busy_ticks
        resting = self.resting_ticks - before.resting_ticks
        return CpuTime(max(0, busy), max(0, resting))

    def plus(self, other: CpuTime) -> CpuTime:
        """Return the sum."""
        return CpuTime(self.busy_ticks + other.busy_ticks, self.resting_ticks + other.resting_ticks)

    @property
    def percent(self) -> float:
        """The busy share; 0 if there was no time."""
        all_ticks = self.busy_ticks + self.resting_ticks
        return 100 * self.busy_ticks / all_ticks if all_ticks else 0.0


def core_times(stat: str) -> dict[int, CpuTime]:
    """Return the times of the online cores, from lines `cpu3 10132153 290696 ...` of /proc/stat."""
    cores = {}
    for line in stat.splitlines():
        name, *fields = line.split()
        if not name.startswith("cpu"):
            break  # the cores come first; hundreds of interrupts follow
        if name != "cpu":
            core = int(name[3:])
            user, nice, system, idle, iowait, irq, softirq = map(int, fields[:7])
            busy_ticks = user + nice + system + irq + softirq
            cores[core] = CpuTime(busy_ticks, idle + iowait)
    return cores


def times_between(
    before: Mapping[int, CpuTime], after: Mapping[int, CpuTime]
) -> dict[int, CpuTime]:
    """Return the time of each core that was online at both readings."""
    times = {}
    for core in after.keys() & before.keys():
        times[core] = after[core].since(before[core])
    return times
