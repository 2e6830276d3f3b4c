"""CPU use of the cores, of the measured process and of the process that reads it, over the whole
time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from reusebench.samplers.cpu_time import CPU_TIME, CpuTime, core_times, times_between
from reusebench.samplers.readings import CpuUse

__all__ = ["CpuMeter"]

#: Of this machine; on all that Rockchip makes, and on x86, it is 100 (USER_HZ).
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: utime and stime, counted from the state, the first field after the command's name (proc(5): 14
#: and 15, from 3).
_UTIME = 11
_STIME = 12


class _Reading(NamedTuple):
    time_ns: int
    ticks: int


class _ProcessTime:
    """CPU time of one process with all its threads, also those that have ended; without its child
    processes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._first: _Reading | None = None
        self._last: _Reading | None = None

    def take(self, stat: str, time_ns: int) -> None:
        # The name in brackets may hold blanks and brackets itself; of a process that has gone there
        # are no fields.
        fields = stat.rpartition(")")[2].split()
        if fields:
            self._last = _Reading(time_ns, int(fields[_UTIME]) + int(fields[_STIME]))
            self._first = self._first or self._last

    def mean_percent(self) -> float:
        """From the first reading to the last that there was; 100 is one core."""
        if self._first is None or self._last is None or self._last.time_ns <= self._first.time_ns:
            return 0.0
        seconds = (self._last.time_ns - self._first.time_ns) / 1e9
        return 100 * (self._last.ticks - self._first.ticks) / _TICKS_PER_S / seconds


class CpuMeter:
    """CPU use in percent; 100 is one core. It takes what was read of its `paths`."""

    def __init__(self, pid: int) -> None:
        """Take the measured process."""
        self._process = _ProcessTime(f"/proc/{pid}/stat")
        # Whoever reads weighs on the machine: the harness, or the reader on a far board.
        self._harness = _ProcessTime("/proc/self/stat")
        self._before: dict[int, CpuTime] = {}
        self._sums: dict[int, CpuTime] = {}
        self.paths = [CPU_TIME, self._process.path, self._harness.path]

    def take(self, texts: Mapping[str, str], time_ns: int) -> None:
        """Take one reading, of that time of the machine's monotonic clock."""
        now = core_times(texts.get(CPU_TIME, ""))
        for core, spent in times_between(self._before, now).items():
            self._sums[core] = self._sums.get(core, CpuTime()).plus(spent)
        self._before = now
        for process in (self._process, self._harness):
            process.take(texts.get(process.path, ""), time_ns)

    def use(self) -> CpuUse:
        """Return the means: of cores by their number, over the time that they were online; 0 for
        one that never was.
        """
        cores = range(max(self._sums, default=-1) + 1)
        return CpuUse(
            tuple(self._sums.get(core, CpuTime()).percent for core in cores),
            self._process.mean_percent(),
            self._harness.mean_percent(),
        )
