"""Accuracy of change points in made series: `python -m benchmarks.history_series`.

Each family has what a long history may have beside noise: a drift, a season, outliers, missing
runs, irregular dates, few runs. A step of several sizes, in standard deviations of a run, is at a
random place. The series of --set tuning are those that constants were chosen by; `held-out` were
looked at meanwhile, `fresh` only when all was done.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.quick import parse
from reusebench.reports.history.change_points import SeriesChanges, series_changes
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import find_metric

MIB = 2**20
_METRIC = find_metric("application_memory_trimmed_over_baseline")
_LEVEL = 50 * MIB
#: Standard deviation of runs, and of the repeats of a run.
_RUN = 0.1 * MIB
_REPEAT = 0.05 * MIB
_REPEATS = 3
#: Standard deviation of the mean of a run.
SIGMA = math.sqrt(_RUN**2 + _REPEAT**2 / _REPEATS)
STEPS = (0.0, 0.5, 1.0, 2.0, 5.0)
_PAGE = 4096
_DAY_S = 86_400.0
#: Fewest runs before and after a step.
_LEAST_SIDE = 3
#: Quantile of a normal distribution for intervals at 95 %.
_NORMAL_95 = 1.96
_RUN_COUNTS = (60, 120)
_TIMED_RUNS = (100, 250, 500, 1000)

#: Functions that return what is added to each run, in standard deviations, by its day.
Shape = Callable[[random.Random, Sequence[float]], Sequence[float]]
#: Function that returns the deviation of one run, in standard deviations.
Noise = Callable[[random.Random], float]


@dataclass(frozen=True)
class Family:
    """A kind of series."""

    shape: Shape
    noise: Noise = lambda draw: draw.gauss(0, 1)
    #: Function that returns the days of the runs, for a number of runs.
    days: Callable[[random.Random, int], Sequence[float]] = lambda _, count: range(count)
    runs: tuple[int, int] = _RUN_COUNTS
    #: Bytes of which each value is a multiple.
    page: int = 1


@dataclass(frozen=True)
class Made:
    """One made series."""

    runs: Sequence[Sequence[float]]
    times: Sequence[float]
    #: The first run of the new level; None if there is no step.
    step: int | None


@dataclass(frozen=True)
class Score:
    """The accuracy in one family with steps of one size."""

    series: int
    #: Change points that are no step.
    false_points: int
    #: Series with such a point.
    false_series: int
    #: Series whose step is found within one run, and those whose step is in the range of a point.
    found: int
    in_range: int

    def cells(self, has_step: bool) -> str:
        """Return the cells of a row."""
        per_series = f"{self.false_points / self.series:10.3f}"
        cells = f"{per_series}{share(self.false_series, self.series):>24}"
        if has_step:
            cells += f"{share(self.found, self.series):>24}{share(self.in_range, self.series):>24}"
        return cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rates of every family, and the time of long series."""
    parser = argparse.ArgumentParser("python -m benchmarks.history_series", description=__doc__)
    add = parser.add_argument
    add("--series", type=int, default=100, metavar="N", help="series per row; default: 100")
    add(
        "--set",
        choices=("tuning", "held-out", "fresh"),
        default="held-out",
        help="default: held-out",
    )
    add("--family", choices=FAMILIES, action="append", help="default: all of them")
    options = parse(parser, arguments, ("--series=1", "--family=still", "--family=season"))
    for line in lines(options.series, options.set, options.family or list(FAMILIES)):
        print(line, flush=True)


def lines(series: int, seeds: str, families: Sequence[str]) -> Iterator[str]:
    """Yield a row for each family and step, then the sums, then the cost."""
    yield f"{series} series a row, set {seeds}; in brackets: Wilson intervals at 95 %"
    yield (
        f"{'family':26}{'step, sd':>9}{'false':>10}{'series with one, %':>24}"
        f"{'found within a run, %':>24}{'in the range, %':>24}"
    )
    scores: dict[tuple[str, float], Score] = {}
    for name in families:
        for step in STEPS:
            made = [
                make(random.Random(f"{seeds} {name} {step} {number}"), FAMILIES[name], step)
                for number in range(series)
            ]
            scores[name, step] = score(made)
            yield f"{name:26}{step:9g}{scores[name, step].cells(step > 0)}"
    for step in STEPS:
        rows = [scores[name, step] for name in families]
        yield f"{'all':26}{step:9g}{_sum(rows).cells(step > 0)}"
    for count in _TIMED_RUNS:
        yield f"CPU time of {count} runs with drift, season and a step: {_cost_ms(count):.0f} ms"


def make(draw: random.Random, family: Family, step: float) -> Made:
    """Return one series of a family, with a step of this size up or down."""
    days = family.days(draw, draw.randint(*family.runs))
    count = len(days)
    place = None
    if step:
        place = draw.randint(_LEAST_SIDE, count - _LEAST_SIDE)
        step *= draw.choice((-1, 1))
    added = family.shape(draw, days)
    runs = []
    for run in range(count):
        level = _LEVEL + SIGMA * (added[run] + step * (place is not None and run >= place))
        level += _RUN * family.noise(draw)
        values = [level + draw.gauss(0, _REPEAT) for _ in range(_REPEATS)]
        runs.append([round(value / family.page) * family.page for value in values])
    return Made(runs, [day * _DAY_S for day in days], place)


def score(made: Sequence[Made]) -> Score:
    """Return the accuracy of the change points of the series."""
    false_points = 0
    false_series = 0
    found = 0
    in_range = 0
    for one in made:
        points = found_in(one).points
        near = []
        for point in points:
            if one.step is not None and abs(point.run - one.step) <= 1:
                near.append(point)
        hits = []
        for point in points:
            if one.step is not None and point.earliest <= one.step <= point.latest:
                hits.append(point)
        true_points = {point.run for point in near + hits[:1]}
        false_points += len(points) - len(true_points)
        false_series += len(points) > len(true_points)
        found += bool(near)
        in_range += bool(hits)
    return Score(len(made), false_points, false_series, found, in_range)


def found_in(made: Made) -> SeriesChanges:
    """Return the changes of a series, as one of a table with this series alone."""
    return series_changes(_METRIC, SeriesRuns.of(made.runs), made.times)


def share(count: int, total: int) -> str:
    """Return a share in percent with its Wilson interval at 95 %."""
    low, high = wilson(count, total)
    return f"{100 * count / total:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return the interval of a share at 95 % (E. B. Wilson, 1927)."""
    square = _NORMAL_95**2 / total
    middle = (count / total + square / 2) / (1 + square)
    spread = math.sqrt(count / total * (1 - count / total) / total + square / total / 4)
    reach = _NORMAL_95 * spread / (1 + square)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _sum(scores: Sequence[Score]) -> Score:
    return Score(
        sum(one.series for one in scores),
        sum(one.false_points for one in scores),
        sum(one.false_series for one in scores),
        sum(one.found for one in scores),
        sum(one.in_range for one in scores),
    )


def _cost_ms(count: int) -> float:
    """Return the CPU time of one long series."""
    draw = random.Random(count)
    family = Family(_drift_and_season, runs=(count, count))
    made = make(draw, family, 5.0)
    begin = time.process_time()
    found_in(made)
    return 1000 * (time.process_time() - begin)


def _nothing(_: random.Random, days: Sequence[float]) -> list[float]:
    return [0.0] * len(days)


def _drift(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return a rise or fall by 3 to 30 deviations."""
    rise = draw.choice((-1, 1)) * math.exp(draw.uniform(math.log(3), math.log(30)))
    return [rise * (day - days[0]) / (days[-1] - days[0]) for day in days]


def _season(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return one to eight periods, up to 1 to 10 deviations high and low."""
    height = math.exp(draw.uniform(0, math.log(10)))
    period = (days[-1] - days[0]) / draw.uniform(1, 8)
    phase = draw.random()
    return [height * math.sin(2 * math.pi * (day / period + phase)) for day in days]


def _week(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return another level on two days of a week."""
    height = draw.choice((-1, 1)) * math.exp(draw.uniform(0, math.log(10)))
    first = draw.randrange(7)
    return [height * ((day + first) % 7 < 2) for day in days]


def _triangles(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return two to six periods with straight sides."""
    height = math.exp(draw.uniform(0, math.log(10)))
    period = (days[-1] - days[0]) / draw.uniform(2, 6)
    phase = draw.random()
    return [height * (4 * abs((day / period + phase) % 1 - 0.5) - 1) for day in days]


def _lone(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return outliers in 4 % of the runs, no two side by side."""
    places: set[int] = set()
    while len(places) < max(1, round(0.04 * len(days))):
        place = draw.randrange(len(days))
        if not {place - 2, place - 1, place, place + 1, place + 2} & places:
            places.add(place)
    return [_far(draw) * (run in places) for run in range(len(days))]


def _pairs(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return two pairs of outliers, each inside the series."""
    added = [0.0] * len(days)
    middle = len(days) // 2
    for first, last in ((2, middle - 4), (middle + 2, len(days) - 5)):
        place = draw.randint(first, last)
        added[place : place + 2] = [_far(draw)] * 2
    return added


def _far(draw: random.Random) -> float:
    return draw.choice((-1, 1)) * math.exp(draw.uniform(math.log(6), math.log(60)))


def _lasting(draw: random.Random, days: Sequence[float]) -> list[float]:
    """Return noise of one deviation that keeps 0.6 of that of the run before."""
    values = [draw.gauss(0, 1)]
    while len(values) < len(days):
        values.append(0.6 * values[-1] + 0.8 * draw.gauss(0, 1))
    return values


def _sum_of(*shapes: Shape) -> Shape:
    def added(draw: random.Random, days: Sequence[float]) -> list[float]:
        return [sum(parts) for parts in zip(*(shape(draw, days) for shape in shapes))]

    return added


_drift_and_season = _sum_of(_drift, _season)


def _missing(draw: random.Random, count: int) -> list[float]:
    """Return days of which 30 % have no run."""
    return [day for day in range(count) if draw.random() >= 0.3]


def _irregular(draw: random.Random, count: int) -> list[float]:
    """Return days of runs at random times."""
    return sorted(draw.uniform(0, count) for _ in range(count))


def _bursts(draw: random.Random, count: int) -> list[float]:
    """Return days of which some have many runs, and most have none."""
    days: list[float] = []
    day = 0.0
    while len(days) < count:
        day += draw.expovariate(1 / 5)
        days += [day + number / 24 for number in range(draw.randint(1, 8))]
    return days[:count]


def _student(draw: random.Random) -> float:
    """Return a value of Student's distribution with 3 degrees of freedom, of deviation 1."""
    square = sum(draw.gauss(0, 1) ** 2 for _ in range(3))
    return draw.gauss(0, 1) / math.sqrt(square / 3) / math.sqrt(3)


def _two_valued(draw: random.Random) -> float:
    return draw.choice((-1.0, 1.0))


FAMILIES: Mapping[str, Family] = {
    "still": Family(_nothing, noise=lambda _: 0.0),
    "noise": Family(_nothing),
    "heavy-tailed noise": Family(_nothing, noise=_student),
    "two-valued noise": Family(_nothing, noise=_two_valued),
    "lasting noise": Family(_lasting, noise=lambda _: 0.0),
    "noise in pages": Family(_nothing, page=16 * _PAGE),
    "drift": Family(_drift),
    "season": Family(_season),
    "weekly levels": Family(_week),
    "triangles": Family(_triangles),
    "drift and season": Family(_drift_and_season),
    "lone outliers": Family(_lone),
    "pairs of outliers": Family(_pairs),
    "drift, lone outliers": Family(_sum_of(_drift, _lone)),
    "season, lone outliers": Family(_sum_of(_season, _lone)),
    "drift, season, outliers": Family(_sum_of(_drift_and_season, _lone, _pairs)),
    "missing runs": Family(_nothing, days=_missing),
    "drift, missing runs": Family(_drift, days=_missing),
    "season, missing runs": Family(_season, days=_missing),
    "drift, irregular": Family(_drift, days=_irregular),
    "season, irregular": Family(_season, days=_irregular),
    "season, bursts": Family(_season, days=_bursts),
    "short": Family(_nothing, runs=(6, 15)),
    "short, drift": Family(_drift, runs=(6, 15)),
    "short, lone outlier": Family(_lone, runs=(6, 15)),
}

if __name__ == "__main__":
    main()
