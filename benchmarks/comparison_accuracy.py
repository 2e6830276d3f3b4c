"""Errors of comparisons, on real runs of the harness: `python -m benchmarks.comparison_accuracy`.

It measures small configurations on ONNX Runtime repeatedly: runs without a change, compared with
the previous one (A/A), and runs in which the measured process takes 1 MiB more. It prints the
frequency of false changes and of detected rises, both with the earlier runs of the series and from
the two runs alone. On a quiet machine 200 pairs take about 20 minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.quick import parse
from reusebench.harness.measuring.measurement import Bench
from reusebench.harness.measuring.models.model_sets import BuiltIn, ModelSets
from reusebench.harness.measuring.models.user_models import UserModels
from reusebench.harness.measuring.subject import Job, ScenarioSubject, Supplies
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.progress import Progress
from reusebench.harness.selection import resolve_targets
from reusebench.harness.settings import Settings
from reusebench.reports.base.formatting import metric_number, metric_unit
from reusebench.reports.compare.changes import Change, compare_runs
from reusebench.reports.compare.difference import HIGHER, LOWER
from reusebench.reports.compare.noise import ENOUGH_RUNS
from reusebench.samplers.environment import environment
from reusebench.samplers.host import LOCAL_HOST
from reusebench.scenarios.catalogue import find_scenario
from reusebench.storage.metrics import find_metric
from reusebench.storage.result import Result
from reusebench.storage.run_file import WITHOUT_SPEED, save_run
from reusebench.storage.runs import Run, read_runs
from reusebench.targets.resolve import Selection
from reusebench.targets.target import Target
from tests.helpers.support import CHECKOUT
from tests.reports.compare.growing_driver import VARIABLE

MIB = 2**20
RISE_BYTES = MIB
_SCENARIOS = ("no_reuse", "full_dup")
_METRICS = (
    "application_memory",
    "application_memory_over_baseline",
    "application_memory_trimmed",
    "application_memory_trimmed_over_baseline",
    "application_peak_rss",
    "system_memory",
    "latency",
    "throughput",
)
#: Runs without a change before the first comparison.
EARLIER = 20
_MOBILENET = BuiltIn(stream=("mobilenet_v2", 224), in_turn=(), resolutions=())
_QUIET = "quiet"
GROWN = "grown"


@dataclass(frozen=True)
class Trial:
    """One comparison: its rows, and whether the head run had grown."""

    grown: bool
    rows: Sequence[Change]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, unless the storage has runs already, and print the frequency of errors."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.comparison_accuracy", description=__doc__
    )
    parser.add_argument(
        "--pairs", type=int, default=200, metavar="N", help="runs without a change; default: 200"
    )
    parser.add_argument(
        "--earlier", type=int, default=EARLIER, metavar="N", help="runs before them; default: 20"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        metavar="N",
        help="processes per configuration; default: 3",
    )
    parser.add_argument(
        "--storage",
        type=Path,
        metavar="DIR",
        help="folder of the runs; existing runs are used",
    )
    options = parse(parser, arguments, ("--pairs=2", f"--earlier={ENOUGH_RUNS}", "--repeats=1"))
    if options.earlier < ENOUGH_RUNS:
        parser.error(f"--earlier: their noise is known from {ENOUGH_RUNS} runs on")
    with tempfile.TemporaryDirectory() as folder:
        storage = options.storage or Path(folder)
        if not any(storage.glob("*/*.json")):
            measure(storage, options.earlier, options.pairs, options.repeats)
        runs = readable_runs(storage)
    with_earlier = error_lines(runs, options.earlier, alone=False)
    without = error_lines(runs, options.earlier, alone=True)
    print("\n".join([*noise_lines(runs), "", *with_earlier, "", *without]))


def readable_runs(storage: Path) -> list[Run]:
    """Return the readable runs of a storage, in their order."""
    runs = [run for run in read_runs(storage) if isinstance(run, Run)]
    return sorted(runs, key=lambda run: run.order)


def measure(storage: Path, earlier: int, pairs: int, repeats: int) -> None:
    """Store `earlier` and then `pairs` runs without a change; a grown run follows every second of
    the latter.
    """
    (target,) = resolve_targets(Selection(runtimes=("onnxruntime",))).values()
    command = (sys.executable, "-m", "tests.reports.compare.growing_driver")
    growing = replace(
        target,
        command=command,
        folder=CHECKOUT,
        environment={**target.environment, VARIABLE: str(RISE_BYTES)},
    )
    for number in range(earlier + pairs):
        _store(storage, _QUIET, target, repeats)
        if number >= earlier and number % 2:
            _store(storage, GROWN, growing, repeats)


def _store(storage: Path, name: str, target: Target, repeats: int) -> None:
    """Measure the configurations once and store them as one run."""
    settings = Settings(
        streams=1,
        contexts=2,
        repeats=repeats,
        rounds=3,
        sample_hz=200.0,
        time_limit_s=120.0,
        idle_s=0.1,
        cpus=min(2, len(os.sched_getaffinity(0))),
        npu_cores=1,
    )
    targets = {"onnxruntime": target}
    with tempfile.TemporaryDirectory() as traces:
        models = ModelSets(_MOBILENET, streams=1, user=UserModels(targets, settings.time_limit_s))
        bench = Bench(
            Supplies(settings, models, Videos(targets), targets), Path(traces), Progress()
        )
        results = [
            bench.measure(Job("onnxruntime", ScenarioSubject(find_scenario(scenario)))).result
            for scenario in _SCENARIOS
        ]
    save_run(storage, _document(results), name)


def _document(results: Sequence[Result]) -> dict[str, Any]:
    """Return the run in the form of a file, without statistics of latencies, which are not used."""
    return {
        "machine_info": {"reusebench": environment(LOCAL_HOST, "here")},
        "commit_info": {},
        "benchmarks": [],
        "datetime": datetime.now(timezone.utc).isoformat(),
        "version": "",
        WITHOUT_SPEED: [{"extra_info": result} for result in results],
    }


def trials(runs: Sequence[Run], earlier: int, alone: bool) -> Iterator[Trial]:
    """Yield comparisons of the runs after the earlier ones with the last unchanged run before."""
    metrics = [find_metric(name) for name in _METRICS]
    quiet = [run for run in runs if run.name == _QUIET]
    for head in runs:
        before = [run for run in quiet if run.order < head.order]
        if len(before) >= earlier:
            changes = compare_runs(before[-1:], [head], [] if alone else before[-earlier:], metrics)
            yield Trial(head.name == GROWN, changes.rows)


def noise_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yield lines with the noise of figures over all repeats of all runs without a change."""
    yield f"{'configuration':34} {'metric':46} {'median':>12} {'sd':>10} {'sd, %':>7}"
    noise: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.name != _QUIET:
            continue
        for measured in run.measured:
            for name in _METRICS:
                values = noise.setdefault((measured.configuration.name, name), [])
                values += measured.values.get(name, ())
    for (configuration, name), values in noise.items():
        metric = find_metric(name)
        spread = statistics.stdev(values)
        median = statistics.median(values)
        shown = f"{metric_number(median, metric):>12} {metric_number(spread, metric):>10}"
        yield (
            f"{configuration:34} {f'{name}, {metric_unit(metric)}':46} {shown}"
            f" {100 * spread / median:7.2f}"
        )


def error_lines(runs: Sequence[Run], earlier: int, alone: bool) -> Iterator[str]:
    """Yield lines with the frequency of errors in rows and in whole tables."""
    pairs: list[Trial] = []
    rises: list[Trial] = []
    for trial in trials(runs, earlier, alone):
        (rises if trial.grown else pairs).append(trial)

    known = "the two runs alone" if alone else f"{earlier} earlier runs"
    false_memory = sum(_reports_change(trial, of_memory=True) for trial in pairs)
    false_speed = sum(_reports_change(trial, of_memory=False) for trial in pairs)
    yield (
        f"noise known from {known}: of {len(pairs)} tables without a change {false_memory} report"
        f" one of memory, {false_speed} one of speed"
    )
    yield f"{'configuration':34} {'metric':46} {'false':>10} {'1 MiB seen':>12} {'smallest':>10}"
    for index, change in enumerate(pairs[0].rows):
        rows = [trial.rows[index] for trial in pairs]
        false = f"{sum(map(_is_change, rows))} of {len(rows)}"
        grown = [trial.rows[index] for trial in rises]
        detected = "-"
        if _is_memory(change):
            detected = f"{sum(row.verdict == HIGHER for row in grown)} of {len(grown)}"
        smallest = statistics.median(row.difference.error or 0 for row in rows)
        name = f"{change.metric.name}, {metric_unit(change.metric)}"
        shown = metric_number(smallest, change.metric)
        configuration = change.subject.configuration
        yield f"{configuration.name:34} {name:46} {false:>10} {detected:>12} {shown:>10}"


def _reports_change(trial: Trial, of_memory: bool) -> bool:
    return any(_is_change(row) for row in trial.rows if _is_memory(row) == of_memory)


def _is_change(change: Change) -> bool:
    return change.verdict in (HIGHER, LOWER)


def _is_memory(change: Change) -> bool:
    return change.metric.part == "memory"


if __name__ == "__main__":
    main()
