"""The list of scenarios, which are pure functions from Parameters to a Plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Optional

from reusebench.measured.plan import (
    CONTEXTS,
    CREATE_MEM,
    CUDA,
    DMA_HEAP,
    DUP,
    DUPS,
    INFERENCES,
    INPUT,
    INTERNAL,
    IO_MEMORY,
    LOAD,
    MMZ,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    PHYSICAL,
    REPLACED,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Cycles,
    InvalidPlan,
    Model,
    Plan,
    Streams,
)

__all__ = [
    "CYCLES",
    "DEFAULT_OPTIONS",
    "FIRST_LOOK",
    "FRAMES_4K",
    "FRAMES_1080P",
    "IN_TURN",
    "LEAN",
    "LIMIT",
    "MODEL_SETS",
    "OPTIONS",
    "OTHER_QUESTION",
    "PLANS",
    "QUESTIONS",
    "RESOLUTIONS",
    "SCENARIOS",
    "STREAMS",
    "Parameters",
    "Scenario",
    "TooFewModels",
    "find_scenario",
    "name_of_plan",
    "name_without_reuse",
    "option_scenario",
    "question_of",
    "scenarios_of",
    "without_reuse",
]

#: Which models a scenario is made from: one per stream; several that run one after the other, the
#: largest first; one at several resolutions, the first of which has the weights; one that takes a
#: camera frame and gives one back; one that is made and run again and again.
STREAMS = "streams"
IN_TURN = "in_turn"
RESOLUTIONS = "resolutions"
FRAMES_1080P = "frames_1080p"
FRAMES_4K = "frames_4k"
CYCLES = "cycles"
MODEL_SETS = (STREAMS, IN_TURN, RESOLUTIONS, FRAMES_1080P, FRAMES_4K, CYCLES)

#: The question of the runtimes' own options, each of which is a scenario, called as the option; and
#: its baseline.
OPTIONS = "options"
DEFAULT_OPTIONS = "default_options"


class TooFewModels(InvalidPlan):
    """The scenario takes the first models of its set, and the set has no more than these."""


@dataclass(frozen=True)
class Parameters:
    """The user's options; every scenario makes its plan from these alone."""

    runtime: str
    #: Of the scenario's set. Models of streams are used in turn when there are fewer than streams.
    models: tuple[Model, ...]
    streams: int
    #: Contexts of each stream.
    contexts: int
    cores: int
    rounds: int
    #: Whether a context can be bound to one of the cores, as on an NPU.
    binds: bool = False
    #: Of the scenarios of streams.
    schedule: Optional[Streams] = None
    #: Of the scenarios of cycles.
    cycles: int = 1
    #: So many contexts at most of a scenario that fills. There are six such scenarios; on the
    #: virtual board a context takes 0.2 s on a slow machine.
    limit_contexts: int = 24


@dataclass(frozen=True)
class ScenarioLayout:
    """The models and contexts of a plan; the rest of a plan is the same in every scenario."""

    models: tuple[Model, ...]
    contexts: tuple[Context, ...]


_LayOut = Callable[[Parameters], ScenarioLayout]


@dataclass(frozen=True)
class Scenario:
    """One way to lay out contexts, with the baseline of the same models that it is compared
    with.
    """

    name: str
    #: The first is measured; where the runtime has not all mechanisms that it needs, the next.
    lay_outs: tuple[_LayOut, ...]
    baseline: Optional[str] = None
    #: One of MODEL_SETS.
    model_set: str = STREAMS
    #: Whether another scenario shows the same mechanism, and this one at another size, or with
    #: frames, alone.
    is_variant: bool = False
    #: Whether its contexts take the frames of streams (Parameters.schedule).
    has_streams: bool = False
    #: What it does again and again, a key of plan.CYCLE_KINDS; None: its contexts have a steady
    #: phase.
    cycles: Optional[str] = None
    #: Whether contexts of one model are added until one fails (Plan.fills).
    fills: bool = False

    @property
    def runs_once(self) -> bool:
        """Whether one process answers it: cycles are the repeats, or contexts are counted."""
        return self.cycles is not None or self.fills

    def plans(self, parameters: Parameters) -> list[Plan]:
        """Return a plan for each way to lay the scenario out.

        Raises TooFewModels if another scenario measures the same with these models.
        """
        if self.fills:
            parameters = replace(
                parameters, streams=1, contexts=parameters.limit_contexts, rounds=1
            )
        plans = []
        for lay_out in self.lay_outs:
            layout = lay_out(parameters)
            plan = Plan(
                scenario=self.name,
                baseline=self.baseline,
                runtime=parameters.runtime,
                models=layout.models,
                contexts=layout.contexts,
                cores=parameters.cores,
                rounds=parameters.rounds,
                schedule=parameters.schedule if self.has_streams else None,
                cycles=Cycles(self.cycles, parameters.cycles) if self.cycles else None,
                fills=self.fills,
            )
            plans.append(plan)
        return plans


def _group(first: int, streams: Sequence[Optional[int]], model: int, reuse: str) -> list[Context]:
    """Return contexts of one model, one for each entry of streams: the first is loaded, the others
    reuse it.
    """
    contexts = [Context(streams[0], model)]
    for stream in streams[1:]:
        contexts.append(Context(stream, model, reuse, None if reuse == LOAD else first))
    return contexts


def _one_model_per_stream(parameters: Parameters, reuse: str) -> ScenarioLayout:
    """Each stream has its own model; the first of its contexts is loaded, the others reuse it."""
    of_streams = [
        parameters.models[stream % len(parameters.models)] for stream in range(parameters.streams)
    ]
    models = tuple(dict.fromkeys(of_streams))
    contexts: list[Context] = []
    for stream, model in enumerate(of_streams):
        contexts += _group(
            len(contexts), [stream] * parameters.contexts, models.index(model), reuse
        )
    return ScenarioLayout(models, tuple(contexts))


def _one_model(parameters: Parameters, reuse: str) -> ScenarioLayout:
    """One model serves all streams; the very first context is loaded, the others reuse it."""
    streams = [stream for stream in range(parameters.streams) for _ in range(parameters.contexts)]
    return ScenarioLayout(parameters.models[:1], tuple(_group(0, streams, 0, reuse)))


def _all_with(layout: ScenarioLayout, **changes: Any) -> ScenarioLayout:
    return replace(
        layout, contexts=tuple(replace(context, **changes) for context in layout.contexts)
    )


def _internal_per_core(layout: ScenarioLayout, cores: int) -> ScenarioLayout:
    """Bind the contexts to the cores in turn; those of one core share one internal memory."""
    bound = []
    for index, context in enumerate(layout.contexts):
        bound.append(replace(context, core=index % cores, internal=index % cores))
    return replace(layout, contexts=tuple(bound))


_no_reuse = partial(_one_model_per_stream, reuse=LOAD)
_partial_dup = partial(_one_model_per_stream, reuse=DUP)
_no_reuse_one_model = partial(_one_model, reuse=LOAD)
_full_dup = partial(_one_model, reuse=DUP)
#: One context serves all streams from as many threads as there would be contexts.
_shared_context = partial(_one_model, reuse=SHARED_CONTEXT)


def _full_dup_internal_reuse(parameters: Parameters) -> ScenarioLayout:
    """Full dup, and the contexts of one core, which run in turn, share one internal memory."""
    return _internal_per_core(_full_dup(parameters), parameters.cores)


def _in_turn(parameters: Parameters) -> ScenarioLayout:
    """Each model has one context; all run in turn, each in internal memory of its own."""
    contexts = [Context(stream=0, model=index, core=0) for index in range(len(parameters.models))]
    return ScenarioLayout(parameters.models, tuple(contexts))


def _internal_reuse(parameters: Parameters) -> ScenarioLayout:
    """Each model has one context; all run in turn, in one internal memory of the largest."""
    return _all_with(_in_turn(parameters), internal=0)


def _internal_reuse_last_first(parameters: Parameters) -> ScenarioLayout:
    """The same, but the contexts are made in the reverse order: the largest comes last."""
    layout = _internal_reuse(parameters)
    return replace(layout, contexts=tuple(reversed(layout.contexts)))


def _resolutions(count: Optional[int] = None) -> _LayOut:
    """Each of the first `count` resolutions of the network, or of all, has one context with weights
    of its own.
    """

    def lay_out(parameters: Parameters) -> ScenarioLayout:
        models = parameters.models[:count]
        given = len(parameters.models)
        if count is not None and given <= count:
            raise TooFewModels(
                f"it needs more than {count} resolutions and there are {given}, which the scenario"
                " of all resolutions measures. Give more with --resolution"
            )
        return ScenarioLayout(
            models, tuple(Context(stream=0, model=index) for index in range(len(models)))
        )

    return lay_out


def _shared_weights(count: Optional[int] = None) -> _LayOut:
    """The same; all have the weights of the first."""

    def lay_out(parameters: Parameters) -> ScenarioLayout:
        layout = _resolutions(count)(parameters)
        first, *others = layout.contexts
        sharing = [replace(context, mechanism=SHARED_WEIGHTS, source=0) for context in others]
        return replace(layout, contexts=(first, *sharing))

    return lay_out


def _one_model_with(**changes: Any) -> _LayOut:
    """One model for all streams; every context is loaded, with these changes."""
    return lambda parameters: _all_with(_no_reuse_one_model(parameters), **changes)


def _external(allocator: str) -> _LayOut:
    """One model; the application gives every context all of its memory: weights, internal, input
    and output.
    """
    return _one_model_with(
        outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT, OUTPUT), allocator=allocator
    )


def _one_context_with(**changes: Any) -> _LayOut:
    """One context of one model, with these changes."""
    return lambda parameters: ScenarioLayout(
        parameters.models[:1], (Context(stream=0, model=0, **changes),)
    )


def _weight_memory(parameters: Parameters) -> ScenarioLayout:
    """One model; the application gives the first context all of its memory, and the others its
    memory of weights.
    """
    layout = _one_model(parameters, reuse=SHARED_WEIGHT_MEMORY)
    first, *others = layout.contexts
    outside = [replace(context, outside=(INTERNAL,)) for context in others]
    return replace(layout, contexts=(replace(first, outside=(WEIGHTS, INTERNAL)), *outside))


def _tensors_in_place(layout: ScenarioLayout) -> ScenarioLayout:
    """The same; input and output are in place."""
    return _all_with(layout, zero_copy=(INPUT, OUTPUT))


def _tensors_per_core(output: str) -> Callable[[ScenarioLayout], ScenarioLayout]:
    """The same, with the output in this form; the contexts of one core, which run in turn, share
    their tensors.
    """

    def share(layout: ScenarioLayout) -> ScenarioLayout:
        shared = []
        for context in layout.contexts:
            shared.append(replace(context, zero_copy=(INPUT, output), io=context.core))
        return replace(layout, contexts=tuple(shared))

    return share


def _lean(
    weights: _LayOut,
    internal: bool,
    tensors: Optional[Callable[[ScenarioLayout], ScenarioLayout]] = None,
) -> _LayOut:
    """One model for all streams, with these mechanisms together; the contexts of one core share
    internal memory.
    """

    def lay_out(parameters: Parameters) -> ScenarioLayout:
        layout = weights(parameters)
        if internal:
            inside = []
            for context in layout.contexts:
                inside.append(
                    replace(
                        context, outside=tuple(kind for kind in context.outside if kind != INTERNAL)
                    )
                )
            layout = _internal_per_core(replace(layout, contexts=tuple(inside)), parameters.cores)
        return tensors(layout) if tensors else layout

    return lay_out


#: The steps to the smallest footprint: weights, with internal memory, with tensors. The first that
#: the runtime can combine is measured: those with more mechanisms stand before the others.
_LEAN_WEIGHTS: tuple[_LayOut, ...] = (_full_dup, _weight_memory)
_LEAN_INTERNAL: tuple[_LayOut, ...] = (
    *(_lean(weights, True) for weights in (_full_dup, _weight_memory, _no_reuse_one_model)),
    *_LEAN_WEIGHTS,
)
_LEAN: tuple[_LayOut, ...] = (
    *(
        _lean(weights, True, _tensors_per_core(output))
        for weights in _LEAN_WEIGHTS
        for output in (NATIVE_OUTPUT, OUTPUT)
    ),
    _lean(_full_dup, True),
    _lean(_full_dup, False, _tensors_in_place),
    *(
        _lean(_no_reuse_one_model, internal=True, tensors=_tensors_per_core(output))
        for output in (NATIVE_OUTPUT, OUTPUT)
    ),
    _full_dup,
    _lean(_no_reuse_one_model, True),
    _lean(_no_reuse_one_model, False, _tensors_in_place),
)


def _contexts(*contexts: Context) -> _LayOut:
    """These contexts, all of the first model."""
    return lambda parameters: ScenarioLayout(parameters.models[:1], contexts)


def _of_cycles(kind: str, *contexts: Context) -> Scenario:
    return Scenario(
        f"cycles_{kind}", (_contexts(*contexts),), model_set=CYCLES, is_variant=True, cycles=kind
    )


def _decode_only(parameters: Parameters) -> ScenarioLayout:
    """No context: frames are decoded and let go."""
    return ScenarioLayout(parameters.models, ())


def _bound(lay_out: _LayOut) -> _LayOut:
    """The same; where cores can be chosen the contexts are bound to them in turn."""

    def lay_out_bound(parameters: Parameters) -> ScenarioLayout:
        layout = lay_out(parameters)
        if not parameters.binds:
            return layout
        contexts = [
            replace(context, core=index % parameters.cores)
            for index, context in enumerate(layout.contexts)
        ]
        return replace(layout, contexts=tuple(contexts))

    return lay_out_bound


def _full_dup_per_core(parameters: Parameters) -> ScenarioLayout:
    """One model, and a context for each core, each the dup of the first; they take the frames of
    all streams.
    """
    return ScenarioLayout(
        parameters.models[:1], tuple(_group(0, [None] * parameters.cores, 0, DUP))
    )


def _of_streams(name: str, lay_out: _LayOut, baseline: Optional[str] = None) -> Scenario:
    return Scenario(name, (_bound(lay_out),), baseline, is_variant=True, has_streams=True)


def _of_limit(
    name: str, *lay_outs: _LayOut, baseline: Optional[str] = "limit_no_reuse"
) -> Scenario:
    return Scenario(name, lay_outs, baseline, is_variant=True, fills=True)


def _io(suffix: str, model_set: str, make: Callable[..., _LayOut]) -> tuple[Scenario, ...]:
    """Return every way to move input and output, of models of one set."""
    baseline = f"copied_io{suffix}"
    ways: dict[str, dict[str, Any]] = {
        "zero_copy_input": {"zero_copy": (INPUT,)},
        "zero_copy_output": {"zero_copy": (OUTPUT,)},
        "zero_copy_io": {"zero_copy": (INPUT, OUTPUT)},
        "native_io": {"zero_copy": (INPUT, NATIVE_OUTPUT)},
        "device_io": {"device_io": True},
    }
    others = [
        Scenario(
            f"{name}{suffix}", (make(**changes),), baseline, model_set, is_variant=bool(suffix)
        )
        for name, changes in ways.items()
    ]
    return (Scenario(baseline, (make(),), model_set=model_set, is_variant=bool(suffix)), *others)


#: Every scenario, in the order in which it runs: a baseline stands before what is compared with it.
SCENARIOS: tuple[Scenario, ...] = (
    Scenario("no_reuse", (_no_reuse,)),
    Scenario("partial_dup", (_partial_dup,), baseline="no_reuse"),
    Scenario("no_reuse_one_model", (_no_reuse_one_model,)),
    Scenario("full_dup", (_full_dup,), baseline="no_reuse_one_model"),
    Scenario("shared_context", (_shared_context,), baseline="no_reuse_one_model"),
    Scenario("full_dup_internal_reuse", (_full_dup_internal_reuse,), baseline="no_reuse_one_model"),
    Scenario("in_turn", (_in_turn,), model_set=IN_TURN),
    Scenario("internal_reuse", (_internal_reuse,), baseline="in_turn", model_set=IN_TURN),
    Scenario(
        "internal_reuse_last_first",
        (_internal_reuse_last_first,),
        baseline="in_turn",
        model_set=IN_TURN,
    ),
    Scenario("resolutions_2", (_resolutions(2),), model_set=RESOLUTIONS, is_variant=True),
    Scenario(
        "shared_weights_2", (_shared_weights(2),), "resolutions_2", RESOLUTIONS, is_variant=True
    ),
    Scenario("resolutions_3", (_resolutions(3),), model_set=RESOLUTIONS, is_variant=True),
    Scenario(
        "shared_weights_3", (_shared_weights(3),), "resolutions_3", RESOLUTIONS, is_variant=True
    ),
    Scenario("resolutions", (_resolutions(),), model_set=RESOLUTIONS),
    Scenario("shared_weights", (_shared_weights(),), baseline="resolutions", model_set=RESOLUTIONS),
    Scenario("runtime_memory", (_no_reuse_one_model,)),
    Scenario("external_weights", (_one_model_with(outside=(WEIGHTS,)),), baseline="runtime_memory"),
    Scenario(
        "external_internal", (_one_model_with(outside=(INTERNAL,)),), baseline="runtime_memory"
    ),
    Scenario(
        "external_io", (_one_model_with(zero_copy=(INPUT, OUTPUT)),), baseline="runtime_memory"
    ),
    Scenario("external_memory", (_external(CREATE_MEM),), baseline="runtime_memory"),
    Scenario("external_dma_heap", (_external(DMA_HEAP),), baseline="runtime_memory"),
    Scenario("external_physical", (_external(PHYSICAL),), baseline="runtime_memory"),
    Scenario("external_mmz", (_external(MMZ),), baseline="runtime_memory"),
    Scenario("weight_memory", (_weight_memory,), baseline="runtime_memory"),
    Scenario("model_in_place", (_one_model_with(zero_copy=(MODEL,)),), baseline="runtime_memory"),
    *_io("", STREAMS, _one_model_with),
    *_io("_1080p", FRAMES_1080P, _one_context_with),
    *_io("_4k", FRAMES_4K, _one_context_with),
    Scenario("cuda_copied_io", (_one_model_with(device=CUDA),)),
    Scenario(
        "cuda_device_io", (_one_model_with(device=CUDA, device_io=True),), baseline="cuda_copied_io"
    ),
    Scenario("plain", (_no_reuse_one_model,)),
    Scenario("lean_weights", _LEAN_WEIGHTS, baseline="plain", is_variant=True),
    Scenario("lean_internal", _LEAN_INTERNAL, baseline="plain", is_variant=True),
    Scenario("lean", _LEAN, baseline="plain"),
    Scenario(DEFAULT_OPTIONS, (_one_context_with(),)),
    _of_streams("streams_decode_only", _decode_only),
    _of_streams("streams_no_reuse", _no_reuse),
    _of_streams("streams_partial_dup", _partial_dup, baseline="streams_no_reuse"),
    _of_streams("streams_no_reuse_one_model", _no_reuse_one_model),
    _of_streams("streams_full_dup", _full_dup, baseline="streams_no_reuse_one_model"),
    _of_streams(
        "streams_full_dup_per_core", _full_dup_per_core, baseline="streams_no_reuse_one_model"
    ),
    _of_cycles(INFERENCES, Context(stream=0, model=0)),
    _of_cycles(CONTEXTS, Context(stream=0, model=0)),
    _of_cycles(DUPS, *_group(0, [0, 0], 0, DUP)),
    _of_cycles(IO_MEMORY, Context(stream=0, model=0, zero_copy=(INPUT, OUTPUT))),
    _of_cycles(REPLACED, *_group(0, [0, 0], 0, LOAD)),
    _of_limit("limit_no_reuse", _no_reuse_one_model, baseline=None),
    _of_limit("limit_zero_copy_io", _one_model_with(zero_copy=(INPUT, OUTPUT))),
    _of_limit("limit_internal_reuse", _lean(_no_reuse_one_model, True)),
    _of_limit("limit_full_dup", _full_dup),
    _of_limit("limit_full_dup_internal_reuse", _full_dup_internal_reuse),
    _of_limit("limit_lean", *_LEAN),
)


#: What is asked first: what no reuse, dup, internal reuse and all mechanisms together take, and
#: what frames cost. Where there is dup the steps of LEAN are its scenarios, and measured once;
#: if there is none they are the answer.
FIRST_LOOK = (
    "no_reuse_one_model",
    "full_dup",
    "full_dup_internal_reuse",
    "plain",
    "lean_weights",
    "lean_internal",
    "lean",
    "streams_no_reuse_one_model",
    "streams_full_dup",
)

#: The question of the plans that users bring: each is compared with itself without reuse, which is
#: called after it.
PLANS = "plans"
#: The question of the scenarios that fill; they have no figures to compare.
LIMIT = "limit"
#: The question whose scenarios are steps, each with the mechanisms of the one before.
LEAN = "lean"
#: No plan's name has a dot.
_WITHOUT_REUSE = ".no_reuse"
#: The questions that scenarios answer, each by the baselines of its scenarios: a file of bench/, a
#: part of the report.
QUESTIONS: dict[str, tuple[str, ...]] = {
    PLANS: (),
    "dup": ("no_reuse", "no_reuse_one_model"),
    "internal_reuse": ("in_turn",),
    "shared_weights": ("resolutions_2", "resolutions_3", "resolutions"),
    "external_memory": ("runtime_memory",),
    "io_copies": ("copied_io", "copied_io_1080p", "copied_io_4k", "cuda_copied_io"),
    LEAN: ("plain",),
    OPTIONS: (DEFAULT_OPTIONS,),
    "streams": ("streams_decode_only", "streams_no_reuse", "streams_no_reuse_one_model"),
    "leaks": tuple(scenario.name for scenario in SCENARIOS if scenario.cycles),
    LIMIT: ("limit_no_reuse",),
}
#: Of stored scenarios that this version does not know.
OTHER_QUESTION = "other"


def question_of(scenario: str, baseline: Optional[str]) -> str:
    """Return the question that a scenario answers, which is that of its baseline."""
    for question, baselines in QUESTIONS.items():
        if (baseline or scenario) in baselines:
            return question
    return PLANS if name_of_plan(baseline or scenario) else OTHER_QUESTION


def scenarios_of(question: str) -> list[str]:
    """Return the names of a question's scenarios, in the order in which they run."""
    return [
        scenario.name
        for scenario in SCENARIOS
        if question_of(scenario.name, scenario.baseline) == question
    ]


def option_scenario(option: str) -> Scenario:
    """Return the scenario of a runtime's own option, NAME=VALUE."""
    return Scenario(
        option, (_one_context_with(options=(option,)),), DEFAULT_OPTIONS, is_variant=True
    )


def find_scenario(name: str) -> Scenario:
    """Return the scenario of this name, or of this option (NAME=VALUE); raise KeyError."""
    if "=" in name:
        return option_scenario(name)
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise KeyError(
        f"unknown scenario {name!r}; valid: {', '.join(scenario.name for scenario in SCENARIOS)}"
    )


def name_without_reuse(plan: str) -> str:
    """Return what a user's plan without reuse is called, as a scenario."""
    return f"{plan}{_WITHOUT_REUSE}"


def name_of_plan(scenario: str) -> Optional[str]:
    """Return the name of the user's plan that this is without reuse; None if it is no such
    plan.
    """
    return scenario[: -len(_WITHOUT_REUSE)] if scenario.endswith(_WITHOUT_REUSE) else None


def without_reuse(plan: Plan) -> Plan:
    """Return the baseline of a user's plan: every context is loaded, and the runtime allocates all
    of its memory.

    Models, streams, the order of running, cores, device and the runtime's own options stay.
    """
    contexts = []
    for index, context in enumerate(plan.contexts):
        alone = Context(
            context.stream,
            context.model,
            device=context.device,
            core=context.core,
            name=context.name,
        )
        contexts.append(replace(alone, options=plan.options_of(index)))
    name = name_without_reuse(plan.scenario)
    return replace(plan, scenario=name, baseline=None, contexts=tuple(contexts))
