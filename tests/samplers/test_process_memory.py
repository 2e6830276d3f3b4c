"""Memory of one process, read from real processes."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost, ResidentCounter
from reusebench.samplers.huge_pages import HugePages
from reusebench.samplers.process_memory import (
    read_process,
    read_shares,
    reset_peak,
    rollup_readable,
)
from reusebench.samplers.readings import ProcessMemory
from tests.helpers.support import TIME_LIMIT_S
from tests.samplers.child import SIZE, Child
from tests.samplers.hosts import CountingHost, link_process

pytestmark = pytest.mark.process


@pytest.fixture
def kernel_with_parts(child: Child) -> None:
    """Skip if the kernel does not split PSS."""
    if read_process(LOCAL_HOST, child.pid).pss_anon_bytes is None:
        pytest.skip("PSS by kind needs Linux 5.9 or later")


def _growth(child: Child, line: str) -> Callable[[str], float]:
    """Run the line; return a function from a field's name to its growth, as a share of the size."""
    before = read_process(LOCAL_HOST, child.pid)
    child.run(line)
    after = read_process(LOCAL_HOST, child.pid)
    return lambda field: (getattr(after, field) - getattr(before, field)) / SIZE


def test_a_standing_process_reads_as_psutil_reads_it(child: Child) -> None:
    """RSS, PSS, USS, swap, and the numbers of files and threads equal psutil's."""
    process = psutil.Process(child.pid)
    end_s = time.monotonic() + TIME_LIMIT_S
    while True:  # other processes share pages, and come and go
        before = read_process(LOCAL_HOST, child.pid)
        theirs = process.memory_full_info()
        ours = read_process(LOCAL_HOST, child.pid)
        if before == ours:
            break
        assert time.monotonic() < end_s, "a process that stands still was never read the same twice"
    assert (ours.uss_bytes, ours.swap_bytes) == (theirs.uss, theirs.swap)
    # A process that comes and goes between the two readings takes its share of common pages.
    assert ours.pss_bytes == pytest.approx(theirs.pss, rel=0.01)
    # The kernel's RSS counter lags behind by some pages per CPU; smaps_rollup counts the pages.
    assert ours.rss_bytes == pytest.approx(theirs.rss, rel=0.05)
    assert ours.fd_limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert ours.fd_count == len(list(Path(f"/proc/{child.pid}/fd").iterdir()))
    assert ours.thread_count == 1


@pytest.mark.usefixtures("kernel_with_parts")
def test_the_parts_are_parts_of_the_whole(child: Child) -> None:
    """The three parts of PSS sum to PSS, and USS <= PSS <= RSS."""
    memory = read_process(LOCAL_HOST, child.pid)
    assert memory.uss_bytes <= memory.pss_bytes <= memory.rss_bytes
    parts = [memory.pss_anon_bytes, memory.pss_file_bytes, memory.pss_shmem_bytes]
    assert sum(size for size in parts if size is not None) == pytest.approx(
        memory.pss_bytes, abs=16 * 1024
    )
    assert None not in (
        *parts,
        memory.rss_anon_bytes,
        memory.rss_file_bytes,
        memory.rss_shmem_bytes,
    )


@pytest.mark.usefixtures("kernel_with_parts")
def test_anonymous_memory_counts_when_it_is_touched(child: Child) -> None:
    """Touched memory raises RSS, PSS, USS and anonymous parts by its size; mapping does not.

    The cheap counter follows.
    """
    counter = ResidentCounter(child.pid)
    mapped = _growth(child, f"held.append(mmap.mmap(-1, {SIZE}, flags=PRIVATE))")
    assert mapped("pss_bytes") < 0.05
    before_bytes = counter.read_bytes() or 0
    touched = _growth(child, "write(held[0])")
    for field in ("rss_bytes", "pss_bytes", "uss_bytes", "pss_anon_bytes", "rss_anon_bytes"):
        assert touched(field) == pytest.approx(1, abs=0.05), field
    for field in ("pss_file_bytes", "pss_shmem_bytes", "rss_file_bytes", "rss_shmem_bytes"):
        assert abs(touched(field)) < 0.05, field
    # The kernel's per-CPU counters may be off by some pages.
    after_bytes = counter.read_bytes() or 0
    counter.close()
    assert (after_bytes - before_bytes) / SIZE == pytest.approx(1, abs=0.05)
    assert after_bytes == pytest.approx(read_process(LOCAL_HOST, child.pid).rss_bytes, rel=0.05)


@pytest.mark.usefixtures("kernel_with_parts")
def test_shared_memory_is_a_part_of_its_own(child: Child) -> None:
    """Such pages, as device buffers have, count as shmem, not as anonymous or file memory."""
    touched = _growth(child, f"held.append(write(mmap.mmap(-1, {SIZE})))")
    for field in ("pss_bytes", "pss_shmem_bytes", "rss_shmem_bytes"):
        assert touched(field) == pytest.approx(1, abs=0.05), field
    assert abs(touched("pss_anon_bytes")) < 0.05


@pytest.mark.usefixtures("kernel_with_parts")
def test_a_mapped_file_is_shared_between_processes(
    child: Child, second_child: Child, tmp_path: Path
) -> None:
    """The only process that maps a file has all of it in its PSS; two have half of it each.

    RSS counts the file twice, and again if one process maps the same weights twice. The distinct
    pages of a process have all of it once, whoever else maps it: they are application memory.
    """
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(SIZE))
    line = f"held.append(touch(map_file({str(path)!r})))"
    before = read_process(LOCAL_HOST, child.pid)
    alone = _growth(child, line)
    # On a memory file system a file's pages are shared memory.
    assert alone("pss_file_bytes") + alone("pss_shmem_bytes") == pytest.approx(1, abs=0.05)
    assert alone("uss_bytes") == pytest.approx(1, abs=0.05)
    again = _growth(child, line)
    assert again("rss_bytes") == pytest.approx(1, abs=0.05)
    assert again("pss_bytes") < 0.05
    assert alone("distinct_bytes") == pytest.approx(1, abs=0.01)
    assert abs(again("distinct_bytes")) < 0.01
    child.run("held.pop()")
    shared = _growth(second_child, line)
    assert shared("pss_bytes") == pytest.approx(0.5, abs=0.05)
    assert shared("rss_bytes") == pytest.approx(1, abs=0.05)
    assert shared("distinct_bytes") == pytest.approx(1, abs=0.01)
    after = read_process(LOCAL_HOST, child.pid)
    distinct_growth = (after.distinct_bytes or 0) - (before.distinct_bytes or 0)
    assert distinct_growth / SIZE == pytest.approx(1, abs=0.01)
    assert (after.pss_bytes - before.pss_bytes) / SIZE == pytest.approx(0.5, abs=0.05)
    assert (after.uss_bytes - before.uss_bytes) / SIZE < 0.05


#: Lines of Python; how much they add to the distinct pages and to RSS, as shares of SIZE.
_MAPPED_TWICE = {
    "shared memory that is mapped three times": (
        f"memory = os.memfd_create('m'); os.truncate(memory, {SIZE});"
        f"held += [write(mmap.mmap(memory, {SIZE})) for _ in range(3)]",
        1.0,
        3.0,
    ),
    "another half of the file in each mapping": (
        f"memory = os.memfd_create('m'); os.truncate(memory, {SIZE});"
        f"held += [mmap.mmap(memory, {SIZE}), mmap.mmap(memory, {SIZE})];"
        f"write(memoryview(held[0])[: {SIZE // 2}]); write(memoryview(held[1])[{SIZE // 2} :])",
        1.0,
        1.0,
    ),
    "mappings that overlap by a quarter": (
        f"memory = os.memfd_create('m'); os.truncate(memory, {SIZE});"
        f"held += [write(mmap.mmap(memory, {SIZE * 5 // 8})),"
        f" write(mmap.mmap(memory, {SIZE * 5 // 8}, offset={SIZE * 3 // 8}))]",
        1.0,
        1.25,
    ),
    "a private copy of pages that are mapped too": (
        f"memory = os.memfd_create('m'); os.truncate(memory, {SIZE});"
        f"held += [write(mmap.mmap(memory, {SIZE})),"
        f" write(mmap.mmap(memory, {SIZE}, flags=mmap.MAP_PRIVATE))]",
        2.0,
        2.0,
    ),
}


@pytest.mark.parametrize("case", _MAPPED_TWICE)
def test_pages_that_are_mapped_again_count_once(child: Child, case: str) -> None:
    """The distinct pages are what the process has in memory, however it maps them."""
    line, distinct, rss = _MAPPED_TWICE[case]
    grown = _growth(child, line)
    assert grown("distinct_bytes") == pytest.approx(distinct, rel=0.01)
    assert grown("rss_bytes") == pytest.approx(rss, rel=0.01)
    _assert_in_order(read_process(LOCAL_HOST, child.pid))


def _assert_in_order(memory: ProcessMemory) -> None:
    assert memory.distinct_bytes is not None
    assert memory.uss_bytes <= memory.pss_bytes <= memory.distinct_bytes <= memory.rss_bytes, memory


#: Forks; the parent waits until the new process has done its line. That process lives as long as
#: the parent.
_FORKED = """
ready, told = os.pipe()
alive, living = os.pipe()
if os.fork() == 0:
    os.closerange(0, 2)
    os.close(living)
    LINE
    os.write(told, b'.')
    os.read(alive, 1)
    os._exit(0)
os.read(ready, 1)
"""


def _fork(child: Child, line: str = "pass") -> None:
    """Have the child fork; the forked process runs the line and stays."""
    child.run(f"exec({_FORKED.replace('LINE', line)!r})")


@pytest.mark.usefixtures("kernel_with_parts")
def test_children_count_with_their_parent(child: Child) -> None:
    """Memory of a forked process is in every sum, and pages of before the fork count once."""
    child.run(f"held.append(write(mmap.mmap(-1, {SIZE}, flags=PRIVATE)))")
    before = read_process(LOCAL_HOST, child.pid)
    _fork(child, f"held.append(write(mmap.mmap(-1, {SIZE // 2}, flags=PRIVATE)))")
    after = read_process(LOCAL_HOST, child.pid)
    assert after.child_count == 1
    assert after.distinct_bytes is not None
    assert before.distinct_bytes is not None
    grown = after.distinct_bytes - before.distinct_bytes
    # The interpreter writes to some of its own pages, which the two no longer share.
    assert grown / SIZE == pytest.approx(0.5, abs=0.03)
    assert after.rss_bytes - before.rss_bytes > 1.5 * SIZE
    # Half of what both have from before the fork, and what it made itself.
    assert after.child_pss_bytes / SIZE == pytest.approx(1, abs=0.1)
    _assert_in_order(after)


@pytest.mark.usefixtures("kernel_with_parts")
def test_a_file_that_parent_and_child_map_counts_once(child: Child, tmp_path: Path) -> None:
    """The pages of a file are told apart by their place in it, in all processes together."""
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(SIZE))
    line = f"held.append(touch(map_file({str(path)!r})))"
    before = read_process(LOCAL_HOST, child.pid)
    child.run(line)
    _fork(child, line)
    after = read_process(LOCAL_HOST, child.pid)
    assert after.distinct_bytes is not None
    assert before.distinct_bytes is not None
    grown = after.distinct_bytes - before.distinct_bytes
    assert grown / SIZE == pytest.approx(1, abs=0.03)
    _assert_in_order(after)


@pytest.mark.usefixtures("kernel_with_parts")
def test_a_process_whose_parent_has_gone_still_counts(child: Child) -> None:
    """A process that was forked twice has another parent, and stays in the session."""
    child.run("os.setsid()")
    before = read_process(LOCAL_HOST, child.pid)
    _fork(
        child,
        f"os.fork() and os._exit(0); held.append(write(mmap.mmap(-1, {SIZE}, flags=PRIVATE)))",
    )
    child.run("os.wait()")
    after = read_process(LOCAL_HOST, child.pid)
    assert after.child_count == 1
    assert after.distinct_bytes is not None
    assert before.distinct_bytes is not None
    assert (after.distinct_bytes - before.distinct_bytes) / SIZE == pytest.approx(1, abs=0.05)


@pytest.mark.usefixtures("kernel_with_parts")
def test_a_child_that_has_ended_is_no_child(child: Child) -> None:
    """A zombie has no memory, and is counted as a zombie until it is waited for."""
    child.run("ended = [os.fork() or os._exit(0) for _ in range(2)]")
    child.run("for pid in ended: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)")
    memory = read_process(LOCAL_HOST, child.pid)
    assert (memory.child_count, memory.zombie_count) == (0, 2)
    child.run("os.wait()")
    assert read_process(LOCAL_HOST, child.pid).zombie_count == 1


def test_huge_pages_are_a_figure_of_their_own(child: Child) -> None:
    """Pages of hugetlbfs are in no other figure, and count once if they are mapped twice."""
    size = 4 << 20
    try:
        child.run(
            f"huge = os.memfd_create('h', os.MFD_HUGETLB); os.truncate(huge, {size});"
            f"held += [write(mmap.mmap(huge, {size})) for _ in range(2)]"
        )
    except AssertionError:
        pytest.skip("no huge pages here: /proc/sys/vm/nr_hugepages")
    memory = read_process(LOCAL_HOST, child.pid)
    assert memory.hugetlb_bytes == size
    assert memory.held_file_bytes == 0
    _assert_in_order(memory)


def test_the_peak_is_of_the_phase(child: Child) -> None:
    """A spike too short for any sample is in the peak, and not in the next phase's."""
    if not reset_peak(LOCAL_HOST, child.pid):
        pytest.skip("this kernel does not let VmHWM be reset")
    spike = _growth(child, f"memory = write(mmap.mmap(-1, {SIZE}, flags=PRIVATE)); memory.close()")
    assert abs(spike("rss_bytes")) < 0.1
    assert spike("peak_rss_bytes") == pytest.approx(1, abs=0.1)
    assert reset_peak(LOCAL_HOST, child.pid)
    quiet = read_process(LOCAL_HOST, child.pid)
    assert quiet.peak_rss_bytes is not None
    assert quiet.peak_rss_bytes < quiet.rss_bytes + 0.1 * SIZE


@pytest.fixture
def tree(tmp_path: Path, child: Child) -> Path:
    """Return the folder of the child in a tree that the test may change."""
    link_process(tmp_path, child.pid)
    return tmp_path / "proc" / str(child.pid)


def test_without_smaps_rollup_smaps_is_summed_up(child: Child, tree: Path) -> None:
    """An older kernel's smaps has the same totals, but not the parts of PSS."""
    host = LocalHost(tree.parents[1])
    whole = read_process(host, child.pid)
    (tree / "smaps_rollup").unlink()
    without = read_process(host, child.pid)
    assert not rollup_readable(host, child.pid)
    assert without.pss_bytes == pytest.approx(whole.pss_bytes, rel=0.02)
    assert without.uss_bytes == pytest.approx(whole.uss_bytes, rel=0.02)
    assert (without.rss_bytes, without.swap_bytes) == (whole.rss_bytes, whole.swap_bytes)
    assert (without.pss_anon_bytes, without.pss_file_bytes, without.pss_shmem_bytes) == (
        None,
        None,
        None,
    )
    assert without.peak_rss_bytes == whole.peak_rss_bytes
    # Other processes that map the same libraries change its share of them between two readings.
    shares = read_shares(host, child.pid)
    sizes = (without.pss_bytes, without.uss_bytes, without.swap_bytes, without.rss_bytes)
    assert shares[:4] == pytest.approx(sizes, rel=0.02)
    assert shares.hugetlb == HugePages(0, 0)


def test_an_old_kernel_has_no_parts(child: Child, tree: Path) -> None:
    """Lines that an older kernel does not write are None, never 0."""
    rollup = (
        "5 [rollup]\nRss: 2000 kB\nPss: 1500 kB\nPrivate_Clean: 100 kB\nPrivate_Dirty: 900 kB\n"
    )
    for name, text in {
        "smaps_rollup": rollup,
        "status": "Name:\tx\nVmRSS:\t2000 kB\nThreads:\t3\n",
    }.items():
        (tree / name).unlink()
        (tree / name).write_text(text)
    memory = read_process(LocalHost(tree.parents[1]), child.pid)
    known = {
        "rss_bytes": 2000 * 1024,
        "pss_bytes": 1500 * 1024,
        "uss_bytes": 1000 * 1024,
        "swap_bytes": 0,
    }
    counts = {
        "fd_count": memory.fd_count,
        "thread_count": 3,
        "fd_limit": memory.fd_limit,
        "distinct_bytes": 2000 * 1024,
        "hugetlb_bytes": 0,
        "held_file_bytes": 0,
        "uncounted_fd_count": memory.uncounted_fd_count,
        "child_count": 0,
        "child_pss_bytes": 0,
        "unread_child_count": 0,
        "zombie_count": 0,
    }
    values = {**dict.fromkeys(ProcessMemory.__struct_fields__), **known, **counts}
    assert memory == ProcessMemory(**values)  # type: ignore[arg-type]


def test_round_trips_of_a_reading(child: Child) -> None:
    """There are ten, however many files the process has open."""
    host = CountingHost()
    before = read_process(host, child.pid)
    child.run("held += [os.dup(0) for _ in range(50)]")
    assert read_process(host, child.pid).fd_count == before.fd_count + 50
    assert host.round_trips == 20


def test_a_peak_that_cannot_be_reset(child: Child, tree: Path) -> None:
    """A kernel that refuses is no error."""
    (tree / "clear_refs").unlink()
    assert reset_peak(LocalHost(tree.parents[1]), child.pid) is False


@pytest.mark.parametrize("end", [Child.kill, Child.reap])
def test_a_process_that_has_gone(child: Child, tree: Path, end: Callable[[Child], None]) -> None:
    """A full reading raises for a gone process or a zombie, with or without smaps_rollup.

    A cheap reading is None.
    """
    counter = ResidentCounter(child.pid)
    end(child)
    (tree / "smaps_rollup").unlink()
    for host in (LOCAL_HOST, LocalHost(tree.parents[1])):
        for read in (read_process, read_shares):
            with pytest.raises(
                ProcessLookupError, match=str(child.pid) if end is Child.reap else None
            ):
                read(host, child.pid)
    assert counter.read_bytes() is None
    counter.close()
