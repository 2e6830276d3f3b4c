"""The figures of the frames of streams, gathered while they run, in memory that does not grow with
time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from reusebench.harness.measuring.histogram import Histogram
from reusebench.measured.plan import Plan
from reusebench.measured.streams.threads import STAGES
from reusebench.samplers.machine.watch import MachineWatch
from reusebench.samplers.observer import Observer
from reusebench.storage.result import FrameCount, Series, StreamsRun
from reusebench.storage.trace import FrameTime, FrameTimes
from reusebench.targets.barriers import Frames, StreamCount

__all__ = ["FramesWatch"]

#: A point of the series for each second, or for such a share of the duration: an hour or a day
#: gives as many.
_POINTS = 1000
_SHORTEST_SEGMENT_S = 1.0
#: Messages come every second, give or take some milliseconds.
_EARLY_S = 0.1
#: So many latencies stand for all of them in pytest-benchmark's statistics.
_SAMPLED = 2000
#: So many frames from the start, and as many before the end, are in the trace with their times:
#: eight seconds of 4 streams at 30 frames a second.
_TRACED = 1000


class FramesWatch:
    """Takes the message of each second, and reads the machine beside it."""

    def __init__(self, plan: Plan, observer: Observer, computes: bool) -> None:
        """Take the plan, which has a schedule, and the process's observer; where nothing computes
        there is no speed.
        """
        assert plan.schedule is not None
        self._schedule = plan.schedule
        self._observer = observer
        self._computes = computes
        self._streams = [_Count() for _ in range(plan.schedule.count)]
        self._all = _Count()
        self._stages = {name: Histogram() for name in STAGES}
        self._sample = _Reservoir(_SAMPLED)
        self._times = _Ends(_TRACED)
        self._machine: MachineWatch | None = None
        self._points = _Points(max(_SHORTEST_SEGMENT_S, plan.schedule.duration_s / _POINTS))
        self._rss: list[int] = []
        self._heap: list[int] = []
        self.seconds = 0.0

    @property
    def lost(self) -> int:
        """How many were dropped or missed."""
        return self._all.dropped + self._all.missed

    def take(self, message: Frames) -> bool:
        """Take the message of a second; return whether the series got a further point."""
        rss_bytes = self._observer.take_recent()
        if not message.seconds:
            return False
        if self._machine is None:
            # Its first reading, and from here on those of memory: what came before was in part of
            # the warm-up.
            self._machine = MachineWatch(self._observer.host, self._observer.pid)
            rss_bytes = []
        self._machine.read()
        self.seconds = message.seconds
        self._take_counts(message)
        self._rss += rss_bytes
        if rss_bytes and message.heap_bytes is not None:
            self._heap.append(message.heap_bytes)
        if not self._rss or not self._points.is_due(self.seconds, self._schedule.duration_s):
            return False
        memory = (min(self._rss), min(self._heap, default=None), self._observer.npu_bytes())
        self._points.add(self.seconds, *memory, done=self._all.latency.count, lost=self.lost)
        self._rss = []
        self._heap = []
        return True

    def latencies_ns(self) -> list[int]:
        """Return the latencies of all frames, or a random sample of them where there are many."""
        return self._sample.values

    def times(self) -> FrameTimes | None:
        """Return the times of the first and the last frames; None if nothing computes."""
        return self._times.kept() if self._computes else None

    def summary(self, interrupted: bool) -> StreamsRun | None:
        """Return what is stored of one process; None before the steady state."""
        if not self.seconds or self._machine is None:
            return None
        computes = self._computes
        seconds = self.seconds
        stages_ns = {name: histogram.percentiles() for name, histogram in self._stages.items()}
        return StreamsRun(
            seconds=seconds,
            interrupted=interrupted,
            all=self._all.figures(seconds) if computes else None,
            streams=tuple(count.figures(seconds) for count in self._streams) if computes else None,
            stages_ns=stages_ns if computes else None,
            cpu=self._machine.cpu() if computes else None,
            machine=self._machine.machine(),
            series=self._points.series(computes),
        )

    def _take_counts(self, message: Frames) -> None:
        for count, stream in zip(self._streams, message.streams):
            count.dropped = stream.dropped
            count.missed = stream.missed
            for _, *stages_ns in stream.rows:
                latency_ns = sum(stages_ns)
                count.latency.add(latency_ns)
                self._all.latency.add(latency_ns)
                self._sample.add(latency_ns)
                for histogram, stage_ns in zip(self._stages.values(), stages_ns):
                    histogram.add(stage_ns)
        self._times.add(message.streams)
        self._all.dropped = sum(count.dropped for count in self._streams)
        self._all.missed = sum(count.missed for count in self._streams)


@dataclass
class _Count:
    """The frames of one stream, or of all."""

    dropped: int = 0
    missed: int = 0
    latency: Histogram = field(default_factory=Histogram)

    def figures(self, seconds: float) -> FrameCount:
        """Return what is stored; frames that are still on their way count as neither due nor
        done.
        """
        done = self.latency.count
        return FrameCount(
            due=done + self.dropped + self.missed,
            done=done,
            dropped=self.dropped,
            missed=self.missed,
            per_s=done / seconds,
            latency_ns=self.latency.percentiles(),
        )


class _Points:
    """Points over time, each of a segment. Memory is the lowest reading: frames on their way only
    add to it.
    """

    def __init__(self, segment_s: float) -> None:
        self._segment_s = segment_s
        self._done = self._lost = 0
        self._seconds: list[float] = []
        self._rss_bytes: list[int] = []
        self._heap_bytes: list[int | None] = []
        self._npu_memory_bytes: list[int | None] = []
        self._done_per_s: list[float] = []
        self._lost_per_s: list[float] = []

    def is_due(self, seconds: float, duration_s: float) -> bool:
        """Whether it is time for a further point; the last segment may be shorter, but not by
        much.
        """
        since_s = seconds - (self._seconds[-1] if self._seconds else 0.0)
        return since_s >= (
            self._segment_s - _EARLY_S if seconds < duration_s else self._segment_s / 2
        )

    def add(
        self, seconds: float, rss: int, heap: int | None, npu: int | None, *, done: int, lost: int
    ) -> None:
        """Add the segment that ends here, memory in bytes; the counts are from the beginning."""
        passed_s = seconds - (self._seconds[-1] if self._seconds else 0.0)
        self._seconds.append(round(seconds, 3))
        self._rss_bytes.append(rss)
        self._heap_bytes.append(heap)
        self._npu_memory_bytes.append(npu)
        self._done_per_s.append(round((done - self._done) / passed_s, 2))
        self._lost_per_s.append(round((lost - self._lost) / passed_s, 2))
        self._done = done
        self._lost = lost

    def series(self, computes: bool) -> Series:
        """Return the points; None for a list without any figure."""
        return Series(
            seconds=tuple(self._seconds),
            rss_bytes=tuple(self._rss_bytes),
            heap_bytes=_known(self._heap_bytes),
            npu_memory_bytes=_known(self._npu_memory_bytes),
            done_per_s=tuple(self._done_per_s) if computes else None,
            lost_per_s=tuple(self._lost_per_s) if computes else None,
        )


def _known(values: Sequence[int | None]) -> tuple[int | None, ...] | None:
    return None if set(values) == {None} else tuple(values)


class _Ends:
    """The first and the last frames of all streams, so many of each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        self._first: list[FrameTime] = []
        self._last: deque[FrameTime] = deque(maxlen=size)

    def add(self, streams: Sequence[StreamCount]) -> None:
        """Take the frames of a message in, in the order in which they were due."""
        rows = [(row, stream) for stream, count in enumerate(streams) for row in count.rows]
        for row, stream in sorted(rows):
            self._count += 1
            (self._first if self._count <= self._size else self._last).append(
                FrameTime(stream, row[0], row[1:])
            )

    def kept(self) -> FrameTimes:
        """Return the frames, and how many between them are not kept."""
        return FrameTimes(
            self._first, list(self._last), self._count - len(self._first) - len(self._last)
        )


class _Reservoir:
    """A random sample of fixed size: every value has the same chance to be in it (Vitter's
    algorithm R, 1985).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen = 0
        self._random = random.Random(0)
        self.values: list[int] = []

    def add(self, value: int) -> None:
        """Take the value in, perhaps instead of another."""
        self._seen += 1
        if len(self.values) < self._size:
            self.values.append(value)
            return
        index = self._random.randrange(self._seen)
        if index < self._size:
            self.values[index] = value
