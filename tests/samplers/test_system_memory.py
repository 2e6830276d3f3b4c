"""Memory of the system, its noise, and what of the machine bears on memory."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from samplers import environment as environment_module
from samplers import system
from samplers.environment import environment
from samplers.procfs import parse_sizes
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


def _meminfo(folder: Path, text: str) -> Path:
    path = folder / "meminfo"
    path.write_text(text)
    return path


def test_a_board_with_cma(tmp_path: Path) -> None:
    """Each figure is the line of its name, in bytes."""
    memory = read_system(_meminfo(tmp_path, _BOARD))
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


def test_a_machine_without_cma(tmp_path: Path) -> None:
    """What the kernel does not have is None, and not 0."""
    text = "".join(line for line in _BOARD.splitlines(keepends=True) if not line.startswith("Cma"))
    memory = read_system(_meminfo(tmp_path, text))
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


class Clock:
    """A machine in which time passes only by sleeping, and memory is what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, used: list[int], cpu: list[tuple[float, ...]]) -> None:
        self._now, self._used, self._cpu = 0.0, iter(used), iter(cpu)
        times = namedtuple("times", "user nice system idle iowait irq softirq")
        monkeypatch.setattr(system, "time", SimpleNamespace(monotonic=lambda: self._now, sleep=self._sleep))
        monkeypatch.setattr(system, "psutil", SimpleNamespace(cpu_times=lambda: times(*next(self._cpu))))
        monkeypatch.setattr(system, "used_bytes", lambda: next(self._used))

    def _sleep(self, seconds: float) -> None:
        self._now += seconds


_STILL = (1.0, 0, 1, 100, 1, 0, 0)


def test_noise_of_a_machine_that_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constant memory and clocks that stand give zeros."""
    Clock(monkeypatch, used=[5000] * 100, cpu=[_STILL, _STILL])
    idle = observe_idle(0.1)
    assert (idle.memory_noise_bytes, idle.cpu_percent) == (0, 0)


def test_noise_is_half_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """System figures are given +- this, so the range is halved; work of others is its share of all CPUs' time."""
    readings = [5000, 5100, 4800, 5000, 5300, 5000, 9999]
    Clock(monkeypatch, used=readings, cpu=[_STILL, (1.2, 0.1, 1.1, 101, 1.5, 0.05, 0.05)])
    idle = observe_idle(0.099)
    assert idle.memory_noise_bytes == (5300 - 4800) // 2
    assert idle.cpu_percent == pytest.approx(100 * 0.5 / 2.0)


def test_noise_of_this_machine() -> None:
    """The real one is a share, and a size."""
    idle = observe_idle(0.05)
    assert idle.memory_noise_bytes >= 0
    assert 0 <= idle.cpu_percent <= 100


def test_the_environment_is_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """It survives JSON, has the machine's sizes, and only the variables that bear on memory or speed."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    monkeypatch.setenv("SECRET_TOKEN", "mine")
    found = environment("board")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Environment) == found
    assert found.memory_total_bytes == read_system().total_bytes
    assert found.usable_cpus >= 1
    assert found.variables["MALLOC_ARENA_MAX"] == "2"
    assert "SECRET_TOKEN" not in found.variables


def test_what_a_machine_does_not_say_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop has no device tree, a container no governor."""
    monkeypatch.setattr(environment_module, "_read", lambda _: None)
    found = environment("board")
    missing = found.board_model, found.cpu_governor, found.cpu_max_khz, found.overcommit_memory
    assert (*missing, found.transparent_hugepages, found.board_compatible) == (None,) * 6
    assert found.swaps == 0


def test_texts_of_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device tree's zero byte is cut off, the choice is the word in brackets, and swap areas are counted."""
    texts = {
        "/proc/device-tree/model": "Radxa ROCK 5B\0",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "/proc/swaps": "Filename\tType\n/dev/zram0 partition\n/swap file\n",
        "/proc/sys/vm/overcommit_memory": "1\n",
    }
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: texts.get(str(self)) or read(self, *a, **k))
    found = environment("board")
    assert found.board_model == "Radxa ROCK 5B"
    assert found.transparent_hugepages == "madvise"
    assert (found.swaps, found.overcommit_memory) == (2, "1")


def test_processes_that_were_killed_for_memory_are_counted(tmp_path: Path) -> None:
    """A kernel that does not count them says nothing, and this machine's count never falls."""
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 12\noom_kill 3\n")
    assert oom_kills(vmstat) == 3
    vmstat.write_text("nr_free_pages 12\n")
    assert oom_kills(vmstat) == 0
    assert oom_kills() <= oom_kills()
