"""What becomes of the frames of a run of streams, gathered while it runs, in memory that does not grow with time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from accounting.trend import trend
from harness.measuring.histogram import Histogram
from samplers.machine.watch import MachineWatch
from samplers.observer import Observer
from scenarios.frames import STAGES
from scenarios.plan import Plan

__all__ = ["FramesWatch"]

#: A point of the series for each second, or for such a share of the duration: an hour or a day gives as many.
_POINTS = 1000
_SHORTEST_SEGMENT_S = 1.0
#: Messages come every second, give or take some milliseconds.
_EARLY_S = 0.1
#: So many latencies stand for all of them in pytest-benchmark's statistics.
_SAMPLED = 2000


class FramesWatch:
    """Hears every second what was done, and reads the machine beside it."""

    def __init__(self, plan: Plan, observer: Observer, computes: bool) -> None:
        """Take the plan, which has a schedule, and who reads the process; where nothing computes no speed is told."""
        assert plan.schedule is not None
        self._schedule, self._observer, self._computes = plan.schedule, observer, computes
        self._streams = [_Count() for _ in range(plan.schedule.count)]
        self._stages = {name: Histogram() for name in STAGES}
        self._latency = Histogram()
        self._sample = _Reservoir(_SAMPLED)
        self._machine: MachineWatch | None = None
        self._series = _Series(max(_SHORTEST_SEGMENT_S, plan.schedule.duration_s / _POINTS))
        self._rss: list[int] = []
        self._heap: list[int] = []
        self.seconds = 0.0

    @property
    def done(self) -> int:
        """How many frames were done."""
        return self._latency.count

    @property
    def lost(self) -> int:
        """How many were dropped or missed."""
        return sum(each.dropped + each.missed for each in self._streams)

    def hear(self, message: dict[str, Any]) -> bool:
        """Take the message of a second (scenarios.pipeline); whether a point of the series has come."""
        rss_bytes = self._observer.take_recent()
        if not message["seconds"]:
            return False
        if self._machine is None:
            # Its first reading, and from here on those of memory: what came before was in part of the warm-up.
            self._machine = MachineWatch(self._observer.pid)
            rss_bytes = []
        self._machine.read()
        self.seconds = message["seconds"]
        self._take_counts(message["streams"])
        self._rss += rss_bytes
        self._heap += [message["heap_bytes"]] if rss_bytes and message["heap_bytes"] is not None else []
        if not self._rss or not self._series.is_due(self.seconds, self._schedule.duration_s):
            return False
        memory = _Point(min(self._rss), min(self._heap, default=None), self._observer.npu_bytes())
        self._series.add(self.seconds, memory, self.done, self.lost)
        self._rss, self._heap = [], []
        return True

    def latencies_ns(self) -> list[int]:
        """Return the latencies of all frames, or a random sample of them where there are many."""
        return self._sample.values

    def summary(self, interrupted: bool) -> dict[str, Any] | None:
        """Return what storage/schema/result-1.json calls `frames`, of one process; None before the steady state."""
        if not self.seconds or self._machine is None:
            return None
        return {
            "seconds": self.seconds,
            "interrupted": interrupted,
            **(self._speed() if self._computes else dict.fromkeys(("all", "streams", "stages_ns", "cpu"))),
            "machine": self._machine.machine(),
            "memory": self._series.trend("rss_bytes"),
            "heap": self._series.trend("heap_bytes"),
            "series": self._series.stored(self._computes),
        }

    def _speed(self) -> dict[str, Any]:
        assert self._machine is not None
        whole = _Count.sum(self._streams, self._latency)
        return {
            "all": whole.figures(self.seconds),
            "streams": [each.figures(self.seconds) for each in self._streams],
            "stages_ns": {name: each.percentiles() for name, each in self._stages.items()},
            "cpu": self._machine.cpu(),
        }

    def _take_counts(self, streams: Sequence[dict[str, Any]]) -> None:
        for count, told in zip(self._streams, streams):
            count.take(told)
            for row in told["rows"]:
                self._take_row(row)

    def _take_row(self, row: Sequence[int]) -> None:
        latency_ns, *stages_ns = row
        self._latency.add(latency_ns)
        self._sample.add(latency_ns)
        for histogram, stage_ns in zip(self._stages.values(), stages_ns):
            histogram.add(stage_ns)


class _Count:
    """The frames of one stream, or of all."""

    def __init__(self) -> None:
        self.dropped = self.missed = 0
        self.latency = Histogram()

    @classmethod
    def sum(cls, counts: Sequence[_Count], latency: Histogram) -> _Count:
        """Return the count of all; its latencies have been gathered already."""
        whole = cls()
        for each in counts:
            whole.dropped += each.dropped
            whole.missed += each.missed
        whole.latency = latency
        return whole

    def take(self, told: dict[str, Any]) -> None:
        """Take what the process has counted so far, and the rows of the last second."""
        self.dropped, self.missed = told["dropped"], told["missed"]
        for row in told["rows"]:
            self.latency.add(row[0])

    def figures(self, seconds: float) -> dict[str, Any]:
        """Return what is stored; frames that are still on their way count as neither due nor done."""
        done = self.latency.count
        return {
            "due": done + self.dropped + self.missed,
            "done": done,
            "dropped": self.dropped,
            "missed": self.missed,
            "per_s": done / seconds,
            "latency_ns": self.latency.percentiles(),
        }


class _Point(NamedTuple):
    """Memory in a segment of time. The lowest readings: frames on their way only add, now one more and now one less."""

    rss_bytes: int
    #: None: this C library does not say.
    heap_bytes: int | None
    #: Now; None: nothing says.
    npu_memory_bytes: int | None


class _Series:
    """Points over time."""

    def __init__(self, segment_s: float) -> None:
        self._segment_s = segment_s
        self._done = self._lost = 0
        self.seconds: list[float] = []
        self._memory: list[_Point] = []
        self._done_per_s: list[float] = []
        self._lost_per_s: list[float] = []

    def is_due(self, seconds: float, duration_s: float) -> bool:
        """Whether it is time for a further point; the last segment may be shorter, but not by much."""
        since_s = seconds - (self.seconds[-1] if self.seconds else 0.0)
        return since_s >= (self._segment_s - _EARLY_S if seconds < duration_s else self._segment_s / 2)

    def add(self, seconds: float, memory: _Point, done: int, lost: int) -> None:
        """Add the segment that ends here; the counts are from the beginning."""
        passed_s = seconds - (self.seconds[-1] if self.seconds else 0.0)
        self.seconds.append(round(seconds, 3))
        self._memory.append(memory)
        self._done_per_s.append(round((done - self._done) / passed_s, 2))
        self._lost_per_s.append(round((lost - self._lost) / passed_s, 2))
        self._done, self._lost = done, lost

    def trend(self, name: str) -> dict[str, Any] | None:
        """Return the trend of a field of the points; None where some have none, or where they are too few."""
        values = [getattr(each, name) for each in self._memory]
        found = trend(self.seconds, values) if None not in values else None
        return asdict(found) if found else None

    def stored(self, computes: bool) -> dict[str, Any]:
        """Return the points as lists of equal length; None in place of a list that would say nothing."""
        memory = {name: [getattr(each, name) for each in self._memory] for name in _Point._fields}
        return {
            "seconds": self.seconds,
            **{name: None if set(values) == {None} else values for name, values in memory.items()},
            "done_per_s": self._done_per_s if computes else None,
            "lost_per_s": self._lost_per_s if computes else None,
        }


class _Reservoir:
    """A random sample of fixed size: every value has the same chance to be in it (Vitter's algorithm R, 1985)."""

    def __init__(self, size: int) -> None:
        self._size, self._seen = size, 0
        self._random = random.Random(0)
        self.values: list[int] = []

    def add(self, value: int) -> None:
        """Take the value in, perhaps in place of another."""
        self._seen += 1
        if len(self.values) < self._size:
            self.values.append(value)
            return
        place = self._random.randrange(self._seen)
        if place < self._size:
            self.values[place] = value
