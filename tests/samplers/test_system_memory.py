"""Memory of the system, its noise, and what of the machine bears on memory."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from samplers import environment as environment_module
from samplers import system
from samplers.environment import environment
from samplers.files import parse_sizes
from samplers.readings import Environment, SystemMemory
from samplers.system import observe_idle, oom_kills, read_system

#: As a board with a 5.10 kernel writes it, shortened.
_BOARD = """MemTotal:        3936932 kB
MemFree:          194920 kB
MemAvailable:    2213456 kB
Buffers:           52460 kB
Cached:          1950276 kB
SwapCached:            0 kB
Active(anon):      12345 kB
SwapTotal:             0 kB
SwapFree:              0 kB
Shmem:             31844 kB
Slab:             156480 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
CmaTotal:          65536 kB
CmaFree:           61232 kB
"""


def test_a_board_with_cma(tmp_path: Path) -> None:
    """Each figure is the line of its name, in bytes; what the kernel does not have is None, and not 0."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(_BOARD)
    memory = read_system(meminfo)
    assert memory == SystemMemory(
        total_bytes=3936932 * 1024,
        free_bytes=194920 * 1024,
        available_bytes=2213456 * 1024,
        cached_bytes=1950276 * 1024,
        slab_bytes=156480 * 1024,
        shmem_bytes=31844 * 1024,
        swap_free_bytes=0,
        cma_total_bytes=65536 * 1024,
        cma_free_bytes=61232 * 1024,
    )
    assert memory.used_bytes == (3936932 - 2213456) * 1024
    meminfo.write_text(_BOARD[: _BOARD.index("CmaTotal")])
    memory = read_system(meminfo)
    assert (memory.cma_total_bytes, memory.cma_free_bytes) == (None, None)


def test_this_machine() -> None:
    """The real file holds together."""
    memory = read_system()
    assert 0 < memory.free_bytes <= memory.total_bytes
    assert 0 < memory.used_bytes < memory.total_bytes


def test_sizes_are_the_lines_with_a_unit() -> None:
    """Counts, headings and flags are left out."""
    text = "55d0-7ffe ---p 00000000 00:00 0   [rollup]\nRss:     12 kB\nThreads:\t4\nVmFlags: rd ex\nName: a: 3 kB\n\n"
    assert parse_sizes(text) == {"Rss": 12 * 1024}


@pytest.mark.parametrize(
    ("used", "after", "noise_bytes", "cpu_percent"),
    [
        ([5000] * 7, (1, 0, 1, 100, 1, 0, 0), 0, 0),
        ([5000, 5100, 4800, 5000, 5300, 5000, 9999], (1.2, 0.1, 1.1, 101, 1.5, 0.05, 0.05), 250, 25),
    ],
)
def test_noise_is_half_the_range(
    monkeypatch: pytest.MonkeyPatch, used: list[int], after: tuple[float, ...], noise_bytes: int, cpu_percent: float
) -> None:
    """System figures are given +- this, so the range is halved; work of others is its share of all CPUs' time.

    Time passes only by sleeping. Constant memory and clocks that stand give zeros.
    """
    now_s = [0.0]
    times = namedtuple("times", "user nice system idle iowait irq softirq")
    cpu_times = iter((times(1, 0, 1, 100, 1, 0, 0), times(*after)))
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda seconds: now_s.append(now_s.pop() + seconds))
    monkeypatch.setattr(system, "time", clock)
    monkeypatch.setattr(system, "psutil", SimpleNamespace(cpu_times=lambda: next(cpu_times)))
    monkeypatch.setattr(system, "used_bytes", iter(used).__next__)
    idle = observe_idle(0.099)
    assert idle.memory_noise_bytes == noise_bytes
    assert idle.cpu_percent == pytest.approx(cpu_percent)


def test_noise_of_this_machine() -> None:
    """The real one is a share, and a size."""
    idle = observe_idle(0.05)
    assert idle.memory_noise_bytes >= 0
    assert 0 <= idle.cpu_percent <= 100


def test_the_environment_is_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """It survives JSON, has the machine's sizes, and only the variables that bear on memory or speed."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    monkeypatch.setenv("SECRET_TOKEN", "mine")
    facts = environment("board")
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Environment) == facts
    assert facts.memory_total_bytes == read_system().total_bytes
    assert facts.usable_cpus >= 1
    assert facts.variables["MALLOC_ARENA_MAX"] == "2"
    assert "SECRET_TOKEN" not in facts.variables


_FACTS = {
    "board_model": ("/proc/device-tree/model", "Radxa ROCK 5B\0", "Radxa ROCK 5B", None),
    "board_compatible": (
        "/proc/device-tree/compatible",
        "radxa,rock-5b\0rockchip,rk3588\0",
        ("radxa,rock-5b", "rockchip,rk3588"),
        None,
    ),
    "transparent_hugepages": (
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n",
        "madvise",
        None,
    ),
    "swaps": ("/proc/swaps", "Filename\tType\n/dev/zram0 partition\n/swap file\n", 2, 0),
    "overcommit_memory": ("/proc/sys/vm/overcommit_memory", "1\n", "1", None),
    "cpu_governor": ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n", "performance", None),
}


@pytest.mark.parametrize("is_board", [True, False])
def test_facts_of_a_board(monkeypatch: pytest.MonkeyPatch, is_board: bool) -> None:
    """The device tree's words, the driver's version, the word in brackets; None on a laptop or in a container."""
    texts = {path: text for path, text, _, _ in _FACTS.values()}
    read = Path.read_text

    def read_text(path: Path, *arguments: Any, **options: Any) -> str:
        if str(path) not in texts:
            return read(path, *arguments, **options)
        if not is_board:
            raise FileNotFoundError
        return texts[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(environment_module, "rknpu_driver_version", lambda: "0.9.8")
    facts = environment("board")
    expected = {name: board if is_board else other for name, (_, _, board, other) in _FACTS.items()}
    assert {name: getattr(facts, name) for name in _FACTS} == expected
    assert facts.npu_driver_version == "0.9.8"


def test_processes_that_were_killed_for_memory_are_counted(tmp_path: Path) -> None:
    """A kernel that does not count them gives 0, and this machine's count never falls."""
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 12\noom_kill 3\n")
    assert oom_kills(vmstat) == 3
    vmstat.write_text("nr_free_pages 12\n")
    assert oom_kills(vmstat) == 0
    assert oom_kills() <= oom_kills()
