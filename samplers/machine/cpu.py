"""CPU use of the cores, of the measured process and of this one, over the whole time.

A core is busy while it runs user or kernel code or serves interrupts (user, nice, system, irq and softirq of proc(5);
guest time is part of user), and rests in idle and iowait. Time that a hypervisor gave to others (steal) counts as not
there: 100 % is all of the time that this machine had. All of it is counted in clock ticks, mostly of 10 ms: over a
second a figure is exact to some percent.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from samplers.files import read_text
from samplers.readings import CpuUse

__all__ = ["CpuMeter"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: utime and stime, counted from the state, the first field after the command's name (proc(5): 14 and 15, from 3).
_UTIME, _STIME = 11, 12


@dataclass(frozen=True)
class _Ticks:
    """Time of one core."""

    busy: int = 0
    resting: int = 0

    def since(self, before: _Ticks) -> _Ticks:
        """Return the time since that reading; what has decreased, as iowait may (proc(5)), counts as none."""
        return _Ticks(max(0, self.busy - before.busy), max(0, self.resting - before.resting))

    def plus(self, other: _Ticks) -> _Ticks:
        return _Ticks(self.busy + other.busy, self.resting + other.resting)

    @property
    def percent(self) -> float:
        """The share that was busy; 0 where the core had no time."""
        had = self.busy + self.resting
        return 100 * self.busy / had if had else 0.0


class _Reading(NamedTuple):
    time_ns: int
    ticks: int


class _ProcessTime:
    """CPU time of one process with all its threads, also those that have ended; without its child processes."""

    def __init__(self, pid: int, root: Path) -> None:
        self._path = root / "proc" / str(pid) / "stat"
        self._first: _Reading | None = None
        self._last: _Reading | None = None

    def read(self) -> None:
        # The name in brackets may hold blanks and brackets itself; of a process that has gone there are no fields.
        fields = (read_text(self._path) or "").rpartition(")")[2].split()
        if fields:
            self._last = _Reading(time.monotonic_ns(), int(fields[_UTIME]) + int(fields[_STIME]))
            self._first = self._first or self._last

    def mean_percent(self) -> float:
        """From the first reading to the last that there was; 100 is one core."""
        if self._first is None or self._last is None or self._last.time_ns <= self._first.time_ns:
            return 0.0
        seconds = (self._last.time_ns - self._first.time_ns) / 1e9
        return 100 * (self._last.ticks - self._first.ticks) / _TICKS_PER_S / seconds


class CpuMeter:
    """CPU use in percent; 100 is one core."""

    def __init__(self, pid: int, root: Path) -> None:
        """Take the measured process, and the tree that has proc/."""
        self._stat = root / "proc/stat"
        self._process = _ProcessTime(pid, root)
        self._harness = _ProcessTime(os.getpid(), root)
        self._before: dict[int, _Ticks] = {}
        self._sums: dict[int, _Ticks] = {}

    def read(self) -> None:
        """Take one reading."""
        now = _core_ticks(read_text(self._stat) or "")
        for core in now.keys() & self._before.keys():
            self._sums[core] = self._sums.get(core, _Ticks()).plus(now[core].since(self._before[core]))
        self._before = now
        self._process.read()
        self._harness.read()

    def use(self) -> CpuUse:
        """Return the means: of cores by their number, over the time that they were online; 0 for one that never was."""
        cores = range(max(self._sums, default=-1) + 1)
        return CpuUse(
            tuple(self._sums.get(core, _Ticks()).percent for core in cores),
            self._process.mean_percent(),
            self._harness.mean_percent(),
        )


def _core_ticks(stat: str) -> dict[int, _Ticks]:
    """Return the cores that are online, from lines `cpu3 10132153 290696 ...` of /proc/stat."""
    cores = {}
    for line in stat.splitlines():
        name, *fields = line.split()
        if not name.startswith("cpu"):
            break  # the cores come first; some hundred interrupts follow
        if name != "cpu":
            user, nice, system, idle, iowait, irq, softirq = map(int, fields[:7])
            cores[int(name[3:])] = _Ticks(user + nice + system + irq + softirq, idle + iowait)
    return cores
