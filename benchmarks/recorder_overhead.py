"""What `reusebench record` costs the program that it records: `python -m
benchmarks.recorder_overhead`.

A pipeline of frames, all the same work, is recorded. The recorder is stopped and let go on in turn
(SIGSTOP, SIGCONT), so that the time of a frame with it stands beside that without it, a second
away: what else the machine does touches both. Time is CPU time; CPU time with all waiting, above
all for the lock of the memory, but that for a CPU which others had; and wall time. Each stretch
with the recorder makes a pair with the mean of the two around it. The median of the pairs stands
with the interval that holds it at a confidence of 95 %, which is from the order of the pairs alone.

It needs a C compiler, and a kernel with CONFIG_SCHED_INFO.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quick import compiler, parse
from tests.helpers.support import CHECKOUT

_SOURCE = Path(__file__).with_suffix(".c")
_CONFIDENCE = 0.95
#: Until the program holds its memory, and the recorder has come to its steady rates.
_START_S = 3.0


@dataclass(frozen=True)
class Progress:
    """How far the program had come, in frames, by several clocks."""

    wall_s: Sequence[float]
    #: Its own CPU time.
    cpu_s: Sequence[float]
    #: Time that its threads waited for a CPU which others had.
    waited_s: Sequence[float]
    frames: Sequence[float]


@dataclass(frozen=True)
class Stretch:
    """A stretch of time in which the recorder ran, or did not."""

    begin_s: float
    end_s: float
    is_recorded: bool


@dataclass(frozen=True)
class Interval:
    """A median with its confidence interval, in percent."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return it in a line."""
        return f"{self.median:+.2f} % ({self.low:+.2f} to {self.high:+.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print by how much a frame takes longer, and what the recorder itself took."""
    parser = argparse.ArgumentParser("python -m benchmarks.recorder_overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=100, help="default: 100")
    parser.add_argument(
        "--stretch",
        type=float,
        default=1.0,
        metavar="S",
        help="seconds with and without; default: 1",
    )
    parser.add_argument("--threads", type=int, default=1, help="of the program; default: 1")
    parser.add_argument(
        "--resident", type=int, default=200, metavar="MIB", help="held all the time; default: 200"
    )
    options = parse(parser, arguments, ("--pairs=3", "--stretch=0.3", "--resident=20"))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = str(Path(folder) / "pipeline")
        subprocess.run([compiler(), "-O2", "-pthread", "-o", pipeline, str(_SOURCE)], check=True)
        program = [pipeline, str(options.threads), str(options.resident)]
        progress, stretches, cpu_percent = _measure(
            program, options.pairs, options.stretch, Path(folder)
        )
    print(
        f"{options.pairs} pairs, {options.threads} threads, {options.resident} MiB, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    own_s = [
        options.threads * wall - waited for wall, waited in zip(progress.wall_s, progress.waited_s)
    ]
    print("A frame takes, recorded, more of:")
    print(f"  CPU time                     {_slowdown(progress, progress.cpu_s, stretches)}")
    print(f"  CPU time and locks' waits    {_slowdown(progress, own_s, stretches)}")
    print(f"  wall time                    {_slowdown(progress, progress.wall_s, stretches)}")
    print(f"CPU time of the recorder: {cpu_percent:.2f} % of one CPU, while it runs")


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with the two values between which it is at the confidence."""
    ordered = sorted(values)
    count = len(values)
    outside = 0
    beyond = 1 / 2**count
    while beyond <= (1 - _CONFIDENCE) / 2:
        outside += 1
        beyond += math.comb(count, outside) / 2**count
    # With so many values outside on each side; with one more they would be too many.
    outside = max(outside - 1, 0)
    return Interval(statistics.median(ordered), ordered[outside], ordered[count - 1 - outside])


def _measure(
    program: Sequence[str], pairs: int, stretch_s: float, folder: Path
) -> tuple[Progress, list[Stretch], float]:
    """Return the program's progress, when it was recorded, and the recorder's CPU time in percent
    of that time.
    """
    seconds = _START_S + (2 * pairs + 1) * stretch_s + 1
    record = [
        sys.executable,
        "-m",
        "reusebench",
        "record",
        "--storage",
        str(folder / "storage"),
        "--",
    ]
    command = [*record, program[0], str(seconds), *program[1:]]
    output = folder / "progress"
    with output.open("w") as file, subprocess.Popen(command, cwd=CHECKOUT, stdout=file) as recorder:
        while not output.stat().st_size:
            time.sleep(0.01)
        time.sleep(_START_S)
        before_s = _cpu_s(recorder.pid)
        stretches = _in_turn(recorder.pid, 2 * pairs + 1, stretch_s)
        cpu_s = _cpu_s(recorder.pid) - before_s
    numbers = [[float(word) for word in line.split()] for line in output.read_text().splitlines()]
    recorded_s = sum(
        stretch.end_s - stretch.begin_s for stretch in stretches if stretch.is_recorded
    )
    return Progress(*zip(*numbers)), stretches, 100 * cpu_s / recorded_s


def _in_turn(recorder: int, count: int, stretch_s: float) -> list[Stretch]:
    """Stop the recorder and let it go on, in turn; return the stretches, the first and the last
    without it.
    """
    stretches = []
    for number in range(count):
        is_recorded = bool(number % 2)
        os.kill(recorder, signal.SIGCONT if is_recorded else signal.SIGSTOP)
        begin_s = time.monotonic()
        time.sleep(stretch_s)
        stretches.append(Stretch(begin_s, time.monotonic(), is_recorded))
    os.kill(recorder, signal.SIGCONT)
    return stretches


def _slowdown(
    progress: Progress, clock_s: Sequence[float], stretches: Sequence[Stretch]
) -> Interval:
    """Return by how many percent more of that clock's time a frame takes while it is recorded."""
    costs = [
        _change(progress, clock_s, stretch) / _change(progress, progress.frames, stretch)
        for stretch in stretches
    ]
    # Stretches with the recorder are those of odd numbers.
    pairs = list(zip(costs, costs[1:], costs[2:]))[::2]
    return median_interval(
        [200 * recorded / (before + after) - 100 for before, recorded, after in pairs]
    )


def _change(progress: Progress, values: Sequence[float], stretch: Stretch) -> float:
    return _at(progress.wall_s, values, stretch.end_s) - _at(
        progress.wall_s, values, stretch.begin_s
    )


def _at(times_s: Sequence[float], values: Sequence[float], time_s: float) -> float:
    """Return the value at that time, on the straight line between its neighbours."""
    after = min(max(bisect_left(times_s, time_s), 1), len(times_s) - 1)
    before = after - 1
    share = (time_s - times_s[before]) / (times_s[after] - times_s[before])
    return values[before] + share * (values[after] - values[before])


def _cpu_s(pid: int) -> float:
    """Return the CPU time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
