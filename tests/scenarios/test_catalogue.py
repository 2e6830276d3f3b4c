"""The list of scenarios: their contexts, and the baselines that they are compared with."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from reusebench.measured.plan import (
    ADAPTER,
    ALLOCATORS,
    CUDA,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_CONTEXT,
    SHARED_PROMPT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Conversation,
    Model,
    Plan,
    Streams,
)
from reusebench.scenarios.catalogue import (
    ADAPTERS,
    DEFAULT_OPTIONS,
    FRAMES_4K,
    FRAMES_1080P,
    IN_TURN,
    MERGED,
    MODEL_SETS,
    OTHER_QUESTION,
    QUESTIONS,
    RESOLUTIONS,
    SCENARIOS,
    SESSIONS,
    STREAMS,
    NoBaseline,
    Parameters,
    TooFewModels,
    TooFewTokens,
    find_scenario,
    name_of_plan,
    question_of,
    scenarios_of,
    suits,
    without_reuse,
)
from tests.helpers.support import models_of

_A, _B, _C = (Model(name, f"/{name}.onnx", name * 2) for name in "abc")
_NAMES = [scenario.name for scenario in SCENARIOS]
_OF_LANGUAGE_MODELS = [name for name in _NAMES if not suits(name, False)]
_CONVERSATION = Conversation(tokens=512, prompt=64, generated=8, common=48)
_COMPARED = [scenario.name for scenario in SCENARIOS if scenario.baseline]
#: Scenarios whose contexts take frames; one has no context, and one has contexts for all streams
#: together.
_WITH_FRAMES = [scenario.name for scenario in SCENARIOS if scenario.has_streams]
_DECODE_ONLY = "streams_decode_only"
_PER_CORE = "streams_full_dup_per_core"
_OF_STREAMS = [
    scenario.name for scenario in SCENARIOS if scenario.model_set == STREAMS and not scenario.fills
]
#: Scenarios that make contexts until one fails, with the scenario of the same layout.
_FILLING = {
    scenario.name: scenario.name.removeprefix("limit_") for scenario in SCENARIOS if scenario.fills
}
_LIKE = {"no_reuse": "no_reuse_one_model", "internal_reuse": None}
#: Scenarios with one context for each of this number of models of their set; None: for all.
_OF_MODELS = {
    **{
        scenario.name: None
        for scenario in SCENARIOS
        if scenario.model_set in (IN_TURN, RESOLUTIONS)
    },
    **{
        scenario.name: 1
        for scenario in SCENARIOS
        if scenario.model_set in (FRAMES_1080P, FRAMES_4K)
    },
    DEFAULT_OPTIONS: 1,
    "resolutions_2": 2,
    "resolutions_3": 3,
    "shared_weights_2": 2,
    "shared_weights_3": 3,
}
#: Numbers of streams, contexts of each, model files, and cores.
_SHAPES = list(itertools.product((1, 2, 4), (1, 3), (1, 3, 5), (1, 2, 4)))


def _plan(
    name: str, models: tuple[Model, ...], streams: int, contexts: int, cores: int = 4
) -> Plan:
    parameters = Parameters("onnxruntime", models, streams, contexts, cores, rounds=7)
    return find_scenario(name).plans(_with_conversation(name, parameters))[0]


def _with_conversation(name: str, parameters: Parameters) -> Parameters:
    """Return the parameters with a conversation, if the scenario is of language models."""
    if name in _OF_LANGUAGE_MODELS:
        return replace(parameters, conversation=_CONVERSATION)
    return parameters


def _shapes(name: str) -> list[tuple[int, int, int, int]]:
    """Return parameters with enough models for the scenario."""
    needed = (_OF_MODELS.get(name) or 0) if find_scenario(name).model_set == RESOLUTIONS else 0
    return [shape for shape in _SHAPES if shape[2] > needed]


def _plans(name: str) -> Iterator[Plan]:
    """Yield the scenario's plan for many parameters."""
    for streams, contexts, models, cores in _shapes(name):
        yield _plan(name, models_of(*range(models)), streams, contexts, cores)


def _models_by_stream(plan: Plan) -> list[tuple[int | None, str]]:
    return [(context.stream, plan.models[context.model].digest) for context in plan.contexts]


def _loads(**memory: Any) -> tuple[Context, ...]:
    """Return two loaded contexts for each of two streams."""
    return tuple(Context(stream, 0, **memory) for stream in (0, 0, 1, 1))


def _reusing(mechanism: str) -> tuple[Context, ...]:
    """Return the same contexts, but all others reuse the first."""
    return (Context(0, 0), *(Context(stream, 0, mechanism, 0) for stream in (0, 1, 1)))


_DUPS_ON_THREE_CORES = (
    Context(0, 0, internal=0, core=0),
    Context(0, 0, DUP, 0, internal=1, core=1),
    Context(1, 0, DUP, 0, internal=2, core=2),
    Context(1, 0, DUP, 0, internal=0, core=0),
)
_ALL_OUTSIDE: dict[str, Any] = {"outside": (WEIGHTS, INTERNAL), "zero_copy": (INPUT, OUTPUT)}

#: The contexts for 2 streams of 2 contexts, 3 models and 3 cores; scenarios of streams lay out like
#: those without.
_LAYOUTS: dict[str, tuple[Context, ...]] = {
    "no_reuse": (Context(0, 0), Context(0, 0), Context(1, 1), Context(1, 1)),
    "partial_dup": (Context(0, 0), Context(0, 0, DUP, 0), Context(1, 1), Context(1, 1, DUP, 2)),
    "no_reuse_one_model": _loads(),
    "full_dup": _reusing(DUP),
    "shared_context": _reusing(SHARED_CONTEXT),
    "full_dup_internal_reuse": _DUPS_ON_THREE_CORES,
    "in_turn": tuple(Context(0, model, core=0) for model in range(3)),
    "internal_reuse": tuple(Context(0, model, internal=0, core=0) for model in range(3)),
    "internal_reuse_last_first": tuple(
        Context(0, model, internal=0, core=0) for model in (2, 1, 0)
    ),
    "resolutions": tuple(Context(0, model) for model in range(3)),
    "shared_weights": (
        Context(0, 0),
        Context(0, 1, SHARED_WEIGHTS, 0),
        Context(0, 2, SHARED_WEIGHTS, 0),
    ),
    "runtime_memory": _loads(),
    DEFAULT_OPTIONS: (Context(0, 0),),
    "external_weights": _loads(outside=(WEIGHTS,)),
    "external_internal": _loads(outside=(INTERNAL,)),
    "external_io": _loads(zero_copy=(INPUT, OUTPUT)),
    "external_memory": _loads(**_ALL_OUTSIDE),
    **{
        f"external_{allocator}": _loads(**_ALL_OUTSIDE, allocator=allocator)
        for allocator in ALLOCATORS[1:]
    },
    "weight_memory": (
        Context(0, 0, outside=(WEIGHTS, INTERNAL)),
        *(Context(stream, 0, SHARED_WEIGHT_MEMORY, 0, outside=(INTERNAL,)) for stream in (0, 1, 1)),
    ),
    "model_in_place": _loads(zero_copy=(MODEL,)),
    "copied_io": _loads(),
    "zero_copy_input": _loads(zero_copy=(INPUT,)),
    "zero_copy_output": _loads(zero_copy=(OUTPUT,)),
    "zero_copy_io": _loads(zero_copy=(INPUT, OUTPUT)),
    "native_io": _loads(zero_copy=(INPUT, NATIVE_OUTPUT)),
    "device_io": _loads(device_io=True),
    "cuda_copied_io": _loads(device=CUDA),
    "cuda_device_io": _loads(device_io=True, device=CUDA),
    "plain": _loads(),
    "lean_weights": _reusing(DUP),
    "lean_internal": _DUPS_ON_THREE_CORES,
    "lean": tuple(
        replace(context, zero_copy=(INPUT, NATIVE_OUTPUT), io=context.core)
        for context in _DUPS_ON_THREE_CORES
    ),
    "sessions_loaded": (Context(0, 0), Context(0, 0)),
    "sessions_contexts": (Context(0, 0), Context(0, 0, DUP, 0)),
    "sessions_sequences": (Context(0, 0), Context(0, 0, SEQUENCE, 0)),
    "sessions_unified": (Context(0, 0, unified_cache=True), Context(0, 0, SEQUENCE, 0)),
    "sessions_shared_prompt": (Context(0, 0, unified_cache=True), Context(0, 0, SHARED_PROMPT, 0)),
    "sessions_restored_prompt": (Context(0, 0), Context(0, 0, RESTORED_PROMPT, 0)),
    "session": (Context(0, 0),),
    "session_shorter": (Context(0, 0),),
    "sessions_merged": (Context(0, 0), Context(0, 1), Context(0, 2)),
    "sessions_adapters": (
        Context(0, 0),
        Context(0, 1, ADAPTER, 0),
        Context(0, 2, ADAPTER, 0),
    ),
    "streams_decode_only": (),
    "cycles_inferences": (Context(0, 0),),
    "cycles_contexts": (Context(0, 0),),
    "cycles_dups": (Context(0, 0), Context(0, 0, DUP, 0)),
    "cycles_sequences": (Context(0, 0), Context(0, 0, SEQUENCE, 0)),
    "cycles_io_memory": (Context(0, 0, zero_copy=(INPUT, OUTPUT)),),
    "cycles_replaced": (Context(0, 0), Context(0, 0)),
    "streams_full_dup_per_core": (
        Context(None, 0),
        Context(None, 0, DUP, 0),
        Context(None, 0, DUP, 0),
    ),
}


# Scenarios of more resolutions, or of frames, follow below.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in _NAMES
        if not (name in _FILLING or name.endswith(("_2", "_3", "_1080p", "_4k")))
    ],
)
def test_layouts(name: str) -> None:
    """Every context has its model, mechanism and memory; a plan has the models that it uses."""
    plan = _plan(name, (_A, _B, _C), streams=2, contexts=2, cores=3)
    assert plan.contexts == _LAYOUTS[name if name in _LAYOUTS else name.replace("streams_", "")]
    used = 1 + max((context.model for context in plan.contexts), default=2)
    assert plan.models == (_A, _B, _C)[:used]


@pytest.mark.parametrize("count", [2, 3])
def test_the_first_of_several_resolutions(count: int) -> None:
    """The scenario takes this number of models, sharing or not; with no more models, the scenario
    of all has them already.
    """
    models = models_of(*range(5))
    for name in ("resolutions", "shared_weights"):
        assert _plan(f"{name}_{count}", models, 4, 3) == replace(
            _plan(name, models[:count], 4, 3),
            scenario=f"{name}_{count}",
            baseline=f"resolutions_{count}" if name == "shared_weights" else None,
        )
        with pytest.raises(
            TooFewModels, match=f"more than {count} resolutions and there are {count}, "
        ):
            _plan(f"{name}_{count}", models[:count], 4, 3)


@pytest.mark.parametrize("size", ["1080p", "4k"])
@pytest.mark.parametrize(
    "way",
    ["copied_io", "zero_copy_input", "zero_copy_output", "zero_copy_io", "native_io", "device_io"],
)
def test_frames_move_as_small_tensors_do(way: str, size: str) -> None:
    """One context of the model of frames has the fields that the scenario of the same name sets."""
    plan = _plan(f"{way}_{size}", (_A,), streams=4, contexts=3)
    assert plan.contexts == _plan(way, (_A,), streams=4, contexts=3).contexts[:1]


def test_lean_gives_up_one_mechanism_after_the_other() -> None:
    """The next plan is for a runtime that lacks a mechanism of the earlier ones; none has more than
    an earlier one.
    """
    counts = []
    kinds = set()
    for plan in find_scenario("lean").plans(Parameters("onnxruntime", (_A,), 2, 2, 2, 7)):
        second = plan.contexts[1]
        counts.append(
            sum([second.source is not None, second.internal is not None, bool(second.zero_copy)])
        )
        kinds.add((second.mechanism, second.internal, second.zero_copy, second.io))
    assert counts == [3] * 4 + [2] * 4 + [1] * 3
    assert len(kinds) == len(counts)


def test_the_steps_to_lean_add_up() -> None:
    """Each first choice has the mechanisms of the previous step; the steps are also plans of the
    question of dup.
    """
    parameters = Parameters("rknn", (_A,), 2, 2, 2, 7)
    weights, internal, lean = (
        find_scenario(name).plans(parameters)[0]
        for name in ("lean_weights", "lean_internal", "lean")
    )
    assert weights.contexts == find_scenario("full_dup").plans(parameters)[0].contexts
    assert (
        internal.contexts == find_scenario("full_dup_internal_reuse").plans(parameters)[0].contexts
    )
    assert (
        tuple(replace(context, zero_copy=(), io=None) for context in lean.contexts)
        == internal.contexts
    )


def test_without_dup_the_weights_are_one_memory() -> None:
    """The second choice of each step is the same over the application's weight memory."""
    parameters = Parameters("rknn", (_A,), 2, 2, 1, 7)
    for name, internal in (("lean_weights", None), ("lean_internal", 0)):
        first, *others = find_scenario(name).plans(parameters)[1].contexts
        assert first.outside == ((WEIGHTS,) if internal == 0 else (WEIGHTS, INTERNAL))
        assert {(context.mechanism, context.source) for context in others} == {
            (SHARED_WEIGHT_MEMORY, 0)
        }
        assert {context.internal for context in (first, *others)} == {internal}


# The models of scenarios


def test_fewer_models_than_streams_are_used_in_turn() -> None:
    """Streams 0 and 2 have the same model; with partial dup each still loads its first context."""
    plan = _plan("partial_dup", (_A, _B), streams=3, contexts=2)
    assert plan.models == (_A, _B)
    assert plan.contexts == (
        Context(0, 0),
        Context(0, 0, DUP, 0),
        Context(1, 1),
        Context(1, 1, DUP, 2),
        Context(2, 0),
        Context(2, 0, DUP, 4),
    )


def test_only_models_that_are_used_are_in_a_plan() -> None:
    """If there are more models than streams, some are left out; a repeated model is there once."""
    assert _plan("no_reuse", (_A, _B, _C), streams=2, contexts=1).models == (_A, _B)
    assert _plan("no_reuse", (_A, _A, _B), streams=3, contexts=1).models == (_A, _B)


@pytest.mark.parametrize("name", _COMPARED)
def test_a_scenario_has_the_model_set_of_its_baseline(name: str) -> None:
    """Otherwise the two would not get the same models; adapters are compared with merged ones."""
    scenario = find_scenario(name)
    assert scenario.model_set in MODEL_SETS
    assert scenario.baseline is not None
    expected = {ADAPTERS: MERGED}.get(scenario.model_set, scenario.model_set)
    assert find_scenario(scenario.baseline).model_set == expected


# Conversations with language models


@pytest.mark.parametrize("name", _NAMES)
def test_the_conversation_of_a_scenario(name: str) -> None:
    """It is that of the parameters; one scenario has half the room, and cycles fill theirs."""
    parameters = Parameters("x", models_of(*range(9)), 1, 2, 1, 3, conversation=_CONVERSATION)
    conversation = find_scenario(name).plans(parameters)[0].conversation
    expected = _CONVERSATION
    if name == "session_shorter":
        expected = replace(_CONVERSATION, tokens=256)
    if name.startswith("cycles_"):
        expected = Conversation(tokens=256, prompt=248, generated=8, common=48)
    assert conversation == expected


def test_half_of_the_tokens_must_be_enough() -> None:
    """With no room to spare the shorter conversation would be the same: that is refused."""
    tight = Parameters("x", (_A,), 1, 2, 1, 3, conversation=replace(_CONVERSATION, tokens=72))
    with pytest.raises(TooFewTokens, match=r"half of 72 tokens is less than the 72 .* --tokens"):
        find_scenario("session_shorter").plans(tight)
    between = replace(tight, conversation=replace(_CONVERSATION, tokens=100))
    (plan,) = find_scenario("session_shorter").plans(between)
    assert plan.conversation == replace(_CONVERSATION, tokens=72)


def test_which_scenarios_language_models_take_part_in() -> None:
    """Sessions, options and leaks, apart from the memory of inputs; no other model in sessions."""
    taking_part = [name for name in _NAMES if suits(name, True)]
    leaks = [name for name in scenarios_of("leaks") if name != "cycles_io_memory"]
    assert sorted(taking_part) == sorted([*scenarios_of(SESSIONS), DEFAULT_OPTIONS, *leaks])
    assert suits("cache_type=q8_0", True)
    others = [name for name in _NAMES if not suits(name, False)]
    assert others == [*scenarios_of(SESSIONS), "cycles_sequences"]


def test_a_plan_with_adapters_has_none_without_reuse() -> None:
    """An adapter would be merged into a model that the plan does not have; sequences are loaded."""
    contexts = (Context(0, 0, unified_cache=True), Context(0, 0, SHARED_PROMPT, 0))
    plan = Plan("talk", None, "x", (_A, _B), contexts, 1, 3, conversation=_CONVERSATION)
    baseline = without_reuse(plan)
    assert baseline.contexts == (Context(0, 0), Context(0, 0))
    assert baseline.conversation == _CONVERSATION
    with pytest.raises(NoBaseline, match=r"an adapter is merged .*: --adapter FILE,MERGED"):
        without_reuse(replace(plan, contexts=(Context(0, 0), Context(0, 1, ADAPTER, 0))))


# Streams of frames


@pytest.mark.parametrize("name", _WITH_FRAMES)
def test_contexts_of_streams_are_bound_to_the_cores_in_turn(name: str) -> None:
    """On an NPU every core has the same number of contexts, give or take one; on a CPU the system
    chooses.
    """
    parameters = Parameters("rknn", (_A, _B), streams=4, contexts=3, cores=3, rounds=1, binds=True)
    (bound,) = find_scenario(name).plans(parameters)
    (free,) = find_scenario(name).plans(replace(parameters, binds=False))
    assert [context.core for context in bound.contexts] == [
        index % 3 for index in range(len(bound.contexts))
    ]
    assert free.contexts == tuple(replace(context, core=None) for context in bound.contexts)


def test_only_scenarios_of_streams_have_the_schedule() -> None:
    """Only scenarios of streams have a schedule; the others run their rounds."""
    schedule = Streams(2, 30.0, 0, 0.0, 1.0, None)
    parameters = Parameters("x", models_of(*range(9)), 2, 1, 2, rounds=1, schedule=schedule)
    scheduled = []
    for name in _NAMES:
        plan = find_scenario(name).plans(_with_conversation(name, parameters))[0]
        if plan.schedule is not None:
            scheduled.append(name)
    assert scheduled == _WITH_FRAMES


@pytest.mark.parametrize("name", _FILLING)
def test_contexts_that_are_made_until_one_fails(name: str) -> None:
    """The plan has the most contexts, of the first model and in one stream, laid out like the
    similar scenario.
    """
    parameters = Parameters(
        "x", (_A, _B), streams=4, contexts=3, cores=3, rounds=7, most_contexts=5
    )
    like = _LIKE.get(_FILLING[name], _FILLING[name])
    if like:
        expected = find_scenario(like).plans(replace(parameters, streams=1, contexts=5))
    else:
        plan = find_scenario("no_reuse_one_model").plans(
            replace(parameters, streams=1, contexts=5)
        )[0]
        bound = [
            replace(context, core=at % 3, internal=at % 3)
            for at, context in enumerate(plan.contexts)
        ]
        expected = [replace(plan, contexts=tuple(bound))]
    plans = find_scenario(name).plans(parameters)
    assert [plan.contexts for plan in plans] == [plan.contexts for plan in expected]
    assert {(plan.models, plan.fills, plan.rounds) for plan in plans} == {((_A,), True, 1)}


def test_no_other_scenario_fills() -> None:
    """Every other scenario makes all of its contexts before the first runs."""
    assert [
        name for name in _NAMES if name not in _FILLING and any(plan.fills for plan in _plans(name))
    ] == []


# Rules for all scenarios


@pytest.mark.parametrize(
    "name", [name for name in _OF_STREAMS if name not in (_DECODE_ONLY, _PER_CORE, DEFAULT_OPTIONS)]
)
def test_every_layout_of_streams(name: str) -> None:
    """Each stream has its number of contexts, in order, and all models of the plan are used."""
    for plan, (streams, contexts, _, cores) in zip(_plans(name), _shapes(name)):
        assert [context.stream for context in plan.contexts] == sorted(
            list(range(streams)) * contexts
        )
        assert {context.model for context in plan.contexts} == set(range(len(plan.models)))
        assert (plan.scenario, plan.runtime, plan.cores, plan.rounds) == (
            name,
            "onnxruntime",
            cores,
            7,
        )


@pytest.mark.parametrize("name", _OF_MODELS)
def test_every_layout_of_models(name: str) -> None:
    """Each model of the set has one context, whatever the number of streams."""
    for plan, (_, _, models, cores) in zip(_plans(name), _shapes(name)):
        assert sorted(context.model for context in plan.contexts) == list(
            range(_OF_MODELS[name] or models)
        )
        assert (plan.scenario, plan.runtime, plan.cores, plan.rounds) == (
            name,
            "onnxruntime",
            cores,
            7,
        )


@pytest.mark.parametrize(
    "name", [name for name in _COMPARED if name != _PER_CORE and name not in _FILLING]
)
def test_a_saving_is_taken_against_the_same_models(name: str) -> None:
    """A baseline gives each stream the same model as its scenarios, and reuses nothing."""
    for plan, shape in zip(_plans(name), _shapes(name)):
        streams, contexts, models, cores = shape
        assert plan.baseline is not None
        baseline = _plan(plan.baseline, models_of(*range(models)), streams, contexts, cores)
        assert baseline.baseline is None
        assert Counter(_models_by_stream(baseline)) == Counter(_models_by_stream(plan))
        assert {context.mechanism for context in baseline.contexts} == {LOAD}
        plain = [
            replace(context, stream=0, model=0, core=None, device=None)
            for context in baseline.contexts
        ]
        assert plain == [Context(0, 0)] * len(plain)


def test_all_cores_are_busy_with_internal_reuse() -> None:
    """Sharing internal memory by core leaves no core idle; otherwise speed would pay for it."""
    for plan in _plans("full_dup_internal_reuse"):
        assert len(plan.internal_memories()) == min(plan.cores, len(plan.contexts))
        sizes = [len(members) for members in plan.internal_memories().values()]
        assert max(sizes) - min(sizes) <= 1


def test_a_baseline_stands_before_what_is_compared_with_it() -> None:
    """The list is in the order of running, and its names are unique."""
    assert len(set(_NAMES)) == len(_NAMES)
    for scenario in SCENARIOS:
        if scenario.baseline:
            assert _NAMES.index(scenario.baseline) < _NAMES.index(scenario.name)


def test_an_unknown_scenario() -> None:
    """The message names the valid scenarios."""
    with pytest.raises(KeyError) as refusal:
        find_scenario("half_dup")
    assert "'half_dup'" in str(refusal.value)
    assert all(name in str(refusal.value) for name in _NAMES)


def test_every_scenario_answers_a_question() -> None:
    """No scenario is left over, and a baseline answers the same question as its scenarios."""
    answering: list[str] = []
    for question in QUESTIONS:
        answering += scenarios_of(question)
    assert answering == list(_NAMES)
    for scenario in SCENARIOS:
        assert question_of(scenario.name, scenario.baseline) == question_of(
            scenario.baseline or scenario.name, None
        )
    assert question_of("of_tomorrow", "baseline_of_tomorrow") == OTHER_QUESTION


def test_an_option_is_a_scenario() -> None:
    """One context with the option is compared with one with the default options."""
    plan = _plan("light=1", models_of(0), streams=2, contexts=2)
    assert (plan.scenario, plan.baseline, plan.contexts) == (
        "light=1",
        "default_options",
        (Context(0, 0, options=("light=1",)),),
    )
    assert question_of(plan.scenario, plan.baseline) == "options"


def test_a_plan_without_reuse() -> None:
    """Every context is loaded from its own model and left to the runtime; all other fields stay."""
    contexts = (
        Context(0, 0, internal=3, core=0, zero_copy=(INPUT,), options=("a=1",), name="first"),
        Context(0, 1, internal=3, core=0, outside=(WEIGHTS,), allocator="dma_heap"),
        Context(1, 0, DUP, 0, core=1, device=CUDA, device_io=True),
        Context(1, 1, SHARED_WEIGHTS, 0, core=1),
        Context(1, 1, SHARED_CONTEXT, 1, core=1),
    )
    plan = Plan("gate", "gate.no_reuse", "x", (_A, _B), contexts, 2, 3, chains=((1, 0), (2, 3)))
    baseline = without_reuse(plan)
    assert (baseline.scenario, baseline.baseline) == ("gate.no_reuse", None)
    options = ("a=1",)
    loaded = [Context(0, 0, core=0, options=options), Context(0, 1, core=0)]
    loaded += [Context(1, 0, core=1, device=CUDA, options=options)]
    assert baseline.contexts == (
        *loaded,
        Context(1, 1, core=1, options=options),
        Context(1, 1, core=1),
    )
    assert baseline.contexts[0].name == "first"
    assert replace(baseline, scenario="gate", baseline="gate.no_reuse", contexts=contexts) == plan


def test_the_question_of_plans() -> None:
    """A plan and its baseline answer the question; a baseline's name is like that of no built-in
    scenario.
    """
    assert question_of("gate", "gate.no_reuse") == question_of("gate.no_reuse", None) == "plans"
    assert name_of_plan("gate.no_reuse") == "gate"
    assert [name for name in (*_NAMES, "gate") if name_of_plan(name)] == []
