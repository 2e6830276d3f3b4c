"""Errors of the gate, by the number of runs in the baseline: `python -m benchmarks.gate_accuracy`.

It makes runs with several kinds of noise and a known change, holds a limit of 2 % against them, and
prints how often the gate says within, undecided and worse. With --storage DIR it does so with the
runs that `benchmarks.comparison_accuracy --storage DIR` has measured, without a change and with 1
MiB more.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.comparison_accuracy import GROWN, readable_runs
from benchmarks.quick import parse
from reusebench.reports.compare.changes import compare_runs
from reusebench.reports.compare.gate import UNDECIDED, WITHIN, WORSE, Held, check_limits
from reusebench.storage.limits import parse_limit
from reusebench.storage.runs import Run
from tests.reports.compare.short_runs import FULL_DUP, MIB, measured, run

_METRIC = "application_memory"
_BASE_MIB = 100.0
_LIMIT = f"{_METRIC}:2%"
#: Changes in MiB: a fall, none, half the limit, the limit, and multiples of it.
_CHANGES = (-10.0, 0.0, 1.0, 2.0, 3.0, 4.0, 8.0)
_BASELINES = (1, 2, 5, 10, 20)
_REPEATS = 3
#: Configurations of a run, each with the change.
_CONFIGURATIONS = tuple(replace(FULL_DUP, name=f"plan_{number}") for number in range(4))
#: Limits that are held against real runs.
_REAL_LIMITS = (
    "application_memory:2%",
    "application_memory:2%+512KiB",
    "application_memory_trimmed_over_baseline:256KiB",
    "application_memory_trimmed_over_baseline:512KiB",
)
_QUICK = ("--trials=2",)

#: Function that returns the repeats of one run, in MiB above the figure.
Noise = Callable[[random.Random], Sequence[float]]


def _normal(rolled: random.Random) -> Sequence[float]:
    return [rolled.gauss(0, 0.5) for _ in range(_REPEATS)]


def _two_valued(rolled: random.Random) -> Sequence[float]:
    """Return the free memory that the C library keeps in two of five processes."""
    return [2.4 if rolled.random() < 0.4 else 0.0 for _ in range(_REPEATS)]


def _skewed(rolled: random.Random) -> Sequence[float]:
    return [rolled.expovariate(1 / 0.5) for _ in range(_REPEATS)]


def _by_run(rolled: random.Random) -> Sequence[float]:
    """Return repeats that differ less than runs."""
    level = rolled.gauss(0, 0.5)
    return [level + rolled.gauss(0, 0.1) for _ in range(_REPEATS)]


NOISES: Mapping[str, Noise] = {
    "normal, 0.5 %": _normal,
    "two values, 2.4 %": _two_valued,
    "skewed, 0.5 %": _skewed,
    "by run, 0.5 %": _by_run,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the frequency of each outcome."""
    parser = argparse.ArgumentParser("python -m benchmarks.gate_accuracy", description=__doc__)
    parser.add_argument(
        "--trials", type=int, default=250, metavar="N", help="runs per line; default: 250"
    )
    parser.add_argument(
        "--storage", type=Path, metavar="DIR", help="runs of comparison_accuracy, held too"
    )
    options = parse(parser, arguments, _QUICK)
    for line in made_up_lines(options.trials):
        print(line, flush=True)
    if options.storage:
        print()
        for line in real_lines(readable_runs(options.storage)):
            print(line, flush=True)


def made_up_lines(trials: int) -> Iterator[str]:
    """Yield a line for each noise, number of runs in the baseline, and change."""
    figures = trials * len(_CONFIGURATIONS)
    yield f"limit {_LIMIT} of {_BASE_MIB:g} MiB, {_REPEATS} repeats, {figures} figures a line"
    yield _heads("noise", "change, MiB")
    for name, noise in NOISES.items():
        for count in _BASELINES:
            for change in _CHANGES:
                held = _made_up(noise, count, change, trials)
                yield _line(name, count, f"{change:+g}", held)


def _made_up(noise: Noise, count: int, change: float, trials: int) -> list[Held]:
    rolled = random.Random(1)
    held: list[Held] = []
    for _ in range(trials):
        base = [_run(number, 0.0, noise, rolled) for number in range(1, count + 1)]
        head = [_run(count + 1, change, noise, rolled)]
        held += _held(base, head, [_LIMIT])
    return held


def _run(number: int, change: float, noise: Noise, rolled: random.Random) -> Run:
    each = []
    for configuration in _CONFIGURATIONS:
        values = [(_BASE_MIB + change + more) * MIB for more in noise(rolled)]
        each.append(measured({_METRIC: values}, configuration))
    return run(number, *each)


def _held(base: Sequence[Run], head: Sequence[Run], limits: Sequence[str]) -> Sequence[Held]:
    parsed = [parse_limit(limit) for limit in limits]
    metrics = list(dict.fromkeys(limit.metric for limit in parsed))
    return check_limits(compare_runs(base, head, base, metrics), parsed).held


def real_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a line for each limit, configuration, number of runs in the baseline, and change."""
    quiet = [each for each in runs if each.name != GROWN]
    yield _heads("limit, configuration", "change")
    lines: dict[tuple[str, str, int], list[Held]] = {}
    for head in runs:
        before = [each for each in quiet if each.order < head.order]
        for count in _BASELINES:
            if len(before) < max(_BASELINES):
                continue
            for each in _held(before[-count:], [head], _REAL_LIMITS):
                name = f"{each.limit.text}, {each.change.subject.configuration.name}"
                kind = "+1 MiB" if head.name == GROWN else "none"
                lines.setdefault((name, kind, count), []).append(each)
    for (name, kind, count), held in sorted(lines.items()):
        yield _line(name, count, kind, held)


def _heads(subject: str, change: str) -> str:
    return (
        f"{subject:62} {'runs':>4} {change:>11} {'figures':>8} {'within':>7} {'undecided':>9}"
        f" {'worse':>6}   (in %)"
    )


def _line(name: str, count: int, change: str, held: Sequence[Held]) -> str:
    counts = Counter(each.outcome for each in held)
    shares = {outcome: 100 * number / len(held) for outcome, number in counts.items()}
    return (
        f"{name:62} {count:4} {change:>11} {len(held):8} {shares.get(WITHIN, 0):7.1f}"
        f" {shares.get(UNDECIDED, 0):9.1f} {shares.get(WORSE, 0):6.1f}"
    )


if __name__ == "__main__":
    main()
