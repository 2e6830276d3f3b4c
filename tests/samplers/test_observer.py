"""The observer of one measured process, and the available sources."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.measured.messages import words
from reusebench.samplers import observer as observer_module
from reusebench.samplers import sources as sources_module
from reusebench.samplers.host import LOCAL_HOST, LocalHost, Sample
from reusebench.samplers.npu import find_npu_sources
from reusebench.samplers.observer import Observer, SampledTimeline
from reusebench.samplers.process_memory import read_process
from reusebench.samplers.sources import memory_sources
from tests.samplers.child import Child
from tests.samplers.hosts import CountingHost, link_process

pytestmark = pytest.mark.process


@pytest.fixture
def observer(child: Child) -> Iterator[Observer]:
    """Return an observer of a process that stands still."""
    observer = Observer(LOCAL_HOST, sample_hz=50)
    observer.attach(child.pid)
    yield observer
    observer.detach()


def test_samples_are_a_timeline(observer: Observer, child: Child) -> None:
    """Each sample adds a time, the RSS and system memory, in order; the rate is an interval."""
    assert observer.interval_s == pytest.approx(0.02)
    started = time.monotonic_ns()
    for _ in range(3):
        observer.sample()
    timeline = observer.timeline
    moments = [started, *timeline.times_ns, time.monotonic_ns()]
    assert len(timeline) == 3
    assert moments == sorted(moments)
    assert timeline.rss_bytes.tolist() == pytest.approx(
        [read_process(LOCAL_HOST, child.pid).rss_bytes] * 3, rel=0.05
    )
    assert min(timeline.system_bytes) > 0


def test_the_system_is_read_more_rarely(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """System memory costs more and moves slowly: a reading is repeated in the next samples."""
    paths: list[str] = []
    reads = LocalHost.read

    def read(host: LocalHost, path: str) -> bytes:
        paths.append(path)
        return reads(host, path)

    monkeypatch.setattr(LocalHost, "read", read)
    for _ in range(21):
        observer.sample()
    assert paths == ["/proc/meminfo"] * 3
    system_bytes = observer.timeline.system_bytes.tolist()
    assert len({*system_bytes[:10]}) == len({*system_bytes[10:20]}) == 1


def test_a_process_that_has_gone_gives_no_samples(observer: Observer, child: Child) -> None:
    """The timeline ends with the last real reading, without zeros, and stays after detaching."""
    observer.sample()
    for end in (child.kill, child.reap):
        end()
        observer.sample()
    assert len(observer.timeline) == 1
    observer.detach()
    observer.detach()
    assert len(observer.timeline) == 1


def test_a_process_that_had_gone_before(child: Child) -> None:
    """A driver that cannot start may have ended before: there are no samples and no snapshot."""
    child.reap()
    observer = Observer(LOCAL_HOST, sample_hz=50)
    observer.attach(child.pid)
    observer.sample()
    assert len(observer.timeline) == 0
    with pytest.raises(ProcessLookupError):
        observer.snapshot()
    observer.detach()


def test_a_snapshot_is_a_full_reading(observer: Observer, child: Child) -> None:
    """The snapshot has figures of the process, which stands still, and of the system."""
    snapshot = observer.snapshot()
    process = snapshot.process
    now = read_process(LOCAL_HOST, child.pid)
    assert (process.rss_bytes, process.fd_count, process.thread_count) == (
        now.rss_bytes,
        now.fd_count,
        1,
    )
    assert process.uss_bytes <= process.pss_bytes <= process.rss_bytes
    assert (process.peak_rss_bytes or 0) >= 0.95 * now.rss_bytes
    assert snapshot.system.total_bytes > snapshot.system.available_bytes > 0


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_snapshot_starts_a_new_phase(
    observer: Observer, monkeypatch: pytest.MonkeyPatch, is_reset: bool
) -> None:
    """The peak is reset after each reading; if the kernel refuses, only the first phase has one."""
    resets: list[int] = []

    def reset(_: object, pid: int) -> bool:
        resets.append(pid)
        return is_reset

    monkeypatch.setattr(observer_module, "reset_peak", reset)
    peaks = [observer.snapshot().process.peak_rss_bytes for _ in range(3)]
    assert [peak is not None for peak in peaks] == [True, is_reset, is_reset]
    assert resets == [observer.pid] * 3


def test_a_snapshot_is_a_few_round_trips(child: Child, tmp_path: Path) -> None:
    """Twenty round trips suffice on a board with an NPU, however many descriptors there are."""
    root = Path(
        shutil.copytree(Path(__file__).with_name("npu_fixtures") / "rk3588", tmp_path / "rk3588")
    )
    link_process(root, child.pid)
    host = CountingHost(LocalHost(root))
    observer = Observer(host, 50, find_npu_sources(host))
    observer.pid = child.pid
    for _ in range(2):
        before = host.round_trips
        assert observer.snapshot().npu is not None
        assert host.round_trips - before <= 20
        child.run("held += [os.dup(0) for _ in range(100)]")


def test_samples_of_a_far_host_come_together(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote host samples by itself, at the observer's interval, with times of its own clock."""
    sampler = _FarSampler()
    monkeypatch.setattr(LocalHost, "sampler", sampler.begin)
    observer = Observer(LocalHost(), sample_hz=50)
    observer.attach(child.pid)
    observer.sample()
    observer.sample()
    assert observer.timeline.times_ns.tolist() == [7, 8, 9]
    assert observer.take_recent() == [70, 80, 90]
    observer.interval_s = 0.5
    assert sampler.intervals_s == [0.02, 0.5]
    observer.detach()
    assert sampler.is_closed


class _FarSampler:
    """A sampler with three samples that have arrived, and none afterwards."""

    def __init__(self) -> None:
        self._samples = [Sample(7, 70, 1), Sample(8, 80, 1), Sample(9, 90, 1)]
        self.intervals_s: list[float] = []
        self.is_closed = False

    def begin(self, pid: int, interval_s: float) -> _FarSampler:
        """Pose as the sampler of a process."""
        assert pid
        self.set_interval(interval_s)
        return self

    def take(self) -> list[Sample]:
        """Return the arrived samples."""
        samples = self._samples
        self._samples = []
        return samples

    def set_interval(self, interval_s: float) -> None:
        """Note the interval."""
        self.intervals_s.append(interval_s)

    def close(self) -> None:
        """Note the end."""
        self.is_closed = True


def test_a_timeline_is_bounded() -> None:
    """A long run loses every second reading over its whole length; a figure takes 8 bytes."""
    timeline = SampledTimeline()
    for number in range(300_000):
        timeline.add(number, number + 1, number + 2)
    times_ns = timeline.times_ns.tolist()
    assert 20_000 < len(timeline) < 50_000
    assert max(
        later - earlier for earlier, later in zip(times_ns, times_ns[1:])
    ) < 2 * 300_000 / len(timeline)
    assert (times_ns[0], timeline.times_ns.itemsize) == (0, 8)
    assert times_ns[-1] > 299_900
    assert (
        [rss - 1 for rss in timeline.rss_bytes]
        == [used - 2 for used in timeline.system_bytes]
        == times_ns
    )


def test_recent_readings_are_taken_once(observer: Observer) -> None:
    """A call returns the RSS since the last call, in bytes."""
    observer.sample()
    observer.sample()
    assert observer.take_recent() == observer.timeline.rss_bytes.tolist()
    assert observer.take_recent() == []


def test_the_sources_of_this_machine() -> None:
    """Each is tried on a process of the user's own; statm and meminfo are on every Linux."""
    sources = {source.name: source for source in memory_sources(LOCAL_HOST, os.getpid())}
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


def test_a_kernel_without_pss_has_no_other_source(tmp_path: Path) -> None:
    """Without PSS the list ends with what the kernel lacks; no other source is tried."""
    (source,) = memory_sources(LocalHost(tmp_path), os.getpid())
    assert not source.readable
    assert "CONFIG_PROC_PAGE_MONITOR" in str(source.remark)


def test_a_source_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remark says what follows from its absence, in place of its purpose."""
    monkeypatch.setattr(sources_module, "rollup_readable", lambda *_: False)
    monkeypatch.setattr(sources_module, "reset_peak", lambda *_: False)
    sources = memory_sources(LOCAL_HOST, os.getpid())
    remarks = {source.name: str(source.remark) for source in sources if not source.readable}
    assert "smaps" in remarks["/proc/PID/smaps_rollup"]
    assert "no peak per phase" in remarks["/proc/PID/clear_refs"]


def test_a_proc_that_is_not_whole(tmp_path: Path) -> None:
    """If system memory cannot be read, the remark says what to do, in every language."""
    link_process(tmp_path, os.getpid())
    (tmp_path / "proc/meminfo").unlink()
    *_, source = memory_sources(LocalHost(tmp_path), os.getpid())
    assert (source.name, source.readable) == ("/proc/meminfo", False)
    assert "mount a whole /proc" in str(source.remark)
    assert "/proc" in words(source.remark, "zh-CN")
