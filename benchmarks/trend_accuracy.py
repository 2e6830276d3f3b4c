"""Accuracy of distinguishing leaks from noise: `python -m benchmarks.trend_accuracy`.

It makes series of many kinds of noise, 2 minutes long or --seconds, without a leak and with one of
1 MB a minute in pieces of several sizes. With --real N it also measures N processes of every kind,
one after another, for --real-seconds each; they infer with ONNX Runtime and allocate frames of
3 MB.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from benchmarks.leaking_process import FRAMES
from benchmarks.quick import parse, tiny_model
from reusebench.reports.base.trend import Precision, Trend, trend
from reusebench.reports.streams.growth import READING_ERRORS, RSS
from reusebench.samplers.host import ResidentCounter

MIB = 2**20
KIB = 2**10
PAGE = 4 * KIB
BASE = 300 * MIB
#: Bytes leaked per minute.
LEAK = 1_000_000
#: A series that could hide the leak is not level.
PRECISION = Precision(least_growth=LEAK / 60, reading_error=READING_ERRORS[RSS])
_FRAME = 1920 * 1080 * 3 // 2
_WARM_UP_S = 10
#: Statistics that reduce the readings of a second to a point.
POINTS: Mapping[str, Callable[[Sequence[int]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "lowest": min,
}
#: Readings per point, as many as the sampler takes in a second.
_READINGS = 20
_COST_TIMES = 20

_QUICK = (
    "--series=1",
    "--seconds=30",
    "--real=1",
    "--real-seconds=5",
    "--warm-up=1",
    "--frames=pool",
)
#: Function that returns bytes above BASE, one for each second.
Noise = Callable[[random.Random, int], Sequence[float]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the frequency of detected leaks and of false ones."""
    parser = argparse.ArgumentParser("python -m benchmarks.trend_accuracy", description=__doc__)
    add = parser.add_argument
    add("--series", type=int, default=1000, metavar="N", help="series per kind; default: 1000")
    add("--seconds", type=int, default=120, metavar="N", help="points per series; default: 120")
    add(
        "--real",
        type=int,
        default=0,
        metavar="N",
        help="processes per kind, measured now; default: 0",
    )
    add("--real-seconds", type=int, default=120, metavar="N", help="time per process; default: 120")
    add(
        "--warm-up",
        type=float,
        default=_WARM_UP_S,
        metavar="S",
        help="time before a process is read; default: 10",
    )
    add(
        "--frames",
        choices=FRAMES,
        action="append",
        help="source of the processes' frames; default: all",
    )
    options = parse(parser, arguments, _QUICK)
    for line in lines(options.series, options.seconds) if options.series else ():
        print(line, flush=True)
    for line in real_lines(options) if options.real else ():
        print(line, flush=True)


def lines(series: int, seconds: int) -> Iterator[str]:
    """Yield a row for each kind of noise without a leak, and with each kind of leak."""
    yield (
        f"{series} series of each kind, {seconds} points a second apart; shares in %; resolution:"
        " median"
    )
    yield f"cost of {seconds} and 1500 points: {_cost_ms(seconds):.2f} and {_cost_ms(1500):.2f} ms"
    for leak, pieces in {"no leak": 0, **PIECES}.items():
        yield _head(leak)
        for noise, make in NOISES.items():
            draw = random.Random(f"{noise} {leak}")
            yield _row(noise, [trend_of_noise(draw, make, pieces, seconds) for _ in range(series)])


def real_lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield a row for each kind of frames and leak; processes are measured one after another."""
    processes = options.real
    seconds = options.real_seconds
    model = tiny_model()
    yield f"\n{processes} real processes of each kind, {seconds} s each after {options.warm_up:g} s"
    for leak, piece in {"no leak": 0, **PIECES}.items():
        yield _head(leak)
        for frames in options.frames or FRAMES:
            words = [f"--model={model}", f"--frames={frames}"]
            if piece:
                words += [f"--leak={LEAK}", f"--piece={piece}"]
            measured = [_measured(words, options.warm_up, seconds) for _ in range(processes)]
            for name, reduce in POINTS.items():
                trends = []
                for readings in measured:
                    points = [int(reduce(second)) for second in readings]
                    trends.append(_trend(points))
                yield _row(f"frames: {frames}, {name} of a second", trends)


def _measured(words: Sequence[str], warm_up_s: float, seconds: int) -> list[list[int]]:
    """Return each second's readings of one new process."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.leaking_process", *words]) as process:
        try:
            time.sleep(warm_up_s)
            return _readings(process.pid, seconds)
        finally:
            process.kill()


def _readings(pid: int, seconds: int) -> list[list[int]]:
    counter = ResidentCounter(pid)
    begin = time.monotonic()
    readings = []
    for number in range(seconds * _READINGS):
        time.sleep(max(0.0, begin + number / _READINGS - time.monotonic()))
        reading = counter.read_bytes()
        assert reading is not None, "the process has ended"
        readings.append(reading)
    counter.close()
    return [readings[at : at + _READINGS] for at in range(0, len(readings), _READINGS)]


def _head(name: str) -> str:
    verdicts = "".join(f"{verdict:>16}" for verdict in _VERDICTS)
    return f"\n{name:40}{'>= 99 %':>8}{verdicts}{'resolution':>16}"


def _row(name: str, trends: Sequence[Trend]) -> str:
    verdicts = Counter(row.verdict for row in trends)
    sure = sum(row.growing_confidence_percent >= 99 for row in trends)
    resolution = statistics.median(row.resolution for row in trends) * 60 / 1e6
    shares = "".join(f"{100 * verdicts[verdict] / len(trends):>16.1f}" for verdict in _VERDICTS)
    return f"{name:40}{100 * sure / len(trends):>8.1f}{shares}{resolution:>11.2f} MB/m"


def trend_of_noise(draw: random.Random, make: Noise, piece: int, seconds: int) -> Trend:
    """Return the trend of one series of this noise, with a leak in pieces of `piece` bytes, if any.

    `piece` 0 means no leak.
    """
    noise = make(draw, seconds)
    counter = _remembered(draw, seconds, 0.95, 60 * KIB)
    leak = leaked(draw, piece, seconds) if piece else [0] * seconds
    readings = [int(BASE + sum(parts)) // PAGE * PAGE for parts in zip(noise, counter, leak)]
    return _trend(readings)


def _trend(points: Sequence[int]) -> Trend:
    made = trend([float(second) for second in range(len(points))], points, PRECISION)
    assert made is not None
    return made


def leaked(draw: random.Random, piece: int, seconds: int) -> list[int]:
    """Return a leak of LEAK per minute, in whole pieces; the first piece may be partly used."""
    begin = draw.randrange(piece)
    return [(begin + second * LEAK // 60) // piece * piece for second in range(seconds)]


def _cost_ms(count: int) -> float:
    """Return the CPU time for one trend."""
    seconds = list(range(count))
    readings = [int(BASE + noise) for noise in _white(MIB)(random.Random(0), count)]
    begin = time.process_time()
    for _ in range(_COST_TIMES):
        trend(seconds, readings, PRECISION)
    return 1000 * (time.process_time() - begin) / _COST_TIMES


def _flat(_: random.Random, count: int) -> list[float]:
    return [0.0] * count


def _white(deviation: float) -> Noise:
    return lambda draw, count: [draw.gauss(0, deviation) for _ in range(count)]


def _uniform(reach: float) -> Noise:
    return lambda draw, count: [draw.uniform(-reach, reach) for _ in range(count)]


def _remembered(draw: random.Random, count: int, share: float, deviation: float) -> list[float]:
    """Return noise that keeps a share of its last value from second to second."""
    values = [draw.gauss(0, deviation)]
    rest = deviation * (1 - share**2) ** 0.5
    while len(values) < count:
        values.append(share * values[-1] + draw.gauss(0, rest))
    return values


def _keeping(share: float, deviation: float) -> Noise:
    return lambda draw, count: _remembered(draw, count, share, deviation)


def _walk(deviation: float) -> Noise:
    return lambda draw, count: list(accumulate(draw.gauss(0, deviation) for _ in range(count)))


def _frames(streams: int) -> Noise:
    """Return medians of readings with zero to two frames in flight per stream."""

    def make(draw: random.Random, count: int) -> list[float]:
        def reading() -> int:
            return _FRAME * sum(draw.randrange(3) for _ in range(streams))

        return [statistics.median(reading() for _ in range(_READINGS)) for _ in range(count)]

    return make


def _step(size: float, deviation: float) -> Noise:
    """Return one step, not near the ends."""

    def make(draw: random.Random, count: int) -> list[float]:
        step = draw.uniform(0.1, 0.9) * count
        return [size * (second >= step) + draw.gauss(0, deviation) for second in range(count)]

    return make


def _middle(size: float, deviation: float) -> Noise:
    return lambda draw, count: [
        size * (second >= count // 2) + draw.gauss(0, deviation) for second in range(count)
    ]


def _two_steps(size: float, deviation: float) -> Noise:
    def make(draw: random.Random, count: int) -> list[float]:
        steps = [draw.uniform(0.1, 0.9) * count for _ in range(2)]
        return [
            size * sum(second >= step for step in steps) + draw.gauss(0, deviation)
            for second in range(count)
        ]

    return make


def _drop(size: float, deviation: float) -> Noise:
    return _step(-size, deviation)


def _saturating(size: float, share: float, deviation: float) -> Noise:
    """Return noise around a curve that nears `size`; after `share` of the series 1/e is left."""
    return lambda draw, count: [
        size * (1 - math.exp(-second / share / count)) + draw.gauss(0, deviation)
        for second in range(count)
    ]


def _sawtooth(size: float, period: float, deviation: float) -> Noise:
    """Return noise around a sawtooth with a period of `period` seconds and a random phase."""

    def make(draw: random.Random, count: int) -> list[float]:
        begin = draw.uniform(0, period)
        return [
            size * ((begin + second) % period) / period + draw.gauss(0, deviation)
            for second in range(count)
        ]

    return make


def _spikes(size: float, share: float, deviation: float) -> Noise:
    return lambda draw, count: [
        size * (draw.random() < share) + draw.gauss(0, deviation) for _ in range(count)
    ]


#: Kinds of noise, by their name in a row.
NOISES: Mapping[str, Noise] = {
    "flat": _flat,
    "white, 0.1 MiB": _white(MIB / 10),
    "white, 0.5 MiB": _white(MIB / 2),
    "white, 1 MiB": _white(MIB),
    "uniform, +-3 MiB": _uniform(3 * MIB),
    "frames in flight, 1 stream": _frames(1),
    "frames in flight, 4 streams": _frames(4),
    "keeps 0.5, 0.5 MiB": _keeping(0.5, MIB / 2),
    "keeps 0.9, 0.5 MiB": _keeping(0.9, MIB / 2),
    "keeps 0.97, 0.5 MiB": _keeping(0.97, MIB / 2),
    "random walk, 50 KiB a second": _walk(50 * KIB),
    "random walk, 200 KiB a second": _walk(200 * KIB),
    "step of 3 MiB in the middle": _middle(3 * MIB, 0),
    "step of 3 MiB, white 0.5 MiB": _step(3 * MIB, MIB / 2),
    "step of 1 MiB, white 0.3 MiB": _step(MIB, 0.3 * MIB),
    "step of 1 MiB, white 1 MiB": _step(MIB, MIB),
    "step of 1 MiB": _step(MIB, 0),
    "two steps of 1.5 MiB, white 0.1 MiB": _two_steps(1.5 * MIB, MIB / 10),
    "drop of 3 MiB, white 0.1 MiB": _drop(3 * MIB, MIB / 10),
    "nears 10 MiB in 5 %, white 0.2 MiB": _saturating(10 * MIB, 0.05, MIB / 5),
    "nears 10 MiB in 10 %, white 0.2 MiB": _saturating(10 * MIB, 0.1, MIB / 5),
    "nears 1 MiB in 10 %, white 0.5 MiB": _saturating(MIB, 0.1, MIB / 2),
    "sawtooth, 5 MiB in 20 s, white 0.1 MiB": _sawtooth(5 * MIB, 20, MIB / 10),
    "sawtooth, 20 MiB in 50 s, white 0.1 MiB": _sawtooth(20 * MIB, 50, MIB / 10),
    "sawtooth, 5 MiB in 90 s, white 0.1 MiB": _sawtooth(5 * MIB, 90, MIB / 10),
    "spikes of 30 MiB, 2 % of points": _spikes(30 * MIB, 0.02, MIB / 10),
}
#: Sizes of leaked pieces in bytes, by the name of the leak.
PIECES: Mapping[str, int] = {
    "leak in pieces of 4 KiB": 4 * KIB,
    "leak in pieces of 64 KiB": 64 * KIB,
    "leak in pieces of 256 KiB": 256 * KIB,
    "leak in pieces of 1 MiB": MIB,
}
_VERDICTS = ("growing", "falling", "grew_then_level", "level", "unknown")

if __name__ == "__main__":
    main()
