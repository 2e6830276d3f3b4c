"""Summaries of runs, made from chosen values without any file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

from reusebench.measured.messages import Message
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
        path, number, name, at, "a board", commit, False, each, (at, number, path.name), True, True
    )


def memory(
    number: int, *mib: float, metric: str = "application_memory_trimmed_over_baseline"
) -> Run:
    """Return a run of one configuration with one value of memory per repeat."""
    return run(number, measured({metric: [value * MIB for value in mib]}))
