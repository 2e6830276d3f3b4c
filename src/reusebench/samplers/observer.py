"""The observer of one measured process: full readings at barriers, cheap ones between them."""

from __future__ import annotations

import contextlib
from array import array
from collections import deque

import msgspec

from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.host import Host, Sampler
from reusebench.samplers.npu import NpuSources
from reusebench.samplers.pressure import PressureWatch
from reusebench.samplers.process_memory import read_process, reset_peak
from reusebench.samplers.readings import Reading
from reusebench.samplers.system_memory import read_system

__all__ = ["Observer", "SampledTimeline"]

#: Limit of a timeline, four minutes at 200 Hz. At the limit every second reading is dropped, and
#: half as many are kept from then on.
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
        """Append one reading, or skip it if the timeline is long."""
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
    """Reads one process, `pid`, of a host for its whole life."""

    def __init__(self, host: Host, sample_hz: float, npu: NpuSources | None = None) -> None:
        """`npu` has the sources of NPU memory, if the board has an NPU."""
        self.host = host
        self._interval_s = 1 / sample_hz
        self._npu = npu
        self.timeline = SampledTimeline()
        self._sampler: Sampler | None = None
        self._pressure: PressureWatch | None = None
        #: None without a limit.
        self._groups: GroupWatch | None = None
        self.pid = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self._peak_is_of_phase = True

    @property
    def interval_s(self) -> float:
        """The time between cheap readings."""
        return self._interval_s

    @interval_s.setter
    def interval_s(self, interval_s: float) -> None:
        self._interval_s = interval_s
        if self._sampler is not None:
            self._sampler.set_interval(interval_s)

    def attach(self, pid: int) -> None:
        """Begin with a process; if it has already gone, there are no samples and no snapshot."""
        self.pid = pid
        self._pressure = PressureWatch(self.host, pid)
        groups = GroupWatch(self.host, pid)
        self._groups = groups if groups.read() else None
        with contextlib.suppress(ProcessLookupError):
            self._sampler = self.host.sampler(pid, self._interval_s)

    def detach(self) -> None:
        """End the sampling; the readings stay."""
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    def sample(self) -> None:
        """Add a cheap reading to the timeline, or all that have come from a remote host."""
        if self._sampler is None:
            return
        for sample in self._sampler.take():
            self._recent.append(sample.rss_bytes)
            self.timeline.add(*sample)

    def take_recent(self) -> list[int]:
        """Return the RSS of the cheap readings since the last call, in bytes."""
        recent = list(self._recent)
        self._recent.clear()
        return recent

    def npu_bytes(self) -> int | None:
        """Return the NPU memory that the process holds now; None if that cannot be read."""
        return self._npu.read(self.pid).process_bytes if self._npu else None

    def snapshot(self) -> Reading:
        """Take a full reading of the process, which waits at a barrier; reset its peak."""
        with_dmabufs = self._npu is None or bool(self._npu.nodes)
        process = read_process(self.host, self.pid, with_dmabufs=with_dmabufs)
        if not self._peak_is_of_phase:
            process = msgspec.structs.replace(process, peak_rss_bytes=None)
        self._peak_is_of_phase = reset_peak(self.host, self.pid)
        system = read_system(self.host)
        npu = self._npu.read(self.pid) if self._npu else None
        pressure = self._pressure.read() if self._pressure else None
        group = self._groups.read() if self._groups else None
        return Reading(process, system, npu, pressure, group)
