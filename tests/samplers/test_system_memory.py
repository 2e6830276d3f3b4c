"""Memory of the system, its noise, and the facts about the machine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from reusebench.samplers import system_memory
from reusebench.samplers.environment import environment
from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.proc_files import parse_meminfo, parse_sizes
from reusebench.samplers.readings import Environment, SystemMemory
from reusebench.samplers.sources import memory_sources
from reusebench.samplers.system_memory import observe_idle, oom_kills, read_system
from tests.samplers.hosts import link_process

#: The file of a board with a 5.10 kernel, shortened.
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


def test_a_board_with_cma() -> None:
    """Each figure is its line in bytes; a line that the kernel lacks gives None, not 0."""
    memory = parse_meminfo(_BOARD)
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
    memory = parse_meminfo(_BOARD[: _BOARD.index("CmaTotal")])
    assert (memory.cma_total_bytes, memory.cma_free_bytes) == (None, None)


def test_this_machine() -> None:
    """The figures of the real file are consistent."""
    memory = read_system(LOCAL_HOST)
    assert 0 < memory.free_bytes <= memory.total_bytes
    assert 0 < memory.used_bytes < memory.total_bytes


def test_sizes_are_the_lines_with_a_unit() -> None:
    """Counts, headings and flags are left out; sizes of several mappings are summed."""
    text = (
        "55d0-7ffe ---p 00000000 00:00 0   [rollup]\nRss:     12 kB\nThreads:\t4\nVmFlags: rd"
        " ex\nName: a: 3 kB\n\n"
    )
    text += "7fff-8000 r--p 00000000 00:00 0   /weights: 5 kB\nRss:      4 kB\n"
    assert parse_sizes(text) == {"Rss": 16 * 1024}


class _PlayedHost(LocalHost):
    """A machine that returns given values of used memory, in KiB, and lines of CPU time."""

    def __init__(self, used_kib: list[int], cpus: list[str]) -> None:
        super().__init__()
        self._used_kib = iter(used_kib)
        self._cpus = iter(cpus)

    def read(self, path: str) -> bytes:
        """Return the next figure."""
        if path == "/proc/stat":
            return next(self._cpus).encode()
        assert path == "/proc/meminfo"
        available_kib = 3936932 - next(self._used_kib)
        return _BOARD.replace("2213456", str(available_kib)).encode()


@pytest.mark.parametrize(
    ("used_kib", "after", "noise_kib", "cpu_percent"),
    [
        ([5000] * 7, ("1 0 1 100 1 0 0", "0 0 0 0 0 0 0"), 0, 0),
        (
            [5000, 5100, 4800, 5000, 5300, 5000, 9999],
            ("6 5 6 110 1 5 0 99", "10 0 0 60 0 0 0"),
            250,
            30,
        ),
    ],
)
def test_noise_is_half_the_range(
    monkeypatch: pytest.MonkeyPatch,
    used_kib: list[int],
    after: tuple[str, str],
    noise_kib: int,
    cpu_percent: float,
) -> None:
    """Noise is half the range, since figures are given with ±.

    Other work is a share of all CPUs' time. Time passes only by sleeping. Constant memory and
    clocks that stand still give zeros.
    """
    now_s = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: now_s[0], sleep=lambda seconds: now_s.append(now_s.pop() + seconds)
    )
    monkeypatch.setattr(system_memory, "time", clock)
    cores = (("1 0 1 100 1 0 0", "0 0 0 0 0 0 0"), after)
    idle = observe_idle(
        _PlayedHost(used_kib, [f"cpu  9 9\ncpu0 {one}\ncpu1 {other}\n" for one, other in cores]),
        0.099,
    )
    assert idle.memory_noise_bytes == noise_kib * 1024
    assert idle.cpu_percent == pytest.approx(cpu_percent)


def test_noise_of_this_machine() -> None:
    """The real noise is a size, and the load a share."""
    idle = observe_idle(LOCAL_HOST, 0.05)
    assert idle.memory_noise_bytes >= 0
    assert 0 <= idle.cpu_percent <= 100


def test_the_environment_is_plain_data(tmp_path: Path) -> None:
    """It survives JSON, has the machine's sizes, and only variables that affect memory or speed."""
    link_process(tmp_path, os.getpid())
    (tmp_path / "proc/self").symlink_to(str(os.getpid()))
    (tmp_path / "proc/self/environ").write_text(
        "SECRET_TOKEN=mine\0OMP_NUM_THREADS=\0MALLOC_ARENA_MAX=2\0"
    )
    facts = environment(LocalHost(tmp_path), "board")
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Environment) == facts
    assert facts.memory_total_bytes == read_system(LOCAL_HOST).total_bytes
    assert facts.usable_cpus >= 1
    assert facts.variables == {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": ""}


def test_the_environment_of_this_machine() -> None:
    """The real environment names its board, and has the sources of its figures."""
    facts = environment(LOCAL_HOST, "board")
    assert (facts.board, facts.page_size_bytes) == ("board", LOCAL_HOST.page_bytes)
    assert facts.memory_sources == tuple(memory_sources(LOCAL_HOST, os.getpid()))


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
    "cpu_governor": (
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "performance\n",
        "performance",
        None,
    ),
}


@pytest.mark.parametrize("is_board", [True, False])
def test_facts_of_a_board(tmp_path: Path, is_board: bool) -> None:
    """A board has device tree strings and a driver version; a laptop or a container has None."""
    link_process(tmp_path, os.getpid())
    (tmp_path / "proc/self").symlink_to(str(os.getpid()))
    driver = ("/sys/module/rknpu/version", "0.9.8\n")
    for path, text in (
        (*((path, text) for path, text, _, _ in _FACTS.values()), driver) if is_board else ()
    ):
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text(text)
    facts = environment(LocalHost(tmp_path), "board")
    expected = {name: board if is_board else other for name, (_, _, board, other) in _FACTS.items()}
    assert {name: getattr(facts, name) for name in _FACTS} == expected
    assert facts.npu_driver_version == ("0.9.8" if is_board else None)


def test_processes_that_were_killed_for_memory_are_counted(tmp_path: Path) -> None:
    """A kernel that does not count them gives 0; this machine's count never falls."""
    vmstat = tmp_path / "proc/vmstat"
    vmstat.parent.mkdir()
    for text, kills in (("nr_free_pages 12\noom_kill 3\n", 3), ("nr_free_pages 12\n", 0)):
        vmstat.write_text(text)
        assert oom_kills(LocalHost(tmp_path)) == kills
    assert oom_kills(LOCAL_HOST) <= oom_kills(LOCAL_HOST)
