"""The observer of one measured process: full readings at barriers, cheap ones between them."""

from __future__ import annotations

import time
from array import array
from collections import deque

import msgspec

from samplers.npu import NpuSources
from samplers.process import ResidentCounter, read_process, reset_peak
from samplers.readings import Reading
from samplers.system import read_system, used_bytes

__all__ = ["Observer", "SampledTimeline"]

#: /proc/meminfo costs 14 us and moves slowly: the timeline reads it this much less often than statm.
_SYSTEM_EVERY = 10
#: A timeline with so many readings loses every second one, and takes half as many from then on: four minutes at 200 Hz.
_MOST_READINGS = 50_000
#: Readings that are kept until take_recent.
_RECENT = 1000


class SampledTimeline:
    """Cheap readings in order: time (ns, monotonic), RSS (bytes), system memory in use (bytes).

    Its size is bounded: a long run has fewer readings per second.
    """

    def __init__(self) -> None:
        self._every = 1
        self._offered = 0
        self.times_ns = array("q")
        self.rss_bytes = array("q")
        self.system_bytes = array("q")

    def __len__(self) -> int:
        return len(self.times_ns)

    def add(self, time_ns: int, rss_bytes: int, system_bytes: int) -> None:
        """Append one reading; in a long timeline only some."""
        self._offered += 1
        if self._offered % self._every:
            return
        self.times_ns.append(time_ns)
        self.rss_bytes.append(rss_bytes)
        self.system_bytes.append(system_bytes)
        if len(self) >= _MOST_READINGS:
            self._every *= 2
            for readings in (self.times_ns, self.rss_bytes, self.system_bytes):
                del readings[1::2]


class Observer:
    """Reads one process, `pid`, for as long as it lives; `interval_s` is the time between cheap readings."""

    def __init__(self, sample_hz: float, npu: NpuSources | None = None) -> None:
        """Take the rate of cheap readings, and where NPU memory can be read on a board that has an NPU."""
        self.interval_s = 1 / sample_hz
        self._npu = npu
        self.timeline = SampledTimeline()
        self._counter: ResidentCounter | None = None
        self.pid = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._samples = 0
        self._system_bytes = 0
        self._peak_is_of_phase = True

    def attach(self, pid: int) -> None:
        """Begin with this process."""
        self.pid = pid
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
        if self._samples % _SYSTEM_EVERY == 0:
            self._system_bytes = used_bytes()
        self._samples += 1
        self._recent.append(rss_bytes)
        self.timeline.add(time.monotonic_ns(), rss_bytes, self._system_bytes)

    def take_recent(self) -> list[int]:
        """Return the RSS of the cheap readings since the last call, in bytes."""
        recent = list(self._recent)
        self._recent.clear()
        return recent

    def npu_bytes(self) -> int | None:
        """Return the NPU memory that the process holds now; None where that cannot be read."""
        return self._npu.read(self.pid).process_dmabuf_bytes if self._npu else None

    def snapshot(self) -> Reading:
        """Take one full reading of the process, which stands at a barrier, and start a new phase for its peak."""
        process = read_process(self.pid)
        if not self._peak_is_of_phase:
            process = msgspec.structs.replace(process, peak_rss_bytes=None)
        self._peak_is_of_phase = reset_peak(self.pid)
        return Reading(process, read_system(), self._npu.read(self.pid) if self._npu else None)
