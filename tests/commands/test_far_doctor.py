"""`reusebench doctor --target BOARD`: what is on a board far away, and what is in the way there."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from reusebench.commands import far_doctor
from reusebench.commands.far_doctor import obstacles
from reusebench.measured.runtimes import RuntimeEntry
from reusebench.samplers.host import LocalHost
from tests.helpers.far_shell import shell_at
from tests.helpers.support import Reusebench

pytestmark = pytest.mark.process

_ELSEWHERE = RuntimeEntry(
    "elsewhere", "Elsewhere", "no.adapter", "no_such_module", "pip install it", "cpu", (".it",)
)


def test_a_board_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """Beyond a shell on a pipe: its kernel, its folder, what it can run and which readings it
    has.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    assert (
        reusebench("board", "add", "here", shell_at(tmp_path), "--python", sys.executable).exit_code
        == 0
    )
    done = reusebench("doctor", "--target", "here")
    assert (done.exit_code, done.err) == (0, "")
    rows = {line.split()[0]: line for line in done.out.splitlines() if line}
    assert f"Linux {platform.release()}" in rows["system"]
    assert f"user {os.getuid()}" in rows["system"]
    assert str(tmp_path / ".cache" / "reusebench-board") in rows["folder"]
    assert {"model", "memory", "reader", "Python", "rknn", "onnxruntime", "/proc/meminfo"} <= set(
        rows
    )


def test_a_board_without_a_runtime(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """Nothing can be measured there, although there is much to be read: the exit code is 1."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setattr(far_doctor, "RUNTIMES", (_ELSEWHERE,))
    assert (
        reusebench("board", "add", "here", shell_at(tmp_path), "--python", sys.executable).exit_code
        == 0
    )
    done = reusebench("doctor", "--target", "here")
    assert (done.exit_code, done.err) == (1, "")
    rows = {line.split()[0]: line.split()[1] for line in done.out.splitlines() if line}
    assert (rows["elsewhere"], rows["/proc/meminfo"]) == ("no", "yes")


def test_what_is_in_the_way(tmp_path: Path) -> None:
    """A camera service, a governor that changes frequencies, compressed memory and files in memory,
    each by name.
    """
    tree = {
        "proc/7/comm": "rkipc\n",
        "proc/8/comm": "sh\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 131068 0 100\n",
        "proc/mounts": "/dev/root / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n",
        "proc/meminfo": _meminfo(shmem_kb=3072),
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
    }
    host = _host(tmp_path, tree)
    assert [part.name for part in obstacles(host)] == ["rkipc", "frequency", "/dev/zram0", "tmpfs"]
    assert "3.0 MiB" in list(obstacles(host))[-1].remark


def test_nothing_is_in_the_way(tmp_path: Path) -> None:
    """A quiet board has no such row: nothing in its tmpfs, no swap, a governor that keeps still."""
    tree = {
        "proc/7/comm": "sh\n",
        "proc/swaps": "Filename Type Size Used Priority\n",
        "proc/mounts": "tmpfs /tmp tmpfs rw 0 0\n",
        "proc/meminfo": _meminfo(shmem_kb=0),
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    }
    assert list(obstacles(_host(tmp_path, tree))) == []


def _host(root: Path, tree: dict[str, str]) -> LocalHost:
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return LocalHost(root)


def _meminfo(shmem_kb: int) -> str:
    sizes = {
        "MemTotal": 65536,
        "MemFree": 20000,
        "MemAvailable": 30000,
        "Cached": 9000,
        "Slab": 900,
        "SwapFree": 0,
    }
    return "".join(f"{name}: {size} kB\n" for name, size in {**sizes, "Shmem": shmem_kb}.items())
