"""Accuracy of change points at real noise: `python -m benchmarks.change_point_accuracy`.

It makes histories of 100 commits. The repeats of a run are processes that the harness measured one
after another, beginning with a random one. A step of 1 MiB is added from a random commit on. The
processes come from --noise or --storage, or are measured now, which takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from benchmarks.comparison_accuracy import EARLIER, GROWN, measure, readable_runs
from benchmarks.quick import parse
from reusebench.reports.history.change_points import ChangePoint, series_changes
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric, find_metric

MIB = 2**20
COMMITS = 100
STEP = MIB
_METRICS = (
    "application_memory_trimmed_over_baseline",
    "application_memory_over_baseline",
    "application_memory",
    "latency",
)
_REPEATS = (3, 5, 10)
#: Fewest runs at a new level.
_LEAST = 2
#: Share of commits that were not measured.
_MISSING = 0.3
#: Number of outlier runs, and their distance in steps.
_ODD_RUNS = 5
_ODD = 5

#: A value per process, in measured order, by configuration and metric.
Noise = Mapping[tuple[str, str], Sequence[float]]
_History = list[list[float]]


@dataclass(frozen=True)
class Made:
    """One history with its true steps: the runs at which levels begin."""

    runs: _History
    steps: Sequence[int]


@dataclass(frozen=True)
class Score:
    """The accuracy of change points in histories of one kind."""

    histories: int
    #: Histories in which every step has a change point within one run.
    located: int
    #: Histories without any other change point.
    clean: int
    #: Share of the located steps whose range has the truth, and the mean size of the range in runs.
    covered: float
    range_runs: float
    #: Mean number of change points per history.
    points: float

    def __str__(self) -> str:
        """Return the cells of a row."""
        located = 100 * self.located / self.histories
        clean = 100 * self.clean / self.histories
        return (
            f"{located:>12.1f}{clean:>14.1f}{100 * self.covered:>12.1f}{self.range_runs:>12.1f}"
            f"{self.points:>10.1f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the frequency of located steps and of false change points."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.change_point_accuracy", description=__doc__
    )
    add = parser.add_argument
    add("--histories", type=int, default=100, metavar="N", help="histories per kind; default: 100")
    add(
        "--noise",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="JSON lines with a result's memory and speed",
    )
    add(
        "--storage",
        type=Path,
        metavar="DIR",
        help="folder of runs without a change, which are measured if there are none",
    )
    add(
        "--runs",
        type=int,
        default=EARLIER,
        metavar="N",
        help="runs to measure if there are none; default: 20",
    )
    add(
        "--repeats",
        type=int,
        nargs="+",
        default=_REPEATS,
        metavar="N",
        help="repeats of a run in a history; default: 3 5 10",
    )
    options = parse(parser, arguments, ("--histories=2", "--runs=2", "--repeats", "3"))
    with tempfile.TemporaryDirectory() as folder:
        if options.noise:
            noise = read_lines(options.noise)
        else:
            noise = read_noise(options.storage or Path(folder), options.runs, max(options.repeats))
    for line in lines(noise, options.histories, options.repeats):
        print(line, flush=True)


def read_lines(files: Sequence[Path]) -> Noise:
    """Return the figures of the files, each of which is a configuration."""
    noise: dict[tuple[str, str], list[float]] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            figures = json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields))
            for name in _METRICS:
                noise.setdefault((file.stem, name), []).extend(find_metric(name).values(figures))
    return noise


def read_noise(storage: Path, runs_to_measure: int, repeats: int) -> Noise:
    """Return the figures of a storage's runs, which are measured first if it has none."""
    if not any(storage.glob("*/*.json")):
        measure(storage, runs_to_measure, 0, repeats)
    noise: dict[tuple[str, str], list[float]] = {}
    for run in readable_runs(storage):
        if run.name == GROWN:
            continue
        for measured in run.measured:
            for name in _METRICS:
                values = noise.setdefault((str(measured.configuration), name), [])
                values += measured.values.get(name, ())
    return noise


def lines(noise: Noise, histories: int, every_repeats: Sequence[int]) -> Iterator[str]:
    """Yield a row for each configuration, metric, number of repeats and kind of history."""
    heads = (
        f"{'':30}{'located, %':>12}{'none else, %':>14}{'in range, %':>12}{'range, runs':>12}"
        f"{'points':>10}"
    )
    for (configuration, name), values in noise.items():
        metric = find_metric(name)
        median = statistics.median(values)
        yield (
            f"\n{configuration}: {name}, {len(values)} processes, median {median:,.0f}"
            f" {metric.unit}"
        )
        yield heads
        # The step is 1 MiB of memory, or a tenth of the speed.
        step = STEP if metric.part == "memory" else median / 10
        for repeats in every_repeats:
            for kind, make in KINDS.items():
                draw = random.Random(f"{kind} {repeats}")
                made = [make(draw, values, repeats, step) for _ in range(histories)]
                yield f"{f'{repeats} repeats, {kind}':30}{score(metric, made)}"


def score(metric: Metric, made: Sequence[Made]) -> Score:
    """Return the accuracy of the change points in the histories."""
    located = 0
    clean = 0
    count = 0
    near: list[tuple[int, ChangePoint]] = []
    for history in made:
        points = series_changes(metric, SeriesRuns.of(history.runs)).points
        near_steps = []
        near_points = set()
        for step in history.steps:
            for number, point in enumerate(points):
                if abs(point.run - step) <= 1:
                    near_steps.append((step, point))
                    near_points.add(number)
        located += {step for step, _ in near_steps} == set(history.steps)
        clean += len(near_points) == len(points)
        count += len(points)
        near += near_steps

    covered = 0.0
    range_runs = 0.0
    if near:
        covered = statistics.fmean(point.earliest <= step <= point.latest for step, point in near)
        range_runs = statistics.fmean(point.latest - point.earliest + 1 for _, point in near)
    return Score(len(made), located, clean, covered, range_runs, count / len(made))


def _taken(draw: random.Random, values: Sequence[float], repeats: int) -> _History:
    """Return runs without a change; each has consecutive processes, from a random one on."""
    starts = [draw.randrange(len(values) - repeats) for _ in range(COMMITS)]
    return [list(values[start : start + repeats]) for start in starts]


def _in_order(draw: random.Random, values: Sequence[float], repeats: int, _: float) -> Made:
    """Return runs of consecutive processes, with all changes of the machine between them."""
    start = draw.randrange(len(values))
    twice = [*values, *values]
    count = min(COMMITS, len(values) // repeats)
    return Made([twice[start + run * repeats :][:repeats] for run in range(count)], ())


def _raised(runs: _History, step: int, size: float) -> _History:
    return [[value + size * (index >= step) for value in run] for index, run in enumerate(runs)]


def _none(draw: random.Random, values: Sequence[float], repeats: int, _: float) -> Made:
    return Made(_taken(draw, values, repeats), ())


def _one(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    step = draw.randint(_LEAST, COMMITS - _LEAST)
    return Made(_raised(_taken(draw, values, repeats), step, size), (step,))


def _two(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return a rise in the first half and a fall in the second."""
    up = draw.randint(_LEAST, COMMITS // 2 - 5)
    down = draw.randint(COMMITS // 2 + 5, COMMITS - _LEAST)
    return Made(_raised(_raised(_taken(draw, values, repeats), up, size), down, -size), (up, down))


def _gaps(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return one step, and leave out commits; the step moves to the first remaining run."""
    made = _one(draw, values, repeats, size)
    kept = []
    for run in range(COMMITS):
        is_measured = draw.random() >= _MISSING
        if is_measured or run < _LEAST or COMMITS - run <= _LEAST:
            kept.append(run)
    return Made(
        [made.runs[run] for run in kept], [sum(run < step for run in kept) for step in made.steps]
    )


def _odd_anywhere(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return one step, and outlier runs, of which two are sometimes neighbours."""
    return _odd(_one(draw, values, repeats, size), draw.sample(range(COMMITS), _ODD_RUNS), size)


def _odd_apart(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return one step, and outlier runs at a distance of three or more runs."""
    odd = [
        COMMITS // _ODD_RUNS * number + draw.randrange(COMMITS // _ODD_RUNS - 2)
        for number in range(_ODD_RUNS)
    ]
    return _odd(_one(draw, values, repeats, size), odd, size)


def _odd(made: Made, odd: Sequence[int], size: float) -> Made:
    off = [_ODD * size * (run in odd) for run in range(COMMITS)]
    return Made([[value + more for value in run] for run, more in zip(made.runs, off)], made.steps)


def _drift(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return a gradual rise by the step's size."""
    runs = _taken(draw, values, repeats)
    return Made(
        [[value + size * index / COMMITS for value in run] for index, run in enumerate(runs)], ()
    )


#: Functions that make a history, by their name in a row.
KINDS: Mapping[str, Callable[[random.Random, Sequence[float], int, float], Made]] = {
    "one step": _one,
    "no step": _none,
    "no step, in order": _in_order,
    "two steps": _two,
    "30 % missing": _gaps,
    "odd runs, apart": _odd_apart,
    "odd runs, anywhere": _odd_anywhere,
    "drift": _drift,
}

if __name__ == "__main__":
    main()
