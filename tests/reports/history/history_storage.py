"""Storages with many runs and configurations: noise, gaps, failures, versions and steps."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from reusebench.reports.history.configuration_runs import configurations_of
from reusebench.reports.history.series import History, histories_of
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.storage.metrics import Metric, find_metric
from reusebench.storage.result import Result
from reusebench.storage.run_file import Commit, MachineInfo
from reusebench.storage.runs import Run, read_runs
from tests.reports.stored import (
    FAILED,
    MACHINE,
    MIB,
    MODELS,
    changed,
    dup,
    even,
    result,
    with_memory,
    with_speed,
    write_run,
)

_FIRST_RUN = datetime.datetime(2026, 1, 1)
#: The step of every third configuration, at this share of its runs.
STEP = 4 * MIB
STEP_AT = 0.6
_NEW_VERSION_AT = 0.5
_MISSING = 0.05
_FAILING = 0.01
_NOISE = 0.05 * MIB
#: Least number of streams; configurations beyond the scenarios have more.
_STREAMS = 4


def make_history(
    storage: Path, runs: int, configurations: int, machine: MachineInfo = MACHINE
) -> int:
    """Write `runs` runs, and return the number of results."""
    draw = random.Random(1)
    first = list(_configurations(storage, configurations))
    count = 0
    for number in range(runs):
        measured = [
            _measured(storage, info, position, number / runs, draw)
            for position, info in enumerate(first)
        ]
        infos = [info for info in measured if info]
        at = (_FIRST_RUN + datetime.timedelta(days=number)).isoformat()
        write_run(storage, infos, number + 1, at, Commit(id=f"{number + 1:040x}"[::-1]), machine)
        count += len(infos)
    return count


def histories_in(storage: Path, runs: int, configurations: int) -> list[History]:
    """Write `runs` runs, and return the histories of memory and latency."""
    make_history(storage, runs, configurations)
    metrics = [find_metric(name) for name in ("application_memory", "latency")]
    return histories_of_runs([run for run in read_runs(storage) if isinstance(run, Run)], metrics)


def histories_of_runs(runs: Iterable[Run], metrics: Sequence[Metric]) -> list[History]:
    return histories_of(configurations_of(runs, metrics), metrics)


def _configurations(storage: Path, count: int) -> Iterator[Result]:
    """Yield results of the scenarios, then the same with other numbers of streams."""
    for position in range(count):
        scenario = SCENARIOS[position % len(SCENARIOS)]
        costs = even(40) if scenario.baseline is None else dup(40, 10)
        yield changed(
            result(storage, scenario.name, costs, models=MODELS[:1]),
            streams=_STREAMS + position // len(SCENARIOS),
        )


def _measured(
    storage: Path, info: Result, position: int, age: float, draw: random.Random
) -> Result | None:
    """Return the configuration as measured at this age, from 0 to 1; None in a gap."""
    chance = draw.random()
    if chance < _MISSING:
        return None
    version = "1.3.0" if age > _NEW_VERSION_AT else "1.2.3"
    if chance < _MISSING + _FAILING:
        failed = result(storage, info.scenario, [], failure=FAILED)
        return changed(failed, streams=info.streams, runtime_version=version)
    step = STEP * (position % 3 == 0 and age >= STEP_AT)
    figures = {
        name: [
            size if size is None else round(size + step + draw.gauss(0, _NOISE)) for size in sizes
        ]
        for name, sizes in msgspec.structs.asdict(info.memory).items()
        if name.startswith("application_")
    }
    latencies = [ns and round(ns * draw.gauss(1, 0.01)) for ns in info.speed.latency_median_ns]
    grown = with_memory(changed(info, runtime_version=version), **figures)
    return with_speed(grown, latency_median_ns=latencies)
