"""What is made of the messages of a run of streams, without such a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from harness.measuring.frames import FramesWatch
from scenarios.frames import STAGES
from scenarios.plan import Context, Plan, Streams
from tests.support import models_of

_MS = 1_000_000
#: Latency and the six stages.
_ROW = [10 * _MS, 1 * _MS, 2 * _MS, 1 * _MS, 1 * _MS, 4 * _MS, 1 * _MS]


class _Observer:
    """Reads an RSS of our own making."""

    def __init__(self, rss_bytes: Sequence[int] = (), npu_bytes: int | None = None) -> None:
        self.pid = os.getpid()
        self._rss = iter(rss_bytes)
        self._npu = npu_bytes

    def take_recent(self) -> list[int]:
        """Return one reading, and one with a frame more on its way."""
        rss = next(self._rss, 1000)
        return [rss + 3 * 2**20, rss]

    def npu_bytes(self) -> int | None:
        """Return the same."""
        return self._npu


def _watch(observer: Any = None, computes: bool = True, duration_s: float = 10.0, streams: int = 1) -> FramesWatch:
    schedule = Streams(streams, 30.0, 0, 2.0, duration_s, None)
    contexts = tuple(Context(stream, 0) for stream in range(streams))
    plan = Plan("mine", None, "x", models_of("m"), contexts, cores=2, rounds=1, schedule=schedule)
    reads: Any = observer or _Observer()
    return FramesWatch(plan, reads, computes)


def _message(seconds: float, *rows: int, dropped: int = 0, missed: int = 0) -> dict[str, Any]:
    """Return a message; `rows` is how many frames each stream has done since the last one."""
    streams = [{"due": 0, "dropped": dropped, "missed": missed, "rows": [_ROW] * count} for count in rows]
    return {"seconds": seconds, "streams": streams, "heap_bytes": 5_000_000}


def _summary(watch: FramesWatch) -> dict[str, Any]:
    found = watch.summary(interrupted=False)
    assert found is not None
    return found


def test_figures_of_each_stream_and_of_all() -> None:
    """Counts are from the beginning, rates are over the steady state, and all is the sum of the streams."""
    watch = _watch(streams=2)
    for second in range(1, 6):
        watch.hear(_message(float(second), 30, 20, dropped=10 * second))
    found = _summary(watch)
    assert [each["done"] for each in found["streams"]] == [150, 100]
    assert found["all"]["done"] == 250
    assert found["all"]["dropped"] == 100
    assert found["all"]["due"] == 350
    assert found["all"]["per_s"] == pytest.approx(50.0)
    assert found["all"]["latency_ns"]["max"] == 10 * _MS
    assert found["stages_ns"]["inference"]["p50"] == pytest.approx(4 * _MS, rel=0.005)
    assert list(found["stages_ns"]) == list(STAGES)


def test_the_warm_up_is_in_no_figure() -> None:
    """Neither its readings of memory, nor its seconds."""
    watch = _watch(_Observer([1, 1, 500, 600, 700]))
    for seconds in (0.0, 0.0, 0.001, 1.0, 2.0):
        watch.hear(_message(seconds, 0))
    found = _summary(watch)
    assert found["series"]["rss_bytes"] == [600, 700]
    assert found["seconds"] == 2.0


def test_a_point_is_the_lowest_of_its_readings() -> None:
    """Frames on their way are not in it."""
    watch = _watch(_Observer([5, 42, 43]))
    for seconds in (0.01, 1.0, 2.0):
        watch.hear(_message(seconds, 0))
    assert _summary(watch)["series"]["rss_bytes"] == [42, 43]


@pytest.mark.parametrize(("duration_s", "most"), [(100.0, 101), (3600.0, 1001), (864_000.0, 1001)])
def test_the_series_is_bounded_whatever_the_duration(duration_s: float, most: int) -> None:
    """Ten days have no more points than an hour, and the series are of equal length."""
    watch = _watch(duration_s=duration_s)
    points = 0
    every_s = max(1, round(duration_s / 5000))
    for second in range(0, int(duration_s) + 1, every_s):
        points += watch.hear(_message(second + 0.001, 1))
    series = _summary(watch)["series"]
    assert points == len(series["seconds"])
    assert 0.8 * most <= points <= most
    assert len({len(each) for each in series.values() if each}) == 1
    assert sum(series["done_per_s"]) > 0


def test_the_heap_in_use_has_a_trend_of_its_own() -> None:
    """A leak that fills holes of the heap does not move RSS."""
    watch = _watch(duration_s=120.0)
    for second in range(121):
        watch.hear({**_message(second + 0.001, 1), "heap_bytes": 10**8 + 20_000 * second})
    found = _summary(watch)
    assert (found["memory"]["verdict"], found["heap"]["verdict"]) == ("level", "growing")
    assert found["heap"]["slope_bytes_per_s"] == pytest.approx(20_000, rel=0.01)
    assert found["series"]["heap_bytes"][-1] == 10**8 + 20_000 * 120


def test_a_c_library_that_does_not_tell_of_its_heap() -> None:
    """Nothing is said of it then."""
    watch = _watch()
    for second in range(10):
        watch.hear({**_message(second + 0.001, 1), "heap_bytes": None})
    found = _summary(watch)
    assert found["heap"] is None
    assert found["series"]["heap_bytes"] is None
    assert len(found["series"]["rss_bytes"]) == 9


def test_points_come_every_second_although_messages_are_not_that_exact() -> None:
    """Some milliseconds early are no reason to pass over a second."""
    watch = _watch(duration_s=30.0)
    for second in range(30):
        watch.hear(_message(second + 0.002 * (second % 2), 1))
    assert len(_summary(watch)["series"]["seconds"]) >= 28


def test_without_frames_there_is_no_latency() -> None:
    """All were dropped: that is a result."""
    watch = _watch()
    for seconds in (0.01, 1.0):
        watch.hear(_message(seconds, 0, dropped=30))
    found = _summary(watch)
    assert found["all"]["latency_ns"] is None
    assert (found["all"]["per_s"], found["all"]["due"]) == (0.0, 30)
    assert found["stages_ns"] == dict.fromkeys(STAGES)
    assert watch.latencies_ns() == []


def test_before_the_steady_state_there_is_nothing() -> None:
    """A run that ends in its warm-up has no figures of frames."""
    watch = _watch()
    watch.hear(_message(0.0, 0))
    assert watch.summary(interrupted=True) is None


def test_where_nothing_computes_memory_is_all_there_is() -> None:
    """Figures of speed would be those of an emulator."""
    watch = _watch(_Observer(npu_bytes=4096), computes=False)
    for seconds in (0.01, 1.0, 2.0):
        watch.hear(_message(seconds, 5))
    found = _summary(watch)
    assert [found[key] for key in ("all", "streams", "stages_ns", "cpu")] == [None] * 4
    assert found["series"]["done_per_s"] is None
    assert found["series"]["npu_memory_bytes"] == [4096, 4096]


def test_latencies_for_statistics_are_a_sample_of_all() -> None:
    """Of bounded size, and from the whole run, not from its beginning alone."""
    watch = _watch(duration_s=100.0)
    for second in range(100):
        row = [second * _MS, *_ROW[1:]]
        streams = [{"due": 0, "dropped": 0, "missed": 0, "rows": [row] * 120}]
        watch.hear({"seconds": second + 0.01, "streams": streams, "heap_bytes": None})
    sample = watch.latencies_ns()
    assert len(sample) == 2000
    assert 40 * _MS < sum(sample) / len(sample) < 60 * _MS
