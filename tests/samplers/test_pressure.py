"""Evidence of short memory, from the process's control group or from the system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.pressure import PressureWatch
from reusebench.samplers.readings import Pressure
from tests.samplers.hosts import CountingHost

_PID = 7
_PAGE = os.sysconf("SC_PAGE_SIZE")
_VMSTAT = (
    "nr_free_pages 900\nworkingset_refault_anon {0}\nworkingset_refault_file {1}\npswpin"
    " {2}\npswpout {3}\n"
)
_STALLS = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total={0}\nfull avg10=0.00 avg60=0.00 avg300=0.00"
    " total={1}\n"
)


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _stat(root: Path, faults: int, of_children: int) -> None:
    fields = f"S 1 7 7 0 -1 4194560 900 40 {faults} {of_children} 3 4 0 0 20"
    _write(root, f"proc/{_PID}/stat", f"{_PID} (a (b) c) {fields}\n")


def _watch(root: Path) -> PressureWatch:
    return PressureWatch(LocalHost(root), _PID)


def test_the_system_is_read_where_there_is_no_group(tmp_path: Path) -> None:
    """Counters are relative to the start of the watch, in bytes and nanoseconds.

    Faults are relative to the start of the process.
    """
    _stat(tmp_path, 2, 1)
    _write(tmp_path, "proc/vmstat", _VMSTAT.format(10, 20, 30, 40))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(100, 50))
    watch = _watch(tmp_path)
    _stat(tmp_path, 5, 2)
    _write(tmp_path, "proc/vmstat", _VMSTAT.format(11, 22, 33, 44))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(107, 51))
    assert watch.read() == Pressure(
        major_faults=7,
        refaulted_file_bytes=2 * _PAGE,
        refaulted_anon_bytes=_PAGE,
        refaults_of="system",
        swapped_in_bytes=3 * _PAGE,
        swapped_out_bytes=4 * _PAGE,
        stalled_some_ns=7000,
        stalled_full_ns=1000,
        stalls_of="system",
    )


@pytest.mark.parametrize(
    ("cgroup", "folder", "is_2"),
    [
        ("0::/system.slice/a.service\n", "sys/fs/cgroup/system.slice/a.service", True),
        ("0::/\n", "sys/fs/cgroup", True),  # of a container, which sees no other
        ("4:memory:/docker/a:b\n1:cpu,cpuacct:/c\n", "sys/fs/cgroup/memory/docker/a:b", False),
    ],
)
def test_the_group_of_the_process_comes_before_the_system(
    tmp_path: Path, cgroup: str, folder: str, is_2: bool
) -> None:
    """Refaults and stalls of the machine's other processes do not count."""
    _stat(tmp_path, 0, 0)
    _write(tmp_path, f"proc/{_PID}/cgroup", cgroup)
    _write(tmp_path, "proc/vmstat", _VMSTAT.format(0, 0, 5, 5))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(0, 0))
    steals, stolen = ("pgsteal 7\n", "pgsteal 9\n") if is_2 else ("", "")
    _write(tmp_path, f"{folder}/memory.stat", f"cache 4096\n{steals}workingset_refault_file 3\n")
    if is_2:
        _write(tmp_path, f"{folder}/cgroup.type", "domain\n")
        _write(tmp_path, f"{folder}/memory.pressure", _STALLS.format(1, 1))
    watch = _watch(tmp_path)
    _write(tmp_path, "proc/vmstat", _VMSTAT.format(0, 900, 6, 5))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(900, 900))
    _write(tmp_path, f"{folder}/memory.stat", f"cache 4096\n{stolen}workingset_refault_file 4\n")
    pressure = watch.read()
    assert (pressure.refaulted_file_bytes, pressure.refaults_of) == (_PAGE, "cgroup")
    assert (pressure.swapped_in_bytes, pressure.swapped_out_bytes) == (_PAGE, 0)
    assert (pressure.reclaimed_bytes, pressure.reclaims_of) == (
        (2 * _PAGE, "cgroup") if is_2 else (None, None)
    )
    assert (pressure.stalled_some_ns, pressure.stalls_of) == (
        (0, "cgroup") if is_2 else (900_000, "system")
    )


def test_the_uppermost_group_is_the_system(tmp_path: Path) -> None:
    """The root group of version 2 has all processes and their stalls if version 1 is in use."""
    _write(tmp_path, f"proc/{_PID}/cgroup", "0::/\n")
    _write(tmp_path, "sys/fs/cgroup/unified/memory.pressure", _STALLS.format(1, 1))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(1, 1))
    assert _watch(tmp_path).read().stalls_of == "system"


def test_an_older_kernel_has_one_counter_of_refaults(tmp_path: Path) -> None:
    """Before Linux 5.9 it counted only refaults of files."""
    _write(tmp_path, "proc/vmstat", "workingset_refault 3\n")
    watch = _watch(tmp_path)
    _write(tmp_path, "proc/vmstat", "workingset_refault 5\n")
    pressure = watch.read()
    assert (pressure.refaulted_file_bytes, pressure.refaulted_anon_bytes) == (2 * _PAGE, None)


def test_a_kernel_that_counts_nothing_tells_nothing(tmp_path: Path) -> None:
    """A small board's kernel may have neither event counters nor PSI; the process may have gone."""
    assert _watch(tmp_path).read() == Pressure()


def test_this_machine_counts_faults_in_one_round_trip() -> None:
    """Every Linux counts major faults; a reading is one round trip to a remote board."""
    host = CountingHost(LOCAL_HOST)
    watch = PressureWatch(host, os.getpid())
    before = host.round_trips
    pressure = watch.read()
    assert host.round_trips == before + 1
    assert pressure.major_faults is not None


@pytest.mark.parametrize("gone", ["memory.stat", "memory.pressure", ""])
def test_a_group_that_vanishes_leaves_what_was_read_last(tmp_path: Path, gone: str) -> None:
    """A group vanishes with its last process; the system's counters do not replace it."""
    folder = tmp_path / "sys/fs/cgroup/user.slice/a.scope"
    _stat(tmp_path, 0, 0)
    _write(tmp_path, f"proc/{_PID}/cgroup", "0::/user.slice/a.scope\n")
    _write(tmp_path, "proc/vmstat", _VMSTAT.format(10**6, 10**6, 0, 0))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(10**9, 10**9))
    for name, text in (
        ("cgroup.type", "domain\n"),
        ("memory.stat", "workingset_refault_file 3\n"),
        ("memory.pressure", _STALLS.format(1, 1)),
    ):
        _write(folder, name, text)
    watch = _watch(tmp_path)
    unread = _watch(tmp_path)
    _write(folder, "memory.stat", "workingset_refault_file 5\n")
    _write(folder, "memory.pressure", _STALLS.format(8, 1))
    before = watch.read()
    assert (before.refaulted_file_bytes, before.stalled_some_ns) == (2 * _PAGE, 7000)
    for file in (folder / gone,) if gone else tuple(folder.iterdir()):
        file.unlink()
    assert watch.read() == before
    assert unread.read() == Pressure()


def test_counters_that_come_later_have_no_beginning(tmp_path: Path) -> None:
    """A source may be unreadable at the start: its counts before the start are unknown."""
    _write(tmp_path, "proc/vmstat", "workingset_refault_file 3\n")
    _write(tmp_path, "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\n")
    watch = _watch(tmp_path)
    _write(tmp_path, "proc/vmstat", _VMSTAT.format(4, 4, 4, 4))
    _write(tmp_path, "proc/pressure/memory", _STALLS.format(4, 4))
    pressure = watch.read()
    assert (
        pressure.refaulted_file_bytes,
        pressure.refaulted_anon_bytes,
        pressure.swapped_in_bytes,
    ) == (
        _PAGE,
        None,
        None,
    )
    assert (pressure.stalled_some_ns, pressure.stalled_full_ns) == (1000, None)


@pytest.mark.parametrize(
    ("before", "after", "pages", "scope"),
    [
        (
            "pgsteal_kswapd 10\npgsteal_direct 5\n",
            "pgsteal_kswapd 12\npgsteal_direct 9\n",
            6,
            "system",
        ),
        (
            "pgsteal_kswapd 10\npgsteal_direct 5\npgsteal_anon 1\npgsteal_file 7\n",
            "pgsteal_kswapd 10\npgsteal_direct 5\npgsteal_anon 2\npgsteal_file 9\n",
            3,
            "system",
        ),
        ("nr_free_pages 1\n", "nr_free_pages 1\n", None, None),
    ],
)
def test_pages_that_the_kernel_took_back(
    before: str, after: str, pages: int | None, scope: str | None, tmp_path: Path
) -> None:
    """They are counted for any process if the kernel does so, which it does since Linux 5.8."""
    _stat(tmp_path, 0, 0)
    _write(tmp_path, "proc/vmstat", before)
    watch = _watch(tmp_path)
    _write(tmp_path, "proc/vmstat", after)
    read = watch.read()
    assert read.reclaimed_bytes == (None if pages is None else pages * _PAGE)
    assert read.reclaims_of == scope
