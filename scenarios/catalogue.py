"""The list of scenarios: each a pure function from Parameters to a Plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from scenarios.plan import DUP, LOAD, SHARED_CONTEXT, Context, Model, Plan

__all__ = ["SCENARIOS", "Parameters", "Scenario", "build_plan", "find_scenario"]


@dataclass(frozen=True)
class Parameters:
    """What the user chose; every scenario makes its plan from these alone."""

    runtime: str
    #: Used in turn when there are fewer models than streams.
    models: Tuple[Model, ...]
    streams: int
    #: Contexts of each stream.
    contexts: int
    cores: int
    rounds: int


@dataclass(frozen=True)
class Layout:
    """The models and contexts of a plan; the rest of a plan is the same in every scenario."""

    models: Tuple[Model, ...]
    contexts: Tuple[Context, ...]


@dataclass(frozen=True)
class Scenario:
    """One way to lay out contexts, with the baseline of the same models that it is compared with."""

    name: str
    lay_out: Callable[[Parameters], Layout]
    baseline: Optional[str] = None


def _no_reuse(parameters: Parameters) -> Layout:
    """Each stream has its own model; every context is loaded."""
    return _one_model_per_stream(parameters, reuse=LOAD)


def _partial_dup(parameters: Parameters) -> Layout:
    """Each stream has its own model; its contexts 2..C duplicate its first."""
    return _one_model_per_stream(parameters, reuse=DUP)


def _no_reuse_one_model(parameters: Parameters) -> Layout:
    """One model serves all streams; every context is loaded."""
    return _one_model(parameters, reuse=LOAD)


def _full_dup(parameters: Parameters) -> Layout:
    """One model serves all streams; every context duplicates the first."""
    return _one_model(parameters, reuse=DUP)


def _shared_context(parameters: Parameters) -> Layout:
    """One context serves all streams from as many threads as there would be contexts."""
    return _one_model(parameters, reuse=SHARED_CONTEXT)


#: Every scenario, in the order in which it runs: a baseline stands before what is compared with it.
SCENARIOS: Tuple[Scenario, ...] = (
    Scenario("no_reuse", _no_reuse),
    Scenario("partial_dup", _partial_dup, baseline="no_reuse"),
    Scenario("no_reuse_one_model", _no_reuse_one_model),
    Scenario("full_dup", _full_dup, baseline="no_reuse_one_model"),
    Scenario("shared_context", _shared_context, baseline="no_reuse_one_model"),
)


def find_scenario(name: str) -> Scenario:
    """Return the scenario of that name; KeyError names the valid ones."""
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise KeyError(f"unknown scenario {name!r}; valid: {', '.join(each.name for each in SCENARIOS)}")


def build_plan(name: str, parameters: Parameters) -> Plan:
    """Return the plan of the named scenario for these parameters."""
    scenario = find_scenario(name)
    layout = scenario.lay_out(parameters)
    return Plan(
        scenario=scenario.name,
        baseline=scenario.baseline,
        runtime=parameters.runtime,
        models=layout.models,
        contexts=layout.contexts,
        cores=parameters.cores,
        rounds=parameters.rounds,
    )


def _one_model_per_stream(parameters: Parameters, reuse: str) -> Layout:
    in_turn = [parameters.models[stream % len(parameters.models)] for stream in range(parameters.streams)]
    models = _distinct(in_turn)
    position: Dict[Model, int] = {model: index for index, model in enumerate(models)}
    contexts: List[Context] = []
    for stream, model in enumerate(in_turn):
        contexts += _group(len(contexts), [stream] * parameters.contexts, position[model], reuse)
    return Layout(models, tuple(contexts))


def _one_model(parameters: Parameters, reuse: str) -> Layout:
    streams = [stream for stream in range(parameters.streams) for _ in range(parameters.contexts)]
    return Layout(parameters.models[:1], tuple(_group(0, streams, 0, reuse)))


def _group(first: int, streams: Sequence[int], model: int, reuse: str) -> List[Context]:
    """Return contexts of one model, one for each entry of streams: the first is loaded, the others reuse it."""
    contexts = [Context(streams[0], model)]
    for stream in streams[1:]:
        source = None if reuse == LOAD else first
        contexts.append(Context(stream, model, reuse, source))
    return contexts


def _distinct(models: Sequence[Model]) -> Tuple[Model, ...]:
    return tuple(dict.fromkeys(models))
