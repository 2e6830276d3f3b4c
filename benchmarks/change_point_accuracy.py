"""How well change points are located, at the noise of the real harness: `python -m
benchmarks.change_point_accuracy`.

It makes histories of 100 commits, of runs whose repeats are processes that the harness really
measured one after another, from a random one on; a step of 1 MiB is added to those from a random
commit on. Processes come from --noise or --storage, or are measured now, which takes some minutes.
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

from benchmarks.comparison_accuracy import EARLIER, GROWN, measure
from benchmarks.quick import parse
from reusebench.reports.history.change_points import ChangePoint, change_points
from reusebench.storage.metrics import Metric, find_metric
from reusebench.storage.runs import Run, read_runs

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
#: Runs at a new level, at least: fewer are no level.
_LEAST = 2
#: Share of commits that were not measured; how many runs are off, by so many steps.
_MISSING = 0.3
_ODD_RUNS = 5
_ODD = 5

#: By configuration and metric: a value for each process, in the order in which they were measured.
Noise = Mapping[tuple[str, str], Sequence[float]]
_History = list[list[float]]


@dataclass(frozen=True)
class Made:
    """One history, and its truth: where its levels begin, in runs."""

    runs: _History
    steps: Sequence[int]


@dataclass(frozen=True)
class Score:
    """How well change points were located in histories of one kind."""

    histories: int
    #: Histories in which every step has a change point within one run, and those without any other
    #: change point.
    located: int
    clean: int
    #: Of the steps that were located: the share whose range holds the truth, and how many runs the
    #: range has.
    covered: float
    range_runs: float
    #: Change points of a history.
    points: float

    def __str__(self) -> str:
        """Return the cells of a row."""
        located, clean = (
            f"{100 * count / self.histories:.1f}" for count in (self.located, self.clean)
        )
        return f"{located:>12}{clean:>14}{100 * self.covered:>12.1f}{self.range_runs:>12.1f}{self.points:>10.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how often steps were located, and how often a change point was reported where there was
    none.
    """
    parser = argparse.ArgumentParser(
        "python -m benchmarks.change_point_accuracy", description=__doc__
    )
    add = parser.add_argument
    add("--histories", type=int, default=100, metavar="N", help="of each kind; default: 100")
    add(
        "--noise",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="JSON lines: a result's memory and speed",
    )
    add(
        "--storage",
        type=Path,
        metavar="DIR",
        help="runs without a change; measured into it if there are none",
    )
    add(
        "--runs",
        type=int,
        default=EARLIER,
        metavar="N",
        help="to measure if there are none; default: 20",
    )
    add(
        "--repeats",
        type=int,
        nargs="+",
        default=_REPEATS,
        metavar="N",
        help="of a run of a history; default: 3 5 10",
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
    """Return the figures of the files, of which every one is a configuration."""
    noise: dict[tuple[str, str], list[float]] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            figures = json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields))
            for name in _METRICS:
                noise.setdefault((file.stem, name), []).extend(find_metric(name).values(figures))
    return noise


def read_noise(storage: Path, runs_to_measure: int, repeats: int) -> Noise:
    """Return the figures of a storage's runs, which are measured first where it has none."""
    if not any(storage.glob("*/*.json")):
        measure(storage, runs_to_measure, 0, repeats)
    runs = sorted(
        (run for run in read_runs(storage) if isinstance(run, Run)), key=lambda run: run.order
    )
    noise: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for measured in run.measured if run.name != GROWN else ():
            for name in _METRICS:
                noise.setdefault((str(measured.configuration), name), []).extend(
                    measured.values.get(name, ())
                )
    return noise


def lines(noise: Noise, histories: int, every_repeats: Sequence[int]) -> Iterator[str]:
    """Yield a row for each configuration, metric, number of repeats and kind of history."""
    for (configuration, name), values in noise.items():
        metric = find_metric(name)
        median = statistics.median(values)
        yield (
            f"\n{configuration}: {name}, {len(values)} processes, median {median:,.0f}"
            f" {metric.unit}"
        )
        yield (
            f"{'':30}{'located, %':>12}{'none else, %':>14}{'in range, %':>12}{'range, runs':>12}{'points':>10}"
        )
        for repeats in every_repeats:
            for kind, make in KINDS.items():
                draw = random.Random(f"{kind} {repeats}")
                made = [
                    make(draw, values, repeats, _step(metric, median)) for _ in range(histories)
                ]
                yield f"{f'{repeats} repeats, {kind}':30}{score(metric, made)}"


def _step(metric: Metric, median: float) -> float:
    """Return the step: 1 MiB of memory, and a tenth of speed."""
    return STEP if metric.part == "memory" else median / 10


def score(metric: Metric, made: Sequence[Made]) -> Score:
    """Return how the change points of the histories compare with the truth."""
    located = clean = count = 0
    near: list[tuple[int, ChangePoint]] = []
    for history in made:
        points = change_points(metric, history.runs)
        near_steps = [
            (step, point)
            for step in history.steps
            for point in points
            if abs(point.run - step) <= 1
        ]
        located += {step for step, _ in near_steps} == set(history.steps)
        clean += all(any(point is other for _, other in near_steps) for point in points)
        count += len(points)
        near += near_steps
    return Score(
        len(made),
        located,
        clean,
        (
            statistics.fmean(point.earliest <= step <= point.latest for step, point in near)
            if near
            else 0.0
        ),
        statistics.fmean(point.latest - point.earliest + 1 for _, point in near) if near else 0.0,
        count / len(made),
    )


def _taken(draw: random.Random, values: Sequence[float], repeats: int) -> _History:
    """Return runs without a change: the processes of one follow each other, those of the next may
    be any.
    """
    starts = [draw.randrange(len(values) - repeats) for _ in range(COMMITS)]
    return [list(values[start : start + repeats]) for start in starts]


def _in_order(draw: random.Random, values: Sequence[float], repeats: int, _: float) -> Made:
    """Return runs as they followed each other, with all that the machine did meanwhile."""
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
    """Return one step, and leave out commits; the step is at the first run that is left."""
    made = _one(draw, values, repeats, size)
    kept = [
        run
        for run in range(COMMITS)
        if draw.random() >= _MISSING or run < _LEAST or COMMITS - run <= _LEAST
    ]
    return Made(
        [made.runs[run] for run in kept], [sum(run < step for run in kept) for step in made.steps]
    )


def _odd_anywhere(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return one step, and runs that are far off in all repeats, two of them side by side now and
    then.
    """
    return _odd(_one(draw, values, repeats, size), draw.sample(range(COMMITS), _ODD_RUNS), size)


def _odd_apart(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return one step, and runs that are far off, three runs or more from each other."""
    odd = [
        COMMITS // _ODD_RUNS * number + draw.randrange(COMMITS // _ODD_RUNS - 2)
        for number in range(_ODD_RUNS)
    ]
    return _odd(_one(draw, values, repeats, size), odd, size)


def _odd(made: Made, odd: Sequence[int], size: float) -> Made:
    off = [_ODD * size * (run in odd) for run in range(COMMITS)]
    return Made([[value + more for value in run] for run, more in zip(made.runs, off)], made.steps)


def _drift(draw: random.Random, values: Sequence[float], repeats: int, size: float) -> Made:
    """Return a rise by the step's size, a little with each commit."""
    runs = _taken(draw, values, repeats)
    return Made(
        [[value + size * index / COMMITS for value in run] for index, run in enumerate(runs)], ()
    )


#: By what a row calls them.
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
