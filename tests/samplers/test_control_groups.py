"""The limits and charges of control groups, in trees like those of machines and containers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reusebench.samplers.control_groups import GroupWatch, control_groups
from reusebench.samplers.host import LocalHost
from reusebench.samplers.readings import GroupMemory
from tests.helpers.support import known
from tests.samplers.hosts import CountingHost

_MIB = 2**20
_PID = 7
_TOTAL = 4096
_UNLIMITED_1 = "9223372036854771712"


def _tree(
    root: Path,
    cgroup: str,
    mounts: str,
    groups: Mapping[str, Mapping[str, str]],
    total_mib: int = _TOTAL,
) -> None:
    """Write a tree: /proc/PID/cgroup, mountinfo, and the files of each group by its folder."""
    _write(root / f"proc/{_PID}/cgroup", cgroup)
    if mounts:
        _write(root / "proc/self/mountinfo", mounts)
    _write(root / "proc/meminfo", f"MemTotal: {total_mib * 1024} kB\n")
    for folder, files in groups.items():
        for name, text in files.items():
            _write(root / folder.lstrip("/") / name, f"{text}\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _mount_2(root: str = "/", point: str = "/sys/fs/cgroup") -> str:
    return f"30 23 0:26 {root} {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def _mount_1(root: str = "/", point: str = "/sys/fs/cgroup/memory") -> str:
    return f"35 31 0:32 {root} {point} rw,relatime - cgroup cgroup rw,memory\n"


def _group_2(
    limit: object, used_mib: int = 0, high: object = "max", stat: str = ""
) -> dict[str, str]:
    limit = limit * _MIB if isinstance(limit, int) else limit
    high = high * _MIB if isinstance(high, int) else high
    return {
        "memory.max": str(limit),
        "memory.high": str(high),
        "memory.current": str(used_mib * _MIB),
        "memory.stat": stat,
    }


def _group_1(
    limit_mib: int | None, used_mib: int = 0, stat: str = "", **files: str
) -> dict[str, str]:
    limit = _UNLIMITED_1 if limit_mib is None else str(limit_mib * _MIB)
    own = {
        "memory.limit_in_bytes": limit,
        "memory.usage_in_bytes": str(used_mib * _MIB),
        "memory.stat": stat,
    }
    return {**own, **{name.replace("__", "."): text for name, text in files.items()}}


def _read(root: Path) -> GroupMemory | None:
    return GroupWatch(LocalHost(root), _PID).read()


_SLICE = "/sys/fs/cgroup/a.slice"

#: Name: /proc/PID/cgroup, mountinfo, groups; then the limit and what is left in MiB, and the file.
_CASES = {
    "version 2": (
        "0::/a.slice/b.scope\n",
        _mount_2(),
        {"/sys/fs/cgroup": {}, _SLICE: _group_2("max", 90), f"{_SLICE}/b.scope": _group_2(600, 80)},
        (600, 520, f"{_SLICE}/b.scope/memory.max"),
    ),
    "a parent is tighter": (
        "0::/a.slice/b.scope\n",
        _mount_2(),
        {_SLICE: _group_2(500, 450), f"{_SLICE}/b.scope": _group_2(600, 80)},
        (500, 50, f"{_SLICE}/memory.max"),
    ),
    "a wider parent has less left": (
        "0::/a.slice/b.scope\n",
        _mount_2(),
        {_SLICE: _group_2(900, 890), f"{_SLICE}/b.scope": _group_2(600, 80)},
        (600, 10, f"{_SLICE}/b.scope/memory.max"),
    ),
    "memory.high": (
        "0::/a.slice\n",
        _mount_2(),
        {_SLICE: _group_2(600, 80, high=300)},
        (300, 220, f"{_SLICE}/memory.high"),
    ),
    "a container with its own view": (
        "0::/\n",
        _mount_2(),
        {"/sys/fs/cgroup": _group_2(600, 100)},
        (600, 500, "/sys/fs/cgroup/memory.max"),
    ),
    "a container without mountinfo": (
        "0::/\n",
        "",
        {"/sys/fs/cgroup": _group_2(600, 100)},
        (600, 500, "/sys/fs/cgroup/memory.max"),
    ),
    "a group outside the own view, mounted from there": (
        "0::/../../x\n",
        _mount_2("/../.."),
        {"/sys/fs/cgroup": _group_2(900, 1), "/sys/fs/cgroup/x": _group_2(600, 100)},
        (600, 500, "/sys/fs/cgroup/x/memory.max"),
    ),
    "a mount from above the own view": (
        "0::/\n",
        _mount_2("/../.."),
        {"/sys/fs/cgroup": _group_2(700, 100)},
        (700, 600, "/sys/fs/cgroup/memory.max"),
    ),
    "version 1": (
        "4:memory:/a:b/c\n1:cpu,cpuacct:/x\n",
        _mount_1(),
        {
            "/sys/fs/cgroup/memory/a:b": _group_1(500, 100),
            "/sys/fs/cgroup/memory/a:b/c": _group_1(None, 50),
        },
        (500, 400, "/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes"),
    ),
    "version 1 in docker, whose paths are the host's": (
        "4:memory:/docker/abc\n",
        _mount_1("/docker/abc"),
        {"/sys/fs/cgroup/memory": _group_1(600, 100)},
        (600, 500, "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ),
    "version 1 with memory and swap": (
        "4:memory:/a\n",
        _mount_1(),
        {
            "/sys/fs/cgroup/memory/a": {
                **_group_1(600, 100),
                "memory.memsw.limit_in_bytes": str(600 * _MIB),
                "memory.memsw.usage_in_bytes": str(590 * _MIB),
            }
        },
        (600, 10, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes"),
    ),
    "version 1, limited above what a container sees": (
        "4:memory:/docker/abc\n",
        _mount_1("/docker/abc"),
        {
            "/sys/fs/cgroup/memory": _group_1(
                None, 100, stat=f"hierarchical_memory_limit {600 * _MIB}"
            )
        },
        (600, 500, "/sys/fs/cgroup/memory/memory.stat (hierarchical_memory_limit)"),
    ),
    "version 1 without hierarchy": (
        "4:memory:/a/b\n",
        _mount_1(),
        {
            "/sys/fs/cgroup/memory/a": {**_group_1(300, 10), "memory.use_hierarchy": "0"},
            "/sys/fs/cgroup/memory/a/b": {**_group_1(600, 100), "memory.use_hierarchy": "0"},
        },
        (600, 500, "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes"),
    ),
    "both versions, memory by 1": (
        "4:memory:/a\n0::/b\n",
        _mount_1() + _mount_2(point="/sys/fs/cgroup/unified"),
        {
            "/sys/fs/cgroup/memory/a": _group_1(600, 100),
            "/sys/fs/cgroup/unified/b": {"cgroup.procs": ""},
        },
        (600, 500, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes"),
    ),
    "an unusual place with a space": (
        "0::/a\n",
        _mount_2(point="/my\\040groups"),
        {"/my groups/a": _group_2(600, 100)},
        (600, 500, "/my groups/a/memory.max"),
    ),
    "page cache can be dropped": (
        "0::/a\n",
        _mount_2(),
        {
            "/sys/fs/cgroup/a": _group_2(
                600,
                590,
                stat=f"active_file {100 * _MIB}\ninactive_file {50 * _MIB}\nshmem {40 * _MIB}",
            )
        },
        (600, 160, "/sys/fs/cgroup/a/memory.max"),
    ),
    "more is used than the limit": (
        "0::/a\n",
        _mount_2(),
        {"/sys/fs/cgroup/a": _group_2(600, 700)},
        (600, 0, "/sys/fs/cgroup/a/memory.max"),
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_the_tightest_limit_of_all_groups_counts(name: str, tmp_path: Path) -> None:
    """A process has the limits of its own group and of every one above it."""
    cgroup, mounts, groups, (limit_mib, left_mib, source) = _CASES[name]
    _tree(tmp_path, cgroup, mounts, groups)
    memory = known(_read(tmp_path))
    assert memory.limit_bytes == limit_mib * _MIB
    assert memory.available_bytes == left_mib * _MIB
    assert memory.limit_source == source


@pytest.mark.parametrize(
    ("cgroup", "mounts", "groups"),
    [
        ("", "", {}),
        ("0::/\n", _mount_2(), {}),
        ("0::/a\n", _mount_2(), {"/sys/fs/cgroup/a": _group_2("max", 100)}),
        ("0::/a\n", _mount_2(), {"/sys/fs/cgroup/a": _group_2(_TOTAL + 1, 100)}),
        ("4:memory:/a\n", _mount_1(), {"/sys/fs/cgroup/memory/a": _group_1(None, 100)}),
        # The process is in no group of this mount.
        ("0::/../..\n", _mount_2(), {"/sys/fs/cgroup": _group_2(600, 100)}),
        ("4:memory:/b\n", _mount_1("/a"), {"/sys/fs/cgroup/memory": _group_1(600, 100)}),
        ("no group\n4:memory", "no mount\n", {"/sys/fs/cgroup/a": {"memory.max": "x"}}),
    ],
)
def test_without_a_limit_there_is_nothing_to_say(
    cgroup: str, mounts: str, groups: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    """Most processes are in no limited group, or in none that is seen."""
    _tree(tmp_path, cgroup, mounts, groups)
    assert _read(tmp_path) is None


_STAT_2 = f"""anon {100 * _MIB}
file {70 * _MIB}
kernel {9 * _MIB}
shmem {20 * _MIB}
inactive_file {30 * _MIB}
active_file {20 * _MIB}
"""
_STAT_1 = f"""cache 5
rss 6
total_cache {70 * _MIB}
total_rss {100 * _MIB}
total_shmem {20 * _MIB}
total_inactive_file {30 * _MIB}
total_active_file {20 * _MIB}
"""


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_container_is_charged_by_kind(version: int, tmp_path: Path) -> None:
    """Files of tmpfs are no page cache that can be dropped; `docker stats` counts all but idle
    page cache.
    """
    if version == 2:
        groups = {"/sys/fs/cgroup/a": _group_2(600, 180, stat=_STAT_2)}
        _tree(tmp_path, "0::/a\n", _mount_2(), groups)
    else:
        files = {**_group_1(600, 180, stat=_STAT_1), "memory.kmem.usage_in_bytes": str(9 * _MIB)}
        _tree(tmp_path, "4:memory:/a\n", _mount_1(), {"/sys/fs/cgroup/memory/a": files})
    memory = known(_read(tmp_path))
    assert memory.charged_bytes == 180 * _MIB
    assert memory.anon_bytes == 100 * _MIB
    assert memory.file_bytes == 50 * _MIB
    assert memory.shmem_bytes == 20 * _MIB
    assert memory.kernel_bytes == 9 * _MIB
    assert memory.counted_bytes == 150 * _MIB


def test_a_reading_is_one_round_trip(tmp_path: Path) -> None:
    """A remote board is asked once for all groups."""
    cgroup, mounts, groups, _ = _CASES["a parent is tighter"]
    _tree(tmp_path, cgroup, mounts, groups)
    host = CountingHost(LocalHost(tmp_path))
    watch = GroupWatch(host, _PID)
    before = host.round_trips
    assert watch.read()
    assert host.round_trips == before + 1


def test_a_group_that_vanishes_has_no_memory(tmp_path: Path) -> None:
    """A group vanishes with its last process."""
    cgroup, mounts, groups, _ = _CASES["a container with its own view"]
    _tree(tmp_path, cgroup, mounts, groups)
    watch = GroupWatch(LocalHost(tmp_path), _PID)
    for file in (tmp_path / "sys/fs/cgroup").iterdir():
        file.unlink()
    assert watch.read() is None


def test_the_own_group_comes_first(tmp_path: Path) -> None:
    """The groups are told from the process's own up to the one that is mounted."""
    _tree(tmp_path, "0::/a/b\n", _mount_2(), {})
    groups = control_groups(LocalHost(tmp_path), _PID)
    assert [group.folder.removeprefix("/sys/fs/cgroup") for group in groups] == ["/a/b", "/a", ""]
    assert [group.is_own for group in groups] == [True, False, False]
