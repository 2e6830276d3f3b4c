"""The observer of one measured process, and which sources there are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from samplers import observer as observer_module
from samplers import process as process_module
from samplers import sources as sources_module
from samplers.observer import Observer, SampledTimeline
from samplers.process import read_process
from samplers.sources import memory_sources
from tests.samplers.child import Child


@pytest.fixture
def observer(child: Child) -> Iterator[Observer]:
    """Return an observer of a process that stands still."""
    observer = Observer(sample_hz=50)
    observer.attach(child.pid)
    yield observer
    observer.detach()


def test_samples_are_a_timeline(observer: Observer, child: Child) -> None:
    """Each sample adds a time, the RSS and the system's memory, in order; the rate is an interval."""
    assert observer.interval_s == pytest.approx(0.02)
    started = time.monotonic_ns()
    for _ in range(3):
        observer.sample()
    timeline = observer.timeline
    moments = [started, *timeline.times_ns, time.monotonic_ns()]
    assert len(timeline) == 3
    assert moments == sorted(moments)
    assert timeline.rss_bytes.tolist() == pytest.approx([read_process(child.pid).rss_bytes] * 3, rel=0.05)
    assert min(timeline.system_bytes) > 0


def test_the_system_is_read_more_rarely(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs more and moves slowly: the last reading stands for the next samples too."""
    readings = iter([1, 2, 3])
    monkeypatch.setattr(observer_module, "used_bytes", lambda: next(readings))
    for _ in range(21):
        observer.sample()
    assert observer.timeline.system_bytes.tolist() == [1] * 10 + [2] * 10 + [3]


def test_a_process_that_has_gone_gives_no_samples(observer: Observer, child: Child) -> None:
    """The timeline ends with the last true reading, and not with zeros; it stays when the observer is detached."""
    observer.sample()
    for end in (child.kill, child.reap):
        end()
        observer.sample()
    assert len(observer.timeline) == 1
    observer.detach()
    observer.detach()
    assert len(observer.timeline) == 1


def test_a_snapshot_is_a_full_reading(observer: Observer, child: Child) -> None:
    """Of the process, which stands still, and of the system."""
    snapshot = observer.snapshot()
    process, now = snapshot.process, read_process(child.pid)
    assert (process.rss_bytes, process.fd_count, process.thread_count) == (now.rss_bytes, now.fd_count, 1)
    assert process.uss_bytes <= process.pss_bytes <= process.rss_bytes
    assert (process.peak_rss_bytes or 0) >= 0.95 * now.rss_bytes
    assert snapshot.system.total_bytes > snapshot.system.available_bytes > 0


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_snapshot_starts_a_new_phase(observer: Observer, monkeypatch: pytest.MonkeyPatch, is_reset: bool) -> None:
    """The peak is reset after each reading; where the kernel refuses, only that of the first phase is known."""
    resets: list[int] = []

    def reset(pid: int) -> bool:
        resets.append(pid)
        return is_reset

    monkeypatch.setattr(observer_module, "reset_peak", reset)
    peaks = [observer.snapshot().process.peak_rss_bytes for _ in range(3)]
    assert [peak is not None for peak in peaks] == [True, is_reset, is_reset]
    assert resets == [observer.pid] * 3


def test_a_timeline_is_bounded() -> None:
    """A long run loses every second reading, from its begin to its end; figures are 8 bytes each."""
    timeline = SampledTimeline()
    for number in range(300_000):
        timeline.add(number, number + 1, number + 2)
    times_ns = timeline.times_ns.tolist()
    assert 20_000 < len(timeline) < 50_000
    assert max(later - earlier for earlier, later in zip(times_ns, times_ns[1:])) < 2 * 300_000 / len(timeline)
    assert (times_ns[0], timeline.times_ns.itemsize) == (0, 8)
    assert times_ns[-1] > 299_900
    assert [rss - 1 for rss in timeline.rss_bytes] == [used - 2 for used in timeline.system_bytes] == times_ns


def test_recent_readings_are_taken_once(observer: Observer) -> None:
    """Those since the last time, in bytes."""
    observer.sample()
    observer.sample()
    assert observer.take_recent() == observer.timeline.rss_bytes.tolist()
    assert observer.take_recent() == []


def test_the_sources_of_this_machine() -> None:
    """Each is tried on a process of the user's own; statm and meminfo are on every Linux."""
    sources = {source.name: source for source in memory_sources(os.getpid())}
    assert list(sources) == [
        "/proc/PID/statm",
        "/proc/PID/smaps_rollup",
        "Pss_Anon, Pss_File, Pss_Shmem",
        "/proc/PID/clear_refs",
        "/proc/meminfo",
        "CmaTotal, CmaFree",
    ]
    assert sources["/proc/PID/statm"].readable
    assert sources["/proc/meminfo"].readable
    assert all(" " in str(source.remark) for source in sources.values())


def test_a_kernel_without_pss_has_no_other_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PSS the list ends with what the kernel lacks, and nothing else is tried."""
    monkeypatch.setattr(process_module, "_read_sizes", lambda *_: {})
    (source,) = memory_sources(os.getpid())
    assert not source.readable
    assert "CONFIG_PROC_PAGE_MONITOR" in str(source.remark)


def test_a_source_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of what it is for, the remark has what follows from its absence."""
    monkeypatch.setattr(sources_module, "rollup_readable", lambda _: False)
    monkeypatch.setattr(sources_module, "reset_peak", lambda _: False)
    remarks = {source.name: str(source.remark) for source in memory_sources(os.getpid()) if not source.readable}
    assert "psutil reads smaps" in remarks["/proc/PID/smaps_rollup"]
    assert "no peak per phase" in remarks["/proc/PID/clear_refs"]
