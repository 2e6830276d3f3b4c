"""The list of scenarios: each a pure function from Parameters to a Plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from scenarios.plan import (
    CREATE_MEM,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MMZ,
    OUTPUT,
    PHYSICAL,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)

__all__ = [
    "IN_TURN",
    "RESOLUTIONS",
    "SCENARIOS",
    "STREAMS",
    "Parameters",
    "Scenario",
    "build_plan",
    "find_scenario",
]

#: Which models a scenario is made from: one per stream; several that run one after the other; one at several
#: resolutions, the first of which has the weights.
STREAMS, IN_TURN, RESOLUTIONS = "streams", "in_turn", "resolutions"


@dataclass(frozen=True)
class Parameters:
    """What the user chose; every scenario makes its plan from these alone."""

    runtime: str
    #: Of the scenario's set. Models of streams are used in turn when there are fewer than streams.
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
    #: STREAMS, IN_TURN or RESOLUTIONS.
    model_set: str = STREAMS


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


def _full_dup_internal_reuse(parameters: Parameters) -> Layout:
    """Full dup, and the contexts of one core, which run in turn, share one internal memory."""
    layout = _full_dup(parameters)
    cores = [index % parameters.cores for index in range(len(layout.contexts))]
    bound = [replace(context, core=core, internal=core) for context, core in zip(layout.contexts, cores)]
    return replace(layout, contexts=tuple(bound))


def _in_turn(parameters: Parameters) -> Layout:
    """Each model has one context; all run in turn, each in internal memory of its own."""
    contexts = [Context(stream=0, model=index, core=0) for index in range(len(parameters.models))]
    return Layout(parameters.models, tuple(contexts))


def _internal_reuse(parameters: Parameters) -> Layout:
    """Each model has one context; all run in turn, in one internal memory of the largest."""
    return _all_with(_in_turn(parameters), internal=0)


def _resolutions(parameters: Parameters) -> Layout:
    """Each resolution of the network has one context, with weights of its own."""
    contexts = [Context(stream=0, model=index) for index in range(len(parameters.models))]
    return Layout(parameters.models, tuple(contexts))


def _shared_weights(parameters: Parameters) -> Layout:
    """Each resolution of the network has one context; all have the weights of the first."""
    layout = _resolutions(parameters)
    first, *others = layout.contexts
    sharing = [replace(context, mechanism=SHARED_WEIGHTS, source=0) for context in others]
    return replace(layout, contexts=(first, *sharing))


def _external(allocator: str) -> Callable[[Parameters], Layout]:
    """One model; the application gives every context all of its memory: weights, internal, input and output."""
    return lambda parameters: _all_with(
        _no_reuse_one_model(parameters), outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT, OUTPUT), allocator=allocator
    )


def _external_internal(parameters: Parameters) -> Layout:
    """One model; the application gives every context its internal memory."""
    return _all_with(_no_reuse_one_model(parameters), outside=(INTERNAL,))


def _zero_copy(*tensors: str) -> Callable[[Parameters], Layout]:
    """One model; the application's input or output is used where it is."""
    return lambda parameters: _all_with(_no_reuse_one_model(parameters), zero_copy=tensors)


#: Every scenario, in the order in which it runs: a baseline stands before what is compared with it.
SCENARIOS: Tuple[Scenario, ...] = (
    Scenario("no_reuse", _no_reuse),
    Scenario("partial_dup", _partial_dup, baseline="no_reuse"),
    Scenario("no_reuse_one_model", _no_reuse_one_model),
    Scenario("full_dup", _full_dup, baseline="no_reuse_one_model"),
    Scenario("shared_context", _shared_context, baseline="no_reuse_one_model"),
    Scenario("full_dup_internal_reuse", _full_dup_internal_reuse, baseline="no_reuse_one_model"),
    Scenario("in_turn", _in_turn, model_set=IN_TURN),
    Scenario("internal_reuse", _internal_reuse, baseline="in_turn", model_set=IN_TURN),
    Scenario("resolutions", _resolutions, model_set=RESOLUTIONS),
    Scenario("shared_weights", _shared_weights, baseline="resolutions", model_set=RESOLUTIONS),
    Scenario("runtime_memory", _no_reuse_one_model),
    Scenario("external_internal", _external_internal, baseline="runtime_memory"),
    Scenario("external_memory", _external(CREATE_MEM), baseline="runtime_memory"),
    Scenario("external_dma_heap", _external(DMA_HEAP), baseline="runtime_memory"),
    Scenario("external_physical", _external(PHYSICAL), baseline="runtime_memory"),
    Scenario("external_mmz", _external(MMZ), baseline="runtime_memory"),
    Scenario("copied_io", _no_reuse_one_model),
    Scenario("zero_copy_input", _zero_copy(INPUT), baseline="copied_io"),
    Scenario("zero_copy_output", _zero_copy(OUTPUT), baseline="copied_io"),
    Scenario("zero_copy_io", _zero_copy(INPUT, OUTPUT), baseline="copied_io"),
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


def _all_with(layout: Layout, **changes: Any) -> Layout:
    return replace(layout, contexts=tuple(replace(context, **changes) for context in layout.contexts))


def _distinct(models: Sequence[Model]) -> Tuple[Model, ...]:
    return tuple(dict.fromkeys(models))
