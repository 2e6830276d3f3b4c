"""The memory that `--limit` of `reusebench fit` may be, on machines and in containers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.commands.fit_limits import limit_on
from reusebench.harness.errors import UserError
from reusebench.samplers.host import LocalHost
from reusebench.targets.machine import LocalMachine
from reusebench.targets.target import THIS_INTERPRETER, Target

_MIB = 2**20
_MEMINFO = """MemTotal: 4194304 kB
MemFree: 2097152 kB
MemAvailable: {available} kB
Cached: 0 kB
Slab: 0 kB
Shmem: 0 kB
SwapFree: 0 kB
CmaTotal: 65536 kB
CmaFree: 32768 kB
"""


def _target(root: Path, limit: str = "max", available_mib: int = 2048) -> Target:
    """Return a target in a container with this limit, which is charged 100 MiB."""
    for path, text in {
        "proc/meminfo": _MEMINFO.format(available=available_mib * 1024),
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": limit,
        "sys/fs/cgroup/memory.current": str(100 * _MIB),
        "sys/fs/cgroup/memory.stat": f"inactive_file {20 * _MIB}\n",
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return replace(THIS_INTERPRETER, machine=_Machine(root))


class _Machine(LocalMachine):
    """This machine, whose files are read from another root."""

    def __init__(self, root: Path) -> None:
        self.host = LocalHost(root)


def test_what_a_container_has_left_is_free(tmp_path: Path) -> None:
    """The machine has 2 GiB available, and the container 600 MiB, of which 80 cannot be dropped."""
    limit = limit_on(_target(tmp_path, str(600 * _MIB)), "free", binds=False)
    assert limit.size_bytes == 520 * _MIB
    assert limit.source == "/sys/fs/cgroup/memory.max"


def test_a_machine_with_less_than_its_container(tmp_path: Path) -> None:
    """Nobody gets more than the machine has available."""
    limit = limit_on(_target(tmp_path, str(600 * _MIB), available_mib=300), "free", binds=False)
    assert (limit.size_bytes, limit.source) == (300 * _MIB, None)


def test_a_machine_without_limits(tmp_path: Path) -> None:
    """MemAvailable is free."""
    limit = limit_on(_target(tmp_path), "free", binds=False)
    assert (limit.size_bytes, limit.source) == (2048 * _MIB, None)


def test_more_than_the_container_may_have_is_a_mistake(tmp_path: Path) -> None:
    """The sentence names the file with the limit."""
    target = _target(tmp_path, str(600 * _MIB))
    with pytest.raises(UserError, match=r"limited by /sys/fs/cgroup/memory.max to 600.00 MiB"):
        limit_on(target, 700 * _MIB, binds=False)


def test_contiguous_memory_is_in_no_group(tmp_path: Path) -> None:
    """A chip without an IOMMU takes it from CMA, which is charged to nobody."""
    target = replace(_target(tmp_path, str(20 * _MIB)), chip="rv1106")
    assert limit_on(target, "free", binds=True).size_bytes == 32 * _MIB
