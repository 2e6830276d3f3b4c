"""The observer of one measured process, and which sources there are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from samplers import observer as observer_module
from samplers import process as process_module
from samplers import sources
from samplers.observer import Observer, Timeline
from samplers.process import read_process
from samplers.sources import memory_sources


@pytest.fixture
def standing() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that stands still."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def observer(standing: subprocess.Popen[bytes]) -> Iterator[Observer]:
    """Return an observer of it."""
    observer = Observer(sample_hz=50)
    observer.attach(standing.pid)
    yield observer
    observer.detach()


def test_the_rate_is_an_interval() -> None:
    """Readings per second become the time between them."""
    assert Observer(sample_hz=50).interval_s == pytest.approx(0.02)


def test_samples_are_a_timeline(observer: Observer, standing: subprocess.Popen[bytes]) -> None:
    """Each sample adds a time, the RSS and the system's memory, in order."""
    started = time.monotonic_ns()
    for _ in range(3):
        observer.sample()
    timeline = observer.timeline
    moments = [started, *timeline.times_ns, time.monotonic_ns()]
    assert len(timeline) == 3
    assert moments == sorted(moments)
    assert timeline.rss_bytes.tolist() == pytest.approx([read_process(standing.pid).rss_bytes] * 3, rel=0.05)
    assert min(timeline.system_bytes) > 0


def test_the_system_is_read_more_rarely(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs more and moves slowly: the last reading stands for the next samples too."""
    readings = iter([1, 2, 3])
    monkeypatch.setattr(observer_module, "used_bytes", lambda: next(readings))
    for _ in range(21):
        observer.sample()
    assert observer.timeline.system_bytes.tolist() == [1] * 10 + [2] * 10 + [3]


def test_a_process_that_has_gone_gives_no_samples(observer: Observer, standing: subprocess.Popen[bytes]) -> None:
    """The timeline ends with the last true reading, and not with zeros."""
    observer.sample()
    standing.kill()
    os.waitid(os.P_PID, standing.pid, os.WEXITED | os.WNOWAIT)
    observer.sample()
    standing.wait()
    observer.sample()
    assert len(observer.timeline) == 1


def test_a_snapshot_is_a_full_reading(observer: Observer, standing: subprocess.Popen[bytes]) -> None:
    """Of the process, which stands still, and of the system."""
    snapshot = observer.snapshot()
    process, now = snapshot.process, read_process(standing.pid)
    assert (process.rss_bytes, process.fd_count, process.thread_count) == (now.rss_bytes, now.fd_count, 1)
    assert process.uss_bytes <= process.pss_bytes <= process.rss_bytes
    assert (process.peak_rss_bytes or 0) >= 0.95 * now.rss_bytes
    assert snapshot.system.total_bytes > snapshot.system.available_bytes > 0


def test_a_snapshot_starts_a_new_phase(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak is reset after each reading, of the process that is observed."""
    resets: list[int] = []

    def reset(pid: int) -> bool:
        resets.append(pid)
        return True

    monkeypatch.setattr(observer_module, "reset_peak", reset)
    for _ in range(2):
        assert observer.snapshot().process.peak_rss_bytes is not None
    assert resets == [observer.pid] * 2


def test_a_peak_that_was_not_reset_is_not_of_the_phase(observer: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first phase begins with the process; after it a peak is unknown where the kernel does not reset it."""
    monkeypatch.setattr(observer_module, "reset_peak", lambda _: False)
    peaks = [observer.snapshot().process.peak_rss_bytes for _ in range(3)]
    assert peaks[0]
    assert peaks[1:] == [None, None]


def test_detaching_twice_is_harmless(observer: Observer) -> None:
    """The file is closed once, and what was read stays."""
    observer.sample()
    observer.detach()
    observer.detach()
    assert len(observer.timeline) == 1


def test_a_timeline_is_compact() -> None:
    """A minute at 1000 Hz takes some MB of the harness at most, since it is system memory too."""
    timeline = Timeline()
    timeline.add(1, 2, 3)
    arrays = (timeline.times_ns, timeline.rss_bytes, timeline.system_bytes)
    assert [(each.itemsize, each.tolist()) for each in arrays] == [(8, [1]), (8, [2]), (8, [3])]


def test_the_sources_of_this_machine() -> None:
    """Each is tried on a process of the user's own; statm and meminfo are on every Linux."""
    found = {source.name: source for source in memory_sources(os.getpid())}
    assert list(found) == [
        "/proc/PID/statm",
        "/proc/PID/smaps_rollup",
        "Pss_Anon, Pss_File, Pss_Shmem",
        "/proc/PID/clear_refs",
        "/proc/meminfo",
        "CmaTotal, CmaFree",
    ]
    assert found["/proc/PID/statm"].readable
    assert found["/proc/meminfo"].readable
    assert all(" " in str(source.remark) for source in found.values())


def test_a_kernel_without_pss_has_no_other_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PSS the list ends with what the kernel lacks, and nothing else is tried."""
    monkeypatch.setattr(process_module, "_read_sizes", lambda *_: {})
    (source,) = memory_sources(os.getpid())
    assert not source.readable
    assert "CONFIG_PROC_PAGE_MONITOR" in str(source.remark)


def test_a_source_that_cannot_be_read_says_what_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of what it is for, the remark says what follows from its absence."""
    monkeypatch.setattr(sources, "rollup_readable", lambda _: False)
    monkeypatch.setattr(sources, "reset_peak", lambda _: False)
    found = {source.name: source for source in memory_sources(os.getpid())}
    assert not found["/proc/PID/smaps_rollup"].readable
    assert "psutil reads smaps" in str(found["/proc/PID/smaps_rollup"].remark)
    assert not found["/proc/PID/clear_refs"].readable
    assert "no peak per phase" in str(found["/proc/PID/clear_refs"].remark)
