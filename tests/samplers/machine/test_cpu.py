"""CPU use of cores and processes, from written counters and from this machine's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.samplers.machine.watch import MachineWatch
from reusebench.samplers.readings import CpuUse
from tests.helpers.support import TIME_LIMIT_S

_PID = 4321
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: A program whose main thread rests; its argument decides whether a second thread does.
_THREADED = """
import sys, threading, time
def spin():
    while True: pass
if sys.argv[1] == "busy": threading.Thread(target=spin, daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


class _Clock(LocalHost):
    """A machine whose counters and time the test sets."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._proc = root / "proc"
        self._seconds = 0
        for process in (str(_PID), "self"):
            (self._proc / process).mkdir(parents=True)
        self.watch = MachineWatch(self, _PID)

    def count(
        self, seconds: int, cores: dict[int, str], process_s: float = 0, harness_s: float = 0
    ) -> None:
        """Read at that second: fields of each core, and the CPU time of the two processes."""
        self._seconds = seconds
        lines = [
            "cpu  9 9 9 9 9 9 9 9 9 9",
            *(f"cpu{core} {fields}" for core, fields in cores.items()),
            "intr 5 cpu7",
        ]
        (self._proc / "stat").write_text("\n".join(lines) + "\n")
        for process, spent_s in ((str(_PID), process_s), ("self", harness_s)):
            ticks = int(spent_s * _TICKS_PER_S)
            fields = (
                f"77 (a b) c) R 1 2 3 4 5 6 7 8 9 10 {ticks - 1 if ticks else 0}"
                f" {1 if ticks else 0} 99 99 20"
            )
            (self._proc / process / "stat").write_text(fields)
        self.watch.read()

    def end_process(self) -> None:
        (self._proc / str(_PID) / "stat").unlink()

    def now_ns(self) -> int:
        """Return the time that the test has set."""
        return self._seconds * 10**9


@pytest.fixture
def clock(tmp_path: Path) -> _Clock:
    """A machine before its first reading."""
    return _Clock(tmp_path)


def test_busy_is_what_is_neither_idle_nor_waiting_nor_stolen(clock: _Clock) -> None:
    """The machine was half busy: 30 ticks were busy, 30 rested, and 40 were stolen.

    Guest time is part of user time.
    """
    clock.count(0, {0: "0 0 0 0 0 0 0 0 0 0"})
    clock.count(1, {0: "10 5 5 20 10 5 5 40 10 0"})
    assert clock.watch.cpu().cores_percent == (50,)


def test_means_are_over_all(clock: _Clock) -> None:
    """The first of three seconds was busy; time before the first reading does not count."""
    clock.count(10, {0: "900 0 0 100 0 0 0 0"}, process_s=500, harness_s=7)
    clock.count(11, {0: "1000 0 0 100 0 0 0 0"}, process_s=502, harness_s=7.1)
    clock.count(13, {0: "1000 0 0 300 0 0 0 0"}, process_s=502.5, harness_s=7.3)
    means = clock.watch.cpu()
    assert means.cores_percent[0] == pytest.approx(100 / 3)
    assert means.process_percent == pytest.approx(250 / 3)
    assert means.harness_percent == pytest.approx(10)


@pytest.mark.parametrize(
    "back", [("0 0 0 3 0 0 0", "40 0 0 63 0 0 0"), ("520 0 0 780 0 0 0", "560 0 0 840 0 0 0")]
)
def test_a_core_that_goes_offline_and_comes_back(clock: _Clock, back: tuple[str, str]) -> None:
    """The mean of a core is over its time online, whether its counters restart or continue.

    Other cores keep their numbers.
    """
    clock.count(0, {0: "0 0 0 0 0 0 0", 1: "500 0 0 500 0 0 0", 2: "0 0 0 0 0 0 0"})
    clock.count(1, {0: "0 0 0 100 0 0 0", 1: "520 0 0 580 0 0 0", 2: "100 0 0 0 0 0 0"})
    clock.count(2, {0: "0 0 0 200 0 0 0", 2: "200 0 0 0 0 0 0"})
    clock.count(3, {0: "0 0 0 300 0 0 0", 1: back[0], 2: "300 0 0 0 0 0 0"})
    clock.count(4, {0: "0 0 0 400 0 0 0", 1: back[1], 2: "400 0 0 0 0 0 0"})
    assert clock.watch.cpu().cores_percent == (0, 30, 100)


def test_counters_that_decrease(clock: _Clock) -> None:
    """A decrease adds nothing: a share stays between 0 and 100 %."""
    clock.count(0, {0: "50 0 0 50 900 0 0"})
    clock.count(1, {0: "60 0 0 60 20 0 0"})
    assert clock.watch.cpu().cores_percent == (100,)
    clock.count(2, {0: "0 0 0 70 20 0 0"})
    assert clock.watch.cpu().cores_percent == (50,)


def test_a_process_that_has_gone(clock: _Clock) -> None:
    """The mean ends with the last successful reading."""
    clock.count(0, {})
    clock.count(2, {}, process_s=1)
    clock.end_process()
    clock.watch.read()
    assert clock.watch.cpu().process_percent == 50


def test_one_reading_is_no_interval(clock: _Clock) -> None:
    """There is no core and no percentage yet."""
    clock.count(0, {0: "1 1 1 1 1 1 1"}, process_s=5)
    assert clock.watch.cpu() == CpuUse((), 0, 0)


@pytest.mark.process
def test_a_busy_thread_on_this_machine() -> None:
    """The thread counts for its process and for a core, and no core exceeds 100 %."""
    with ExitStack() as children:
        watches = []
        for how in ("busy", "idle"):
            child = subprocess.Popen(
                [sys.executable, "-c", _THREADED, how], stdout=subprocess.PIPE, text=True
            )
            children.enter_context(child)
            children.callback(child.kill)
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            watches.append(MachineWatch(LOCAL_HOST, child.pid))
        busy, idle = watches
        end_s = time.monotonic() + TIME_LIMIT_S
        while (
            not (busy.cpu().process_percent and any(busy.cpu().cores_percent))
            and time.monotonic() < end_s
        ):
            busy.read()
            idle.read()
            time.sleep(0.05)
    use = busy.cpu()
    assert use.process_percent > 2 * idle.cpu().process_percent
    assert use.harness_percent >= 0
    assert len(use.cores_percent) >= len(os.sched_getaffinity(0))
    assert 0 < max(use.cores_percent) <= 100
    assert min(use.cores_percent) >= 0
