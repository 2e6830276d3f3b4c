"""Accuracy of the verdicts on cycles: `python -m benchmarks.leak_rates`.

It makes series of readings over cycles with many kinds of noise and many leaks, judges them as the
report does, and prints how often a leak is told, missed or left open, and how often the true growth
lies in the interval. With --real N it also measures N processes of each leak, as the harness does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.quick import parse, tiny_model
from reusebench.reports.results.drift import Drift, drift_of
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS
from reusebench.samplers.host import LocalHost
from reusebench.samplers.process_memory import read_process

KIB = 2**10
MIB = 2**20
PAGE = 4 * KIB
#: Larger blocks of glibc are mappings of their own.
MMAP_THRESHOLD = 128 * KIB
_QUICK = ("--series=2", "--cycles=10", "--real=1", "--inferences=5")


class Leak(NamedTuple):
    """A piece that is lost after a number of inferences, again and again."""

    piece: int
    every: int

    @property
    def per_inference(self) -> float:
        """The true growth."""
        return self.piece / self.every


#: Key: the name of a row.
LEAKS: Mapping[str, Leak] = {
    "none": Leak(0, 1),
    "8 B each inference": Leak(8, 1),
    "80 B each": Leak(80, 1),
    "800 B each": Leak(800, 1),
    "4 KiB every 50th": Leak(4 * KIB, 50),
    "1 MiB every 500th": Leak(MIB, 500),
}
#: Function that returns bytes for each reading: the one before the first cycle, then after each.
Noise = Callable[[random.Random, int], Sequence[float]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the verdicts."""
    parser = argparse.ArgumentParser("python -m benchmarks.leak_rates", description=__doc__)
    add = parser.add_argument
    add("--series", type=int, default=1000, metavar="N", help="series per kind; default: 1000")
    add("--cycles", type=int, default=20, metavar="N", help="of a series; default: 20")
    add("--inferences", type=int, default=100, metavar="N", help="of a cycle; default: 100")
    add("--real", type=int, default=0, metavar="N", help="processes per leak; default: 0")
    options = parse(parser, arguments, _QUICK)
    limit = DEFAULT_LEAK_LIMITS.bytes_per_day / DEFAULT_LEAK_LIMITS.inferences_per_day
    print(
        f"{options.cycles} cycles of {options.inferences} inferences; level: below {limit:.2f} B"
        " per inference; shares in %; covered: the true growth lies in the 95 % interval"
    )
    for line in made_lines(options) if options.series else ():
        print(line, flush=True)
    for line in real_lines(options) if options.real else ():
        print(line, flush=True)


def made_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield a row for each kind of noise and each leak."""
    for (noise, make), quantity in NOISES.items():
        yield _head(f"{options.series} series: {noise} ({quantity})")
        for name, leak in LEAKS.items():
            draw = random.Random(f"{noise} {name}")
            drifts = []
            for _ in range(options.series):
                lost = _lost(draw, leak, options)
                readings = [
                    int(sum(parts)) // _UNITS[quantity] * _UNITS[quantity]
                    for parts in zip(make(draw, options.cycles), lost)
                ]
                drifts.append(_drift(quantity, readings, options))
            yield _row(name, drifts, leak)


def real_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield rows for each leak in real processes: of the heap in use, and of trimmed memory."""
    model = tiny_model()
    series: dict[str, list[list[dict[str, int]]]] = {}
    for name, leak in LEAKS.items():
        series[name] = [_measured(model, leak, options) for _ in range(options.real)]
    for quantity, key in (("heap", "heap_bytes"), ("memory", "memory")):
        yield _head(f"{options.real} real processes that infer with ONNX Runtime ({quantity})")
        for name, processes in series.items():
            drifts = []
            for readings in processes:
                drifts.append(_drift(quantity, [reading[key] for reading in readings], options))
            yield _row(name, drifts, _taken(LEAKS[name]))


def _measured(model: object, leak: Leak, options: argparse.Namespace) -> list[dict[str, int]]:
    """Return the readings of a new process: before its first cycle, and after each."""
    words = [
        f"--model={model}",
        f"--inferences={options.inferences}",
        f"--piece={leak.piece}",
        f"--every={leak.every}",
    ]
    command = [sys.executable, "-m", "benchmarks.leaking_cycles", *words]
    host = LocalHost()
    readings = []
    # Without telemetry, as in the measured process.
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(options.cycles + 1):
            usage = json.loads(process.stdout.readline())
            memory = read_process(host, process.pid)
            assert memory.pss_anon_bytes is not None
            assert memory.pss_shmem_bytes is not None
            usage["memory"] = memory.pss_anon_bytes + memory.pss_shmem_bytes
            readings.append(usage)
            if len(readings) <= options.cycles:
                process.stdin.write("\n")
                process.stdin.flush()
        process.stdin.close()
    return readings


def _taken(leak: Leak) -> Leak:
    """Return the leak with its header, in units of 16 bytes, or in pages if it is large."""
    if not leak.piece:
        return leak
    if leak.piece >= MMAP_THRESHOLD:
        return leak._replace(piece=(leak.piece + 16 + PAGE - 1) // PAGE * PAGE)
    return leak._replace(piece=max(32, (leak.piece + 8 + 15) // 16 * 16))


def _drift(quantity: str, readings: Sequence[int], options: argparse.Namespace) -> Drift:
    limits = DEFAULT_LEAK_LIMITS
    per_day = limits.inferences_per_day
    return drift_of(quantity, readings, options.inferences, per_day, limits.bytes_per_day)


def _lost(draw: random.Random, leak: Leak, options: argparse.Namespace) -> list[int]:
    """Return the leak at each reading; inferences before the first had it too."""
    begin = draw.randrange(leak.every)
    return [
        leak.piece * ((begin + cycle * options.inferences) // leak.every)
        for cycle in range(options.cycles + 1)
    ]


def _head(name: str) -> str:
    return f"\n{name:64}{'grows':>7}{'level':>7}{'open':>7}{'covered':>9}{'could grow, a day':>20}"


def _row(name: str, drifts: Sequence[Drift], leak: Leak) -> str:
    verdicts = Counter(_VERDICTS.get(drift.verdict, "level") for drift in drifts)
    covered = 0
    most = []
    for drift in drifts:
        if drift.trend and drift.most_per_day is not None:
            covered += drift.trend.low <= leak.per_inference <= drift.trend.high
            most.append(drift.most_per_day / MIB)
    shares = "".join(
        f"{100 * verdicts[verdict] / len(drifts):>7.1f}" for verdict in ("grows", "level", "open")
    )
    bound = f"{statistics.median(most):>16.1f} MiB" if most else ""
    return f"{name:64}{shares}{100 * covered / len(drifts):>9.1f}{bound}"


_VERDICTS = {"growing": "grows", "unknown": "open"}


def _flat(_: random.Random, cycles: int) -> list[float]:
    return [0.0] * (cycles + 1)


def _blocks(draw: random.Random, cycles: int) -> list[float]:
    """Return small blocks that are kept now and then, mostly at first."""
    held = [0.0]
    for cycle in range(cycles):
        takes = cycle == 0 or draw.random() < (0.5 if cycle < 4 else 0.03)
        held.append(held[-1] + takes * draw.choice([48, 48, 96, 192]))
    return held


def _filling(draw: random.Random, cycles: int) -> list[float]:
    """Return a pool that fills, more slowly from cycle to cycle, with blocks that come and go."""
    held = []
    restless = 0.0
    for cycle in range(cycles + 1):
        restless = 0.8 * restless + draw.gauss(0, 200)
        held.append(6000 * (1 - math.exp(-cycle / 3)) + restless)
    return held


def _wandering(draw: random.Random, cycles: int) -> list[float]:
    held = [0.0]
    for _ in range(cycles):
        held.append(held[-1] + draw.gauss(0, 300))
    return held


def _late(draw: random.Random, cycles: int) -> list[float]:
    """Return 64 KiB that are taken once, at any time."""
    begin = draw.uniform(0.1, 0.9) * cycles
    return [64.0 * KIB * (cycle > begin) for cycle in range(cycles + 1)]


def _white(deviation: float) -> Noise:
    return lambda draw, cycles: [draw.gauss(0, deviation) for _ in range(cycles + 1)]


def _two_sizes(draw: random.Random, cycles: int) -> list[float]:
    """Return memory that is trimmed to one of two sizes."""
    is_large = False
    held = []
    for _ in range(cycles + 1):
        is_large ^= draw.random() < 0.35
        held.append(1.24 * MIB * is_large + draw.gauss(0, 30 * KIB))
    return held


#: Kinds of noise by the name of a row, with the quantity that has them. The shapes and sizes are
#: those of ONNX Runtime's own series of cycles.
NOISES: Mapping[tuple[str, Noise], str] = {
    ("flat", _flat): "heap",
    ("small blocks kept now and then", _blocks): "heap",
    ("a pool of 6 KB that fills, blocks that come and go", _filling): "heap",
    ("random walk, 300 B a cycle", _wandering): "heap",
    ("64 KiB taken once", _late): "heap",
    ("white, 16 KiB", _white(16 * KIB)): "memory",
    ("white, 30 KiB", _white(30 * KIB)): "memory",
    ("one of two sizes, 1.2 MiB apart", _two_sizes): "memory",
}
_UNITS = {"heap": 16, "memory": PAGE}

if __name__ == "__main__":
    main()
