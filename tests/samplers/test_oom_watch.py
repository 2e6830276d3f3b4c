"""Processes that the kernel killed for memory, from files that the test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.samplers.host import LocalHost
from reusebench.samplers.oom_watch import OomKills, OomWatch

_PID = 7


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("membership", "path", "text"),
    [
        ("0::/a/b\n", "sys/fs/cgroup/a/b/memory.events", "low 0\noom 9\noom_kill {}\n"),
        (
            "4:memory:/a\n0::/\n",
            "sys/fs/cgroup/memory/a/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
        ),
    ],
)
def test_a_control_group_counts_its_own(
    tmp_path: Path, membership: str, path: str, text: str
) -> None:
    """Kills before the watch and kills elsewhere on the machine do not count."""
    _write(tmp_path, f"proc/{_PID}/cgroup", membership)
    _write(tmp_path, "proc/vmstat", "oom_kill 100\n")
    _write(tmp_path, path, text.format(3))
    watch = OomWatch(LocalHost(tmp_path), _PID)
    assert watch.read() == OomKills(0, "cgroup")
    _write(tmp_path, "proc/vmstat", "oom_kill 200\n")
    _write(tmp_path, path, text.format(5))
    assert watch.read() == OomKills(2, "cgroup")
    (tmp_path / path).unlink()
    assert watch.read() is None


def test_without_a_group_the_machine_counts(tmp_path: Path) -> None:
    """A kernel before 4.13 has no count at all."""
    _write(tmp_path, "proc/vmstat", "pgfault 9\noom_kill 100\n")
    watch = OomWatch(LocalHost(tmp_path), _PID)
    _write(tmp_path, "proc/vmstat", "pgfault 9\noom_kill 101\n")
    assert watch.read() == OomKills(1, "system")
    _write(tmp_path, "proc/vmstat", "pgfault 9\n")
    assert watch.read() is None
    assert OomWatch(LocalHost(tmp_path), _PID).read() is None
