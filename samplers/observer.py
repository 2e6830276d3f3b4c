"""The observer of one measured process: full readings at barriers, cheap ones between them."""

from __future__ import annotations

import time
from array import array
from dataclasses import asdict
from typing import Any

from samplers.npu import NpuSources
from samplers.process import ResidentCounter, read_process, reset_peak
from samplers.system import read_system, used_bytes

__all__ = ["Observer", "Timeline"]

#: /proc/meminfo costs 14 us and moves slowly: the timeline reads it this much less often than statm.
_SYSTEM_EVERY = 10


class Timeline:
    """Cheap readings in order: time (ns, monotonic), RSS (bytes), system memory in use (bytes)."""

    def __init__(self) -> None:
        self.times_ns = array("q")
        self.rss_bytes = array("q")
        self.system_bytes = array("q")

    def __len__(self) -> int:
        return len(self.times_ns)

    def add(self, time_ns: int, rss_bytes: int, system_bytes: int) -> None:
        """Append one reading."""
        self.times_ns.append(time_ns)
        self.rss_bytes.append(rss_bytes)
        self.system_bytes.append(system_bytes)


class Observer:
    """Reads one process for as long as it lives; `interval_s` is the time between cheap readings."""

    def __init__(self, sample_hz: float, npu: NpuSources | None = None) -> None:
        """Take the rate of cheap readings, and where NPU memory can be read on a board that has an NPU."""
        self.interval_s = 1 / sample_hz
        self._npu = npu
        self.timeline = Timeline()
        self._counter: ResidentCounter | None = None
        self._pid = 0
        self._system_bytes = 0
        self._peak_is_of_phase = True

    def attach(self, pid: int) -> None:
        """Begin with this process."""
        self._pid = pid
        self._counter = ResidentCounter(pid)

    def detach(self) -> None:
        """End; what was read stays."""
        if self._counter is not None:
            self._counter.close()
            self._counter = None

    def sample(self) -> None:
        """Take one cheap reading for the timeline."""
        assert self._counter is not None
        rss_bytes = self._counter.read_bytes()
        if rss_bytes is None:
            return
        if len(self.timeline) % _SYSTEM_EVERY == 0:
            self._system_bytes = used_bytes()
        self.timeline.add(time.monotonic_ns(), rss_bytes, self._system_bytes)

    def snapshot(self) -> dict[str, Any]:
        """Take one full reading of the process, which stands at a barrier, and start a new phase for its peak."""
        process = asdict(read_process(self._pid))
        if not self._peak_is_of_phase:
            process["peak_rss_bytes"] = None
        self._peak_is_of_phase = reset_peak(self._pid)
        reading = {"process": process, "system": asdict(read_system())}
        return {**reading, "npu": asdict(self._npu.read(self._pid))} if self._npu else reading
