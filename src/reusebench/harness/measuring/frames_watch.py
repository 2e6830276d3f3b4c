"""Figures of the frames of streams, gathered during the run in an amount of memory that does not
grow with time.
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

#: Most points of a series: a segment is a second, or this share of the duration if that is longer.
_POINTS = 1000
_SHORTEST_SEGMENT_S = 1.0
#: Messages come every second, give or take some milliseconds.
_EARLY_S = 0.1
#: Number of latencies that stand for all of them in pytest-benchmark's statistics.
_SAMPLED = 2000
#: Number of frames from the start, and from the end, that are in the trace with their times: eight
#: seconds of 4 streams at 30 frames a second.
_TRACED = 1000


class FramesWatch:
    """Takes the message of each second, and reads the machine at the same time."""

    def __init__(self, plan: Plan, observer: Observer, computes: bool) -> None:
        """Begin with a plan that has a schedule; if nothing computes, there is no speed."""
        assert plan.schedule is not None
        self._schedule = plan.schedule
        self._observer = observer
        self._computes = computes
        self._streams = [_Count() for _ in range(plan.schedule.count)]
        self._all = _Count()
        self._stages = {name: Histogram() for name in STAGES}
        self._sample = _Reservoir(_SAMPLED)
        self._ends = _Ends(_TRACED)
        self._machine: MachineWatch | None = None
        self._points = _Points(max(_SHORTEST_SEGMENT_S, plan.schedule.duration_s / _POINTS))
        #: Readings since the last point.
        self._rss_bytes: list[int] = []
        self._heap_bytes: list[int] = []
        #: Time since the steady state began.
        self.seconds = 0.0

    @property
    def lost(self) -> int:
        """Number of frames that were dropped or missed."""
        return self._all.dropped + self._all.missed

    def take(self, message: Frames) -> bool:
        """Take the message of a second; return whether the series has a new point."""
        rss_bytes = self._observer.take_recent()
        if not message.seconds:
            return False
        if self._machine is None:
            # The steady state begins: some of the readings until now are of the warm-up.
            self._machine = MachineWatch(self._observer.host, self._observer.pid)
            rss_bytes = []
        self._machine.read()
        self.seconds = message.seconds
        self._take_counts(message)
        self._rss_bytes += rss_bytes
        if rss_bytes and message.heap_bytes is not None:
            self._heap_bytes.append(message.heap_bytes)
        if not self._rss_bytes:
            return False
        if not self._points.is_due(self.seconds, self._schedule.duration_s):
            return False
        self._points.add(
            self.seconds,
            rss_bytes=min(self._rss_bytes),
            heap_bytes=min(self._heap_bytes, default=None),
            npu_bytes=self._observer.npu_bytes(),
            done=self._all.latency.count,
            lost=self.lost,
        )
        self._rss_bytes = []
        self._heap_bytes = []
        return True

    def latencies_ns(self) -> list[int]:
        """Return the latencies of all frames, or a random sample if there are many."""
        return self._sample.values

    def times(self) -> FrameTimes | None:
        """Return the times of the first and the last frames; None if nothing computes."""
        return self._ends.times() if self._computes else None

    def summary(self, interrupted: bool) -> StreamsRun | None:
        """Return the stored figures of one process; None before the steady state."""
        if not self.seconds or self._machine is None:
            return None
        machine = self._machine.machine()
        series = self._points.series(self._computes)
        if not self._computes:
            return StreamsRun(
                seconds=self.seconds,
                interrupted=interrupted,
                all=None,
                streams=None,
                stages_ns=None,
                cpu=None,
                machine=machine,
                series=series,
            )
        return StreamsRun(
            seconds=self.seconds,
            interrupted=interrupted,
            all=self._all.figures(self.seconds),
            streams=tuple(count.figures(self.seconds) for count in self._streams),
            stages_ns={name: stage.percentiles() for name, stage in self._stages.items()},
            cpu=self._machine.cpu(),
            machine=machine,
            series=series,
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
        self._ends.add(message.streams)
        self._all.dropped = sum(count.dropped for count in self._streams)
        self._all.missed = sum(count.missed for count in self._streams)


@dataclass
class _Count:
    """The frames of one stream, or of all."""

    dropped: int = 0
    missed: int = 0
    latency: Histogram = field(default_factory=Histogram)

    def figures(self, seconds: float) -> FrameCount:
        """Return the stored figures; frames that are still on their way do not count."""
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
    """The points of a series, each for a segment of time.

    Memory is the lowest reading of a segment: frames on their way only add to it.
    """

    def __init__(self, segment_s: float) -> None:
        self._segment_s = segment_s
        self._done = 0
        self._lost = 0
        self._seconds: list[float] = []
        self._rss_bytes: list[int] = []
        self._heap_bytes: list[int | None] = []
        self._npu_memory_bytes: list[int | None] = []
        self._done_per_s: list[float] = []
        self._lost_per_s: list[float] = []

    def is_due(self, seconds: float, duration_s: float) -> bool:
        """Whether the segment ends here; the last one may be shorter, down to a half."""
        least_s = self._segment_s / 2
        if seconds < duration_s:
            least_s = self._segment_s - _EARLY_S
        return self._passed_s(seconds) >= least_s

    def add(
        self,
        seconds: float,
        *,
        rss_bytes: int,
        heap_bytes: int | None,
        npu_bytes: int | None,
        done: int,
        lost: int,
    ) -> None:
        """Add the segment that ends here; `done` and `lost` are counted from the beginning."""
        passed_s = self._passed_s(seconds)
        self._seconds.append(round(seconds, 3))
        self._rss_bytes.append(rss_bytes)
        self._heap_bytes.append(heap_bytes)
        self._npu_memory_bytes.append(npu_bytes)
        self._done_per_s.append(round((done - self._done) / passed_s, 2))
        self._lost_per_s.append(round((lost - self._lost) / passed_s, 2))
        self._done = done
        self._lost = lost

    def series(self, computes: bool) -> Series:
        """Return the points; a list without figures is None."""
        return Series(
            seconds=tuple(self._seconds),
            rss_bytes=tuple(self._rss_bytes),
            heap_bytes=_none_if_unknown(self._heap_bytes),
            npu_memory_bytes=_none_if_unknown(self._npu_memory_bytes),
            done_per_s=tuple(self._done_per_s) if computes else None,
            lost_per_s=tuple(self._lost_per_s) if computes else None,
        )

    def _passed_s(self, seconds: float) -> float:
        last_s = self._seconds[-1] if self._seconds else 0.0
        return seconds - last_s


def _none_if_unknown(values: Sequence[int | None]) -> tuple[int | None, ...] | None:
    if set(values) == {None}:
        return None
    return tuple(values)


class _Ends:
    """The first and the last frames of all streams, up to `size` of each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        self._first: list[FrameTime] = []
        self._last: deque[FrameTime] = deque(maxlen=size)

    def add(self, streams: Sequence[StreamCount]) -> None:
        """Add the frames of a message, in the order in which they were due."""
        rows = []
        for stream, count in enumerate(streams):
            rows += [(row, stream) for row in count.rows]
        for row, stream in sorted(rows):
            self._count += 1
            frame = FrameTime(stream, row[0], row[1:])
            if self._count <= self._size:
                self._first.append(frame)
            else:
                self._last.append(frame)

    def times(self) -> FrameTimes:
        """Return the frames, and the number of those between that are left out."""
        left_out = self._count - len(self._first) - len(self._last)
        return FrameTimes(self._first, list(self._last), left_out)


class _Reservoir:
    """A random sample of fixed size, with an equal chance for all (Vitter's algorithm R, 1985)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen = 0
        self._random = random.Random(0)
        self.values: list[int] = []

    def add(self, value: int) -> None:
        """Add the value, perhaps instead of another."""
        self._seen += 1
        if len(self.values) < self._size:
            self.values.append(value)
            return
        index = self._random.randrange(self._seen)
        if index < self._size:
            self.values[index] = value
