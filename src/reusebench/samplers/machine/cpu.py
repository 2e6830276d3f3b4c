"""CPU use over a whole run: of the cores, the measured process and the reading process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from reusebench.samplers.cpu_time import CPU_TIME, CpuTime, core_times, times_between
from reusebench.samplers.readings import CpuUse

__all__ = ["CpuMeter"]

#: USER_HZ of this machine; 100 on all Rockchip boards and on x86.
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: utime and stime, fields 14 and 15 of proc(5), counted from the first field after the name.
_UTIME = 11
_STIME = 12


class _Reading(NamedTuple):
    time_ns: int
    ticks: int


class _ProcessTime:
    """CPU time of one process and all its threads, ended ones included, without child processes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._first: _Reading | None = None
        self._last: _Reading | None = None

    def take(self, stat: str, time_ns: int) -> None:
        # The name in parentheses may hold spaces and parentheses. If the process has gone, there
        # are no fields.
        fields = stat.rpartition(")")[2].split()
        if fields:
            self._last = _Reading(time_ns, int(fields[_UTIME]) + int(fields[_STIME]))
            self._first = self._first or self._last

    def mean_percent(self) -> float:
        """Return the mean from the first to the last successful reading; 100 is one core."""
        if self._first is None or self._last is None:
            return 0.0
        if self._last.time_ns <= self._first.time_ns:
            return 0.0
        seconds = (self._last.time_ns - self._first.time_ns) / 1e9
        return 100 * (self._last.ticks - self._first.ticks) / _TICKS_PER_S / seconds


class CpuMeter:
    """CPU use in percent; 100 is one core. `paths` are the files that it needs."""

    def __init__(self, pid: int) -> None:
        """Begin with the measured process `pid`."""
        self._process = _ProcessTime(f"/proc/{pid}/stat")
        # The reading process uses the CPU as well: the harness, or the reader on a remote board.
        self._harness = _ProcessTime("/proc/self/stat")
        self._before: dict[int, CpuTime] = {}
        self._sums: dict[int, CpuTime] = {}
        self.paths = [CPU_TIME, self._process.path, self._harness.path]

    def take(self, texts: Mapping[str, str], time_ns: int) -> None:
        """Add one reading, made at `time_ns` of the machine's monotonic clock."""
        now = core_times(texts.get(CPU_TIME, ""))
        for core, spent in times_between(self._before, now).items():
            self._sums[core] = self._sums.get(core, CpuTime()).plus(spent)
        self._before = now
        for process in (self._process, self._harness):
            process.take(texts.get(process.path, ""), time_ns)

    def use(self) -> CpuUse:
        """Return the mean use.

        The mean of a core is over the time in which it was online; 0 if it never was.
        """
        core_count = max(self._sums, default=-1) + 1
        percents = [self._sums.get(core, CpuTime()).percent for core in range(core_count)]
        return CpuUse(
            cores_percent=tuple(percents),
            process_percent=self._process.mean_percent(),
            harness_percent=self._harness.mean_percent(),
        )
