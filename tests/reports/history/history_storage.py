"""Storages with a history: many runs of many configurations, with noise, gaps, failures, a new version and steps."""

from __future__ import annotations

import copy
import datetime
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scenarios.catalogue import SCENARIOS
from tests.reports.stored import FAILED, MIB, dup, even, result, write_run

_FIRST_RUN = datetime.datetime(2026, 1, 1)
#: The step of every third configuration, at this share of its runs.
STEP, STEP_AT = 4 * MIB, 0.6
_NEW_VERSION_AT = 0.5
_MISSING, _FAILING = 0.05, 0.01
_NOISE = 0.05 * MIB
#: Of one configuration after the others of the same scenarios.
_STREAMS = 4


def make_history(storage: Path, runs: int, configurations: int) -> int:
    """Write so many runs, and return how many results they have."""
    draw, first = random.Random(1), list(_configurations(storage, configurations))
    for number in range(runs):
        measured = [_measured(storage, info, place, number / runs, draw) for place, info in enumerate(first)]
        at = (_FIRST_RUN + datetime.timedelta(days=number)).isoformat()
        path = write_run(storage, [info for info in measured if info], number + 1, at)
        _commit(path, number)
    return sum(len(path.read_bytes().split(b'"extra_info"')) - 1 for path in storage.glob("*/*.json"))


def _configurations(storage: Path, count: int) -> Iterator[dict[str, Any]]:
    """Yield results of the scenarios, then of the same with other numbers of streams."""
    for place in range(count):
        scenario = SCENARIOS[place % len(SCENARIOS)]
        costs = even(40) if scenario.baseline is None else dup(40, 10)
        yield result(storage, scenario.name, costs) | {"streams": _STREAMS + place // len(SCENARIOS)}


def _measured(
    storage: Path, info: dict[str, Any], place: int, age: float, draw: random.Random
) -> dict[str, Any] | None:
    """Return the configuration as a run of this age, from 0 to 1, would have measured it; None in a gap."""
    chance = draw.random()
    if chance < _MISSING:
        return None
    changed = copy.deepcopy(info)
    changed.update(runtime_version="1.3.0" if age > _NEW_VERSION_AT else "1.2.3")
    if chance < _MISSING + _FAILING:
        kept = ("streams", "runtime_version")
        return result(storage, info["scenario"], [], failure=FAILED) | {key: changed[key] for key in kept}
    step = STEP * (place % 3 == 0 and age >= STEP_AT)
    for name, sizes in changed["memory"].items():
        if name.startswith("application_"):
            sizes[:] = [size if size is None else round(size + step + draw.gauss(0, _NOISE)) for size in sizes]
    latencies = changed["speed"]["latency_median_ns"]
    latencies[:] = [round(value * draw.gauss(1, 0.01)) for value in latencies]
    return changed


def _commit(path: Path, number: int) -> None:
    """Give the run a commit of its own."""
    data = json.loads(path.read_text())
    data["commit_info"] = {"id": f"{number + 1:040x}"[::-1], "dirty": False}
    path.write_text(json.dumps(data))
