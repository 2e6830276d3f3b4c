"""Summaries of runs, made from chosen values without any file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reusebench.measured.messages import Message
from reusebench.reports.compare.changes import Changes, compare_runs
from reusebench.reports.compare.gate import GateResult, check_limits
from reusebench.storage.limits import parse_limit
from reusebench.storage.metrics import find_metric
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run

MIB = 2**20
SHORT = (Message("shortage_evicted", {"mib": "30.0"}),)
FULL_DUP = Configuration("onnxruntime", "python", "full_dup", "4 x 3", ("model-a",))
NO_REUSE = Configuration("onnxruntime", "python", "no_reuse", "4 x 3", ("model-a",))
_FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def measured(
    values: Mapping[str, Sequence[float]],
    configuration: Configuration = FULL_DUP,
    outcome: str = "ok",
    busy_percent: float = 0.0,
    shortage_signs: tuple[Message, ...] = (),
    original: Configuration | None = None,
    **conditions: str,
) -> Measured:
    """Return one configuration with these values, under common conditions except the named ones."""
    common = {name: f"a {name}" for name in CONDITIONS}
    kept = (
        {name: tuple(map(float, each)) for name, each in values.items()} if outcome == "ok" else {}
    )
    return Measured(
        configuration,
        {**common, **conditions},
        outcome,
        kept,
        busy_percent,
        shortage_signs,
        original,
    )


def run(number: int, *each: Measured) -> Run:
    """Return the run of this number; a higher number is later."""
    at = (_FIRST + datetime.timedelta(hours=number)).isoformat()
    name = at[:13].replace("-", "").replace("T", "_") + "0000"
    path = Path(f"{number:04}_{name}.json")
    commit = f"{number:040x}"
    return Run(
        path,
        number,
        name,
        at,
        ("a board",),
        commit,
        is_dirty=False,
        order=(at, number, path.name),
        is_dated=True,
        is_finished=True,
        runtimes=("onnxruntime",),
        ok=len(each),
        failed=0,
        measured=each,
    )


def memory(
    number: int, *mib: float, metric: str = "application_memory_trimmed_over_baseline"
) -> Run:
    """Return a run of one configuration with one value of memory per repeat."""
    return run(number, measured({metric: [value * MIB for value in mib]}))


def compared(
    levels: Sequence[tuple[str, float, float]],
    limits: Sequence[str] = (),
    strict: bool = False,
    **head: Any,
) -> tuple[Changes, GateResult | None]:
    """Return the comparison of configurations: of each the name, and MiB of memory before and
    after. `head` has what is special about the measurements after.
    """
    sides = []
    for number, special in enumerate(({}, head), start=1):
        each = []
        for name, *mib in levels:
            values = {"application_memory": [mib[number - 1] * MIB] * 3}
            each.append(measured(values, replace(FULL_DUP, name=name), **special))
        sides.append(run(number, *each))
    metrics = [find_metric("application_memory")]
    changes = compare_runs(sides[:1], sides[1:], [], metrics)
    if not limits:
        return changes, None
    return changes, check_limits(changes, [parse_limit(limit) for limit in limits], strict)
