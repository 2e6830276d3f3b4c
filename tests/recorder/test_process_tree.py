"""The processes of a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reusebench.recorder import process_tree
from reusebench.recorder.process_tree import ProcessTree
from reusebench.samplers.host import LOCAL_HOST, Host
from reusebench.samplers.npu import process_dmabuf
from reusebench.samplers.npu.process_dmabuf import DmaBuf
from reusebench.samplers.process_memory import Shares, read_process, read_shares

pytestmark = pytest.mark.process

_MIB = 2**20
#: Forks a number of processes in a second thread, each with 8 MiB, and writes a dot for each.
_WORKERS = """
import os, sys, threading, time
def make():
    for _ in range(int(sys.argv[1])):
        if not os.fork():
            held = bytearray(8 << 20)
            os.write(1, b".")
            time.sleep(60)
thread = threading.Thread(target=make)
thread.start()
time.sleep(60)
"""


@pytest.fixture(scope="module")
def workers() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process whose second thread has forked three processes."""
    with started_workers() as process:
        yield process


@contextmanager
def started_workers() -> Iterator[subprocess.Popen[bytes]]:
    """Start such a process."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKERS, "3"],
        stdout=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    assert process.stdout is not None
    assert [process.stdout.read(1) for _ in range(3)] == [b"."] * 3
    yield process
    os.killpg(process.pid, 9)
    process.communicate()


@pytest.mark.parametrize("way", ["the kernel's lists", "each process's parent"])
def test_all_processes_are_there(
    way: str, workers: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children of any thread belong to the program, also on kernels that do not list children."""
    if way == "each process's parent":
        monkeypatch.setattr(
            process_tree, "_listed_children", lambda *_: pytest.fail("not listed here")
        )
        monkeypatch.setattr(process_tree, "_lists_children", lambda _: False)
    tree = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    assert len(tree.live) == 4
    assert workers.pid in [seen.pid for seen in tree.live]
    assert len(ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=False).live) == 3


def test_sums_are_those_of_the_processes(workers: subprocess.Popen[bytes]) -> None:
    """RSS counts shared pages in each process, PSS once; both include each worker's own memory."""
    tree = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    whole, largest = tree.sample(1)
    family = read_process(LOCAL_HOST, workers.pid)
    assert family.child_count == 3
    assert whole == pytest.approx(family.rss_bytes, rel=0.05)
    assert 8 * _MIB < largest < whole
    shares = tree.read_shares()[0].values()
    pss_bytes = sum(share.pss_bytes for share in shares)
    assert pss_bytes == pytest.approx(family.pss_bytes, rel=0.05)
    assert 3 * 8 * _MIB <= sum(share.uss_bytes for share in shares) <= pss_bytes <= whole
    assert sum(share.rss_bytes for share in shares) == pytest.approx(whole, rel=0.05)
    # Since Python 3.14, a process that a thread has forked has the thread's name.
    names = {seen.pid: Path(f"/proc/{seen.pid}/comm").read_text().strip() for seen in tree.live}
    assert {seen.pid: seen.name for seen in tree.live} == names


def test_high_water_marks_that_have_risen(workers: subprocess.Popen[bytes]) -> None:
    """The marks cover a process's whole life; those from before the recording can be ignored."""
    tree = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    peaks = tree.read_peaks()
    assert peaks.largest_bytes >= 8 * _MIB
    assert peaks.largest_bytes == max(seen.peak_rss_bytes for seen in tree.live)
    assert peaks.sum_bytes is None
    assert tree.read_peaks().largest_bytes == 0
    later = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    later.forget_peaks()
    assert later.read_peaks().largest_bytes == 0


#: Forks at its first line of input, ends its child at the second, and reports when that is done.
_PARENT = """
import os
print(flush=True)
input()
end, ending = os.pipe()
if not os.fork():
    os.close(ending)
    os.read(end, 1)
    os._exit(0)
print(flush=True)
input()
os.close(ending)
os.wait()
print(flush=True)
input()
"""


def test_the_sum_of_peaks_is_known_while_the_processes_are_the_same() -> None:
    """New marks are of the phase alone, unless a process came or went meanwhile."""
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        tree = ProcessTree(LOCAL_HOST, process.pid, 0, with_root=True)
        tree.begin_phase(0, resets=True)
        for _ in range(2):  # a child has come, then gone unseen
            whole, _ = tree.sample(1)
            assert tree.read_peaks().sum_bytes == pytest.approx(whole, rel=0.1)
            process.stdin.write(b"\n")
            process.stdout.readline()
            if len(tree.live) == 1:
                tree.discover(2)
            assert tree.read_peaks().sum_bytes is None
            tree.begin_phase(2, resets=True)
        process.communicate(b"\n")


def test_a_buffer_counts_once(
    workers: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer held by several processes counts once; unreadable or ended processes are skipped."""
    tree = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    first, second, third, fourth = (seen.pid for seen in tree.live)
    dmabufs = {
        first: [DmaBuf(1, 100, "drm"), DmaBuf(2, 10, "drm")],
        second: [DmaBuf(1, 100, "drm"), DmaBuf(3, 1, "system")],
        third: None,
    }

    def read(_: Host, pid: int) -> list[DmaBuf] | None:
        if pid == fourth:
            raise ProcessLookupError(pid)
        return dmabufs[pid]

    monkeypatch.setattr(process_dmabuf, "process_dmabufs", read)
    assert tree.read_dmabufs() == 111
    dmabufs.update({first: None, second: None})
    with pytest.raises(PermissionError):
        tree.read_dmabufs()


@pytest.fixture
def own_workers() -> Iterator[subprocess.Popen[bytes]]:
    """Return such a process for one test."""
    with started_workers() as process:
        yield process


def test_shares_are_those_of_one_set_of_processes(
    own_workers: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a process ends during a reading, all are read again, until its memory is given back."""
    tree = ProcessTree(LOCAL_HOST, own_workers.pid, 0, with_root=True)
    tree.read_peaks()
    *others, last = tree.live
    calls: list[int] = []

    def read(host: Host, pid: int) -> Shares:
        calls.append(pid)
        if pid == last.pid:
            raise ProcessLookupError(pid)
        return read_shares(host, pid)

    monkeypatch.setattr(process_tree, "read_shares", read)
    shares, ending_bytes = tree.read_shares()
    assert list(shares) == [seen.pid for seen in others]
    # It is no zombie yet.
    assert ending_bytes == last.peak_rss_bytes > 0
    assert calls.count(last.pid) == 1
    assert calls.count(others[0].pid) == 2
    os.kill(last.pid, 9)
    while tree.read_shares()[1]:
        pass


def test_a_process_that_is_not_ours(
    workers: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose PSS may not be read is marked, and counts in RSS alone."""
    tree = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    whole, _ = tree.read_shares()

    def refuse(host: Host, pid: int) -> Shares:
        if pid == workers.pid:
            raise PermissionError(pid)
        return read_shares(host, pid)

    monkeypatch.setattr(process_tree, "read_shares", refuse)
    assert tree.read_shares()[0].keys() == whole.keys() - {workers.pid}
    assert [seen.pid for seen in tree.live if not seen.pss_readable] == [workers.pid]
    monkeypatch.setattr(process_tree, "read_shares", lambda host, _: refuse(host, workers.pid))
    with pytest.raises(PermissionError):
        tree.read_shares()
    assert tree.sample(1)[0] > 0
    monkeypatch.undo()
    assert tree.read_shares()[0]
    assert not any(seen.pss_readable for seen in tree.live)  # for a time


def test_a_process_that_ends_is_left_out(workers: subprocess.Popen[bytes]) -> None:
    """Its readings stay; it is a zombie, and is not added again."""
    tree = ProcessTree(LOCAL_HOST, workers.pid, 0, with_root=True)
    before, _ = tree.sample(1)
    gone = max(seen.pid for seen in tree.live)
    os.kill(gone, 9)
    while (after := tree.sample(2)[0]) == before or len(tree.live) == 4:
        time.sleep(0.01)
    tree.discover(3)
    assert len(tree.live) == 3
    assert len(tree.seen) == 4
    assert after <= before - 8 * _MIB
    assert gone not in [seen.pid for seen in tree.live]
