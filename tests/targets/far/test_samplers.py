"""Readings of a machine through a reader equal its local readings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reusebench.samplers.environment import environment
from reusebench.samplers.host import LOCAL_HOST, own_pid
from reusebench.samplers.machine.watch import MachineWatch
from reusebench.samplers.npu import find_npu_sources
from reusebench.samplers.observer import Observer
from reusebench.samplers.process_memory import read_process
from reusebench.samplers.sources import machine_sources
from reusebench.storage.board_storage import board_name
from reusebench.targets.far.host import FarHost
from tests.helpers.far_shell import connected
from tests.helpers.support import TIME_LIMIT_S
from tests.samplers.child import Child
from tests.samplers.hosts import CountingHost

pytestmark = pytest.mark.process


@pytest.fixture
def host(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarHost]:
    """Return this machine through a reader."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with connected(tmp_path) as connection:
        yield FarHost(lambda: connection)


@pytest.fixture
def child() -> Iterator[Child]:
    """Return a process that stands still."""
    child = Child()
    yield child
    child.reap()


def test_the_machine_is_the_same(host: FarHost) -> None:
    """Name, facts and sources are equal; the reading process is another one."""
    assert board_name(host) == board_name(LOCAL_HOST)
    # Variables are those at the process's start; the tests may have set others since.
    far, near = (replace(environment(read, "board"), variables={}) for read in (host, LOCAL_HOST))
    assert far == near
    assert list(machine_sources(host)) == list(machine_sources(LOCAL_HOST))
    assert own_pid(host) != os.getpid()


def test_a_process_is_the_same(host: FarHost, child: Child) -> None:
    """Every figure of a full reading is equal, but for the pipes to the tests, which are theirs.

    Other processes that share its pages come and go, so the test tries again.
    """
    child.run("f = os.memfd_create('frames'); os.write(f, bytes(1 << 20))")
    end_s = time.monotonic() + TIME_LIMIT_S
    while True:
        far = read_process(host, child.pid)
        near = read_process(LOCAL_HOST, child.pid)
        assert (far.uncounted_fd_count, near.uncounted_fd_count) == (2, 0)
        if msgspec.structs.replace(far, uncounted_fd_count=0) == near:
            break
        assert time.monotonic() < end_s, "a process that stands still was never read the same twice"
    assert far.pss_bytes > 0
    assert far.held_file_bytes == 1 << 20


def test_an_observer_of_a_far_process(host: FarHost, child: Child) -> None:
    """Snapshots take a few round trips; samples come by themselves, until the process ends."""
    counting = CountingHost(host)
    observer = Observer(counting, 500, find_npu_sources(counting))
    observer.attach(child.pid)
    before = counting.round_trips
    snapshot = observer.snapshot()
    assert counting.round_trips - before <= 20
    end_s = time.monotonic() + TIME_LIMIT_S
    while len(observer.timeline) < 5 and time.monotonic() < end_s:
        observer.sample()
    times_ns = observer.timeline.times_ns.tolist()
    assert times_ns == sorted(times_ns)
    assert times_ns[-1] <= host.now_ns()
    assert observer.timeline.rss_bytes[-1] == pytest.approx(snapshot.process.rss_bytes, rel=0.05)
    child.reap()
    with pytest.raises(ProcessLookupError):
        observer.snapshot()
    observer.detach()


def test_the_machine_beside_a_far_process(host: FarHost, child: Child) -> None:
    """CPU use is of the board's cores, the measured process, and the reader."""
    watch = MachineWatch(host, child.pid)
    watch.read()
    end_s = time.monotonic() + TIME_LIMIT_S
    while not watch.cpu().process_percent and time.monotonic() < end_s:
        child.run("for _ in range(1_000_000): pass")
        watch.read()
    assert watch.cpu().process_percent > watch.cpu().harness_percent
    assert len(watch.cpu().cores_percent) >= LOCAL_HOST.usable_cpus()
