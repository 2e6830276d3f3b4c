"""The figures that follow from the messages of streams, without running any."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from reusebench.harness.measuring.frames_watch import FramesWatch
from reusebench.measured.plan import Context, Plan, Streams
from reusebench.measured.streams.threads import STAGES
from reusebench.samplers.host import LOCAL_HOST
from reusebench.storage.result import Series, StreamsRun
from reusebench.targets.barriers import Frames, StreamCount
from tests.helpers.support import known, models_of

_MS = 1_000_000
#: Durations of the six stages.
_STAGES_NS = (1 * _MS, 2 * _MS, 1 * _MS, 1 * _MS, 4 * _MS, 1 * _MS)


class _Observer:
    """An observer with an RSS of the test's choice."""

    def __init__(self, rss_bytes: Sequence[int] = (), npu_bytes: int | None = None) -> None:
        self.host = LOCAL_HOST
        self.pid = os.getpid()
        self._rss = iter(rss_bytes)
        self._npu = npu_bytes

    def take_recent(self) -> list[int]:
        """Return one reading, and one with the memory of a frame on its way."""
        rss = next(self._rss, 1000)
        return [rss + 3 * 2**20, rss]

    def npu_bytes(self) -> int | None:
        """Return the same NPU memory each time."""
        return self._npu


def _watch(
    observer: _Observer | None = None,
    computes: bool = True,
    duration_s: float = 10.0,
    streams: int = 1,
) -> FramesWatch:
    schedule = Streams(streams, 30.0, 0, 2.0, duration_s, None)
    contexts = tuple(Context(stream, 0) for stream in range(streams))
    plan = Plan("mine", None, "x", models_of("m"), contexts, cores=2, rounds=1, schedule=schedule)
    reader: Any = observer or _Observer()
    return FramesWatch(plan, reader, computes)


def _message(
    seconds: float,
    *done: int,
    dropped: int = 0,
    heap_bytes: int | None = 5_000_000,
    stages_ns: Sequence[int] = _STAGES_NS,
) -> Frames:
    """Return a message; `done` is the number of frames, 1 ms apart, that each stream has done since
    the last one.
    """
    second_ns = round(seconds) * 1000 * _MS
    rows = [
        tuple((second_ns + number * _MS, *stages_ns) for number in range(count)) for count in done
    ]
    return Frames(
        seconds, tuple(StreamCount(dropped, 0, of_stream) for of_stream in rows), heap_bytes
    )


def _summary(watch: FramesWatch) -> tuple[StreamsRun, Series]:
    summary = known(watch.summary(interrupted=False))
    return summary, known(summary.series)


def test_figures_of_each_stream_and_of_all() -> None:
    """Counts are from the beginning, rates over the steady state, and `all` is the sum of the
    streams.
    """
    watch = _watch(streams=2)
    for second in range(1, 6):
        watch.take(_message(float(second), 30, 20, dropped=10 * second))
    summary, _ = _summary(watch)
    whole = known(summary.all)
    stages_ns = known(summary.stages_ns)
    assert [count.done for count in known(summary.streams)] == [150, 100]
    assert (whole.done, whole.dropped, whole.due, whole.per_s, watch.lost) == (
        250,
        100,
        350,
        50.0,
        100,
    )
    assert known(whole.latency_ns).max == 10 * _MS
    assert list(stages_ns) == list(STAGES)
    assert known(stages_ns["inference"]).p50 == pytest.approx(4 * _MS, rel=0.005)


def test_the_warm_up_is_in_no_figure() -> None:
    """Readings of memory and seconds of the warm-up do not count; a point is the lowest of its
    readings.
    """
    watch = _watch(_Observer([1, 1, 500, 600, 700]))
    for seconds in (0.0, 0.0, 0.001, 1.0, 2.0):
        watch.take(_message(seconds, 0))
    summary, series = _summary(watch)
    assert (series.rss_bytes, summary.seconds) == ((600, 700), 2.0)


@pytest.mark.parametrize(("duration_s", "most"), [(100.0, 101), (864_000.0, 1001)])
def test_the_series_is_bounded_whatever_the_duration(duration_s: float, most: int) -> None:
    """Ten days have no more than 1000 points, and all lists of the series have the same length."""
    watch = _watch(duration_s=duration_s)
    every_s = max(1, round(duration_s / 2000))
    points = [
        watch.take(_message(second + 0.001, 10))
        for second in range(0, int(duration_s) + 1, every_s)
    ]
    _, series = _summary(watch)
    assert sum(points) == len(series.seconds)
    assert 0.8 * most <= len(series.seconds) <= most
    assert len(series.seconds) == len(series.rss_bytes) == len(series.heap_bytes or ())
    assert len(series.seconds) == len(series.done_per_s or ()) == len(series.lost_per_s or ())
    assert sum(rate or 0 for rate in series.done_per_s or ()) > 0


def test_rates_of_a_point_are_those_of_its_segment() -> None:
    """Frames that were done or lost before a point count in that point alone."""
    watch = _watch()
    for seconds, done, dropped in ((0.001, 0, 0), (1.0, 20, 10), (2.0, 25, 15), (4.0, 10, 55)):
        watch.take(_message(seconds, done, dropped=dropped))
    _, series = _summary(watch)
    assert (series.done_per_s, series.lost_per_s) == ((20.0, 25.0, 5.0), (10.0, 5.0, 20.0))


@pytest.mark.parametrize("is_known", [True, False])
def test_the_heap_in_use_is_a_series_of_its_own(is_known: bool) -> None:
    """A leak that fills holes of the heap does not move RSS; without the C library's figure there
    is none.
    """
    watch = _watch(duration_s=20.0)
    for second in range(21):
        watch.take(
            _message(second + 0.001, 1, heap_bytes=10**8 + 20_000 * second if is_known else None)
        )
    _, series = _summary(watch)
    assert set(series.rss_bytes) == {1000}
    assert series.heap_bytes == (
        tuple(10**8 + 20_000 * second for second in range(1, 21)) if is_known else None
    )


def test_points_come_every_second_although_messages_are_not_that_exact() -> None:
    """A message that is some milliseconds early still makes a point."""
    watch = _watch(duration_s=30.0)
    for second in range(30):
        watch.take(_message(second + 0.002 * (second % 2), 1))
    assert len(_summary(watch)[1].seconds) >= 28


def test_without_frames_there_is_no_latency() -> None:
    """Streams whose frames were all dropped are a result."""
    watch = _watch()
    for seconds in (0.01, 1.0):
        watch.take(_message(seconds, 0, dropped=30))
    summary, _ = _summary(watch)
    whole = known(summary.all)
    assert (whole.latency_ns, whole.per_s, whole.due) == (None, 0.0, 30)
    assert summary.stages_ns == dict.fromkeys(STAGES)
    assert watch.latencies_ns() == []


def test_before_the_steady_state_there_is_nothing() -> None:
    """A run that ends in its warm-up has no figures of frames."""
    watch = _watch()
    watch.take(_message(0.0, 0))
    assert watch.summary(interrupted=True) is None


def test_where_nothing_computes_memory_is_all_there_is() -> None:
    """Without arithmetic of the NPU there are no figures of speed: they would be the emulator's."""
    watch = _watch(_Observer(npu_bytes=4096), computes=False)
    for seconds in (0.01, 1.0, 2.0):
        watch.take(_message(seconds, 5))
    summary, series = _summary(watch)
    assert (summary.all, summary.streams, summary.stages_ns, summary.cpu) == (None,) * 4
    assert (series.done_per_s, series.lost_per_s, series.npu_memory_bytes) == (
        None,
        None,
        (4096, 4096),
    )


def test_latencies_for_statistics_are_a_sample_of_all() -> None:
    """The sample has a bounded size, and is from the whole run, not from its beginning alone."""
    watch = _watch(duration_s=100.0)
    for second in range(100):
        watch.take(_message(second + 0.01, 120, stages_ns=(0, 0, 0, 0, second * _MS, 0)))
    sample = watch.latencies_ns()
    assert len(sample) == 2000
    assert 40 * _MS < sum(sample) / len(sample) < 60 * _MS


def test_times_of_frames_are_kept_in_their_order() -> None:
    """The trace has the frames of all streams together, each with its stages."""
    watch = _watch(streams=2)
    for second in range(1, 4):
        watch.take(_message(float(second), 30, 20))
    times = known(watch.times())
    assert (len(times.first), times.last, times.left_out) == (150, [], 0)
    dues_ns = [frame.due_ns for frame in times.first]
    assert dues_ns == sorted(dues_ns)
    assert [sum(frame.stream == stream for frame in times.first) for stream in (0, 1)] == [90, 60]
    assert {frame.stages_ns for frame in times.first} == {_STAGES_NS}


@pytest.mark.parametrize("seconds", [10, 200])
def test_times_of_frames_do_not_grow_with_time(seconds: int) -> None:
    """The first and the last are kept in equal number, with the count of those
    between.
    """
    watch = _watch(duration_s=float(seconds))
    for second in range(1, seconds + 1):
        watch.take(_message(float(second), 300))
    times = known(watch.times())
    assert len(times.first) == len(times.last) == 1000
    assert times.left_out == 300 * seconds - 2000
    assert times.first[0].due_ns == 1000 * _MS
    assert times.last[-1].due_ns == (seconds * 1000 + 299) * _MS


def test_where_nothing_computes_no_times_are_kept() -> None:
    """Without arithmetic there are no times: they would be the emulator's."""
    watch = _watch(computes=False)
    watch.take(_message(1.0, 5))
    assert watch.times() is None
