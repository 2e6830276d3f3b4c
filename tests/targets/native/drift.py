"""Comparison of two drivers by all parts of a run that do not differ between any two processes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from reusebench.measured.plan import Model, Plan, Streams
from reusebench.scenarios.catalogue import (
    SCENARIOS,
    Parameters,
    TooFewModels,
    find_scenario,
    suits,
)
from reusebench.targets.measured_process import MeasuredRun
from reusebench.targets.outcome import Failure
from reusebench.targets.protocol.c_driver import C_PROTOCOL
from reusebench.targets.target import Target

__all__ = [
    "SCHEDULE",
    "STAND_INS",
    "by_context",
    "distinct_plans",
    "events",
    "in_c",
    "plans_of",
    "told",
    "with_models",
    "with_something_new",
    "without_leaving",
]

#: Short, and slow enough for every frame to be taken.
SCHEDULE = Streams(count=2, fps=20.0, queue=1, warm_up_s=0.1, duration_s=0.3, video=None)

#: Models of plans that are made before a test has its own, which only differ in size.
STAND_INS = tuple(Model(f"model-{number}", "", str(number), weightless="") for number in range(3))

_TIMES = ("load_ns", "latency_ns", "elapsed_ns", "begin_ns", "seconds")
_OF_A_PROCESS = ("at_ns", "pid", "thread", "inode", "call")
#: The amount of free memory changes between two runs.
_FREE = re.compile(r"('(?:available|cma)': )\d+")


def in_c(target: Target, *command: str) -> Target:
    """Return the target with the C driver, started by this command."""
    return replace(target, command=command, protocol=C_PROTOCOL)


def plans_of(
    scenario: str, models: tuple[Model, ...], cores: int, schedule: Streams = SCHEDULE
) -> list[Plan]:
    """Return all plans of a scenario of the catalogue; empty if it needs more models, or those of
    languages.
    """
    if not suits(scenario, has_conversations=False):
        return []
    parameters = Parameters(
        *("rknn", models, 2, 2, cores),
        rounds=2,
        binds=cores > 1,
        schedule=schedule,
        cycles=2,
        most_contexts=5,
    )
    assert scenario in {other.name for other in SCENARIOS}
    try:
        return find_scenario(scenario).plans(parameters)
    except TooFewModels:
        return []


def distinct_plans(plans: Iterable[Plan]) -> dict[str, Plan]:
    """Return the plans, each by the names of the scenarios that have it.

    A plan that is the beginning of another plan is left out.
    """
    names: dict[Plan, list[str]] = {}
    distinct: dict[Plan, Plan] = {}
    for plan in plans:
        key = _without_unused_models(replace(plan, scenario="", baseline=None))
        distinct.setdefault(key, plan)
        names.setdefault(key, []).append(plan.scenario)
    whole = [key for key in distinct if not any(_begins(other, key) for other in distinct)]
    return {"-".join(dict.fromkeys(names[key])): distinct[key] for key in whole}


def _without_unused_models(plan: Plan) -> Plan:
    """Return the plan with the first models in place of those that it uses, in their order."""
    used = sorted({context.model for context in plan.contexts})
    contexts = tuple(replace(context, model=used.index(context.model)) for context in plan.contexts)
    return replace(plan, models=plan.models[: len(used)], contexts=contexts)


def _begins(plan: Plan, other: Plan) -> bool:
    """Return whether the other plan is this one with additional contexts of the same models."""
    count = len(other.contexts)
    are_first = len(plan.contexts) > count and plan.contexts[:count] == other.contexts
    return are_first and {**vars(plan), "contexts": ()} == {**vars(other), "contexts": ()}


def with_something_new(plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """Return the plans that have a value of a field that no plan before has."""
    known: set[tuple[str, Any]] = set()
    new = {}
    for name, plan in plans.items():
        values = set(_values(plan))
        if not values <= known:
            new[name] = plan
        known |= values
    return new


def _values(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the values of fields of the plan and its contexts; of a number, whether it is given."""
    yield "cycles", plan.cycles
    yield "fills", plan.fills
    yield "schedule", plan.schedule is not None
    for context in plan.contexts:
        for name in ("mechanism", "outside", "allocator", "zero_copy", "device_io", "device"):
            yield name, getattr(context, name)
        for name in ("stream", "source", "internal", "io", "core"):
            yield name, getattr(context, name) is not None


def with_models(plan: Plan, models: Sequence[Model]) -> Plan:
    """Return the plan with these models in place of STAND_INS."""
    models_by_stand_in = dict(zip(STAND_INS, models))
    return replace(plan, models=tuple(models_by_stand_in[model] for model in plan.models))


def told(run: MeasuredRun) -> list[Any]:
    """Return the barriers with their data, and the end of the run."""
    barriers = [(barrier.phase, barrier.context, _data(barrier.data)) for barrier in run.barriers]
    return [*barriers, ("failure", _failure(run.failure)), ("full", _failure(run.full))]


def _data(data: Any) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.structs.asdict(data)
    for name in (*_TIMES, "python_version"):
        del values[name]
    values["latencies_ns"] = list(map(len, data.latencies_ns))
    values["allocations"] = [
        (one.kind, one.asked_bytes, bool(one.inode)) for one in data.allocations
    ]
    values["usage"] = data.usage is not None
    values["failure"] = data.failure and (
        data.failure.kind,
        data.failure.phase,
        _shown(data.failure.message),
    )
    return values


def _failure(failure: Failure | None) -> tuple[Any, ...]:
    return (
        (failure.kind, failure.phase, failure.context, _shown(failure.message)) if failure else ()
    )


def _shown(message: object) -> str:
    return _FREE.sub(r"\g<1>...", repr(message))


def events(ledger: bytes | None) -> list[dict[str, Any]]:
    """Return the events of a ledger without the parts that differ between two processes.

    These are times, threads, inodes of buffers, and the C library's name of a call.
    """
    kept = []
    for line in (ledger or b"").splitlines():
        event = json.loads(line)
        kept.append({name: value for name, value in event.items() if name not in _OF_A_PROCESS})
    return kept


def without_leaving(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events without those at the end by which buffers go.

    A process that has failed may be killed while it leaves.
    """
    count = len(events)
    while count and events[count - 1]["event"] in ("destroy", "unmap"):
        count -= 1
    return events[:count]


def by_context(log: Path) -> dict[str, list[str]]:
    """Return the calls that a double of the library saw, per context.

    Threads take turns in any order. For streams the number of inferences depends on time.
    """
    calls: dict[str, list[str]] = defaultdict(list)
    for call in log.read_text().splitlines() if log.exists() else []:
        calls["".join(re.findall(r"context=(\d+)", call))].append(call)
    return calls
