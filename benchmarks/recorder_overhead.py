"""Slowdown of programs by `reusebench record`: `python -m benchmarks.recorder_overhead`.

It records a pipeline of frames of equal work. The recorder is stopped and continued in turn
(SIGSTOP, SIGCONT), so that frames with and without it are compared a second apart, and other work
on the machine affects both. Three times are compared: CPU time; CPU time plus waiting, above all
for the lock of the memory, but not for a CPU; and wall time. Each stretch with the recorder makes a
pair with the mean of the two stretches around it. The output has the median of the pairs with its
95 % confidence interval, from order statistics.

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
#: Time until the program has allocated its memory and the recorder has its steady rates.
_START_S = 3.0


@dataclass(frozen=True)
class Progress:
    """The program's finished frames, by several clocks."""

    wall_s: Sequence[float]
    #: The program's own CPU time.
    cpu_s: Sequence[float]
    #: Time that the program's threads waited for a CPU.
    waited_s: Sequence[float]
    frames: Sequence[float]


@dataclass(frozen=True)
class Stretch:
    """A period in which the recorder ran, or was stopped."""

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
        """Return the interval as a text."""
        return f"{self.median:+.2f} % ({self.low:+.2f} to {self.high:+.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the slowdown of frames, and the recorder's own CPU time."""
    parser = argparse.ArgumentParser("python -m benchmarks.recorder_overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=100, help="number of pairs; default: 100")
    parser.add_argument(
        "--stretch",
        type=float,
        default=1.0,
        metavar="S",
        help="length of a period in seconds; default: 1",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of the program; default: 1")
    parser.add_argument(
        "--resident", type=int, default=200, metavar="MIB", help="resident memory; default: 200"
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
    """Return the median of the values with its confidence interval."""
    ordered = sorted(values)
    count = len(values)
    outside = 0
    beyond = 1 / 2**count
    while beyond <= (1 - _CONFIDENCE) / 2:
        outside += 1
        beyond += math.comb(count, outside) / 2**count
    # The last step went too far: without it the interval still has the confidence.
    outside = max(outside - 1, 0)
    return Interval(statistics.median(ordered), ordered[outside], ordered[count - 1 - outside])


def _measure(
    program: Sequence[str], pairs: int, stretch_s: float, folder: Path
) -> tuple[Progress, list[Stretch], float]:
    """Return the program's progress, the periods, and the recorder's CPU time in percent."""
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
    """Stop and continue the recorder in turn; return the periods, the first and last without it."""
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
) -> Interval | str:
    """Return the additional time of a frame while it is recorded, in percent, by this clock.

    A period without a frame, on a busy machine, has no time of a frame; a text says so if none is
    left.
    """
    costs: list[float | None] = []
    for stretch in stretches:
        frames = _change(progress, progress.frames, stretch)
        costs.append(_change(progress, clock_s, stretch) / frames if frames else None)
    slowdowns = []
    # Every second period is recorded, from the second one on.
    for before, recorded, after in list(zip(costs, costs[1:], costs[2:]))[::2]:
        if before and recorded and after:
            slowdowns.append(200 * recorded / (before + after) - 100)
    if not slowdowns:
        return "not measured: periods without a frame; give a longer --stretch"
    return median_interval(slowdowns)


def _change(progress: Progress, values: Sequence[float], stretch: Stretch) -> float:
    begin = _at(progress.wall_s, values, stretch.begin_s)
    return _at(progress.wall_s, values, stretch.end_s) - begin


def _at(times_s: Sequence[float], values: Sequence[float], time_s: float) -> float:
    """Return the value at a time, by linear interpolation."""
    after = min(max(bisect_left(times_s, time_s), 1), len(times_s) - 1)
    before = after - 1
    share = (time_s - times_s[before]) / (times_s[after] - times_s[before])
    return values[before] + share * (values[after] - values[before])


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
