"""The list of scenarios: which contexts each lays out, and what it is compared with."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scenarios.catalogue import (
    FRAMES_4K,
    FRAMES_1080P,
    IN_TURN,
    MODEL_SETS,
    OTHER_QUESTION,
    QUESTIONS,
    RESOLUTIONS,
    SCENARIOS,
    STREAMS,
    Parameters,
    TooFewModels,
    build_plans,
    find_scenario,
    question_of,
    scenarios_of,
)
from scenarios.plan import (
    ALLOCATORS,
    CREATE_MEM,
    CUDA,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
    Streams,
)
from tests.support import make_plan, models_of

_A, _B, _C = (Model(name, f"/{name}.onnx", name * 2) for name in "abc")
_NAMES = [scenario.name for scenario in SCENARIOS]
_COMPARED = [scenario.name for scenario in SCENARIOS if scenario.baseline]
#: Those whose contexts take frames; of these one has no context, and one has contexts for all streams together.
_WITH_FRAMES = [scenario.name for scenario in SCENARIOS if scenario.has_streams]
_DECODE_ONLY, _PER_CORE = "streams_decode_only", "streams_full_dup_per_core"
_OF_STREAMS = [scenario.name for scenario in SCENARIOS if scenario.model_set == STREAMS]
#: Those that have one context of each of so many models of their set; None: of all.
_OF_MODELS = {
    **{each.name: None for each in SCENARIOS if each.model_set in (IN_TURN, RESOLUTIONS)},
    **{each.name: 1 for each in SCENARIOS if each.model_set in (FRAMES_1080P, FRAMES_4K)},
    **{f"{name}_{count}": count for name in ("resolutions", "shared_weights") for count in (2, 3)},
}
#: Streams, contexts of each, model files, cores.
_SHAPES = list(itertools.product((1, 2, 4), (1, 3), (1, 3, 5), (1, 2, 4)))


def _plan(name: str, models: tuple[Model, ...], streams: int, contexts: int, cores: int = 4) -> Plan:
    return build_plans(name, Parameters("onnxruntime", models, streams, contexts, cores, rounds=7))[0]


def _shapes(name: str) -> list[tuple[int, int, int, int]]:
    """Return the parameters that the scenario has something to say of."""
    return [
        shape
        for shape in _SHAPES
        if shape[2] > (_OF_MODELS.get(name) or 0) or find_scenario(name).model_set != RESOLUTIONS
    ]


def _plans(name: str) -> Iterator[Plan]:
    """Yield the scenario's plan for many parameters."""
    for streams, contexts, models, cores in _shapes(name):
        yield _plan(name, models_of(*range(models)), streams, contexts, cores)


def _models_by_stream(plan: Plan) -> list[tuple[int | None, str]]:
    return [(context.stream, plan.models[context.model].digest) for context in plan.contexts]


# What each lays out


def test_no_reuse_loads_every_context() -> None:
    """Each stream has its own model and its contexts in a row."""
    plan = _plan("no_reuse", (_A, _B), streams=2, contexts=2)
    assert plan.models == (_A, _B)
    assert plan.contexts == (Context(0, 0), Context(0, 0), Context(1, 1), Context(1, 1))


def test_partial_dup_duplicates_within_a_stream() -> None:
    """The contexts 2..C of a stream duplicate its first, and never another stream's."""
    plan = _plan("partial_dup", (_A, _B), streams=2, contexts=3)
    assert plan.models == (_A, _B)
    assert plan.contexts == (
        Context(0, 0),
        Context(0, 0, DUP, 0),
        Context(0, 0, DUP, 0),
        Context(1, 1),
        Context(1, 1, DUP, 3),
        Context(1, 1, DUP, 3),
    )


@pytest.mark.parametrize(("scenario", "mechanism"), [("full_dup", DUP), ("shared_context", SHARED_CONTEXT)])
def test_one_context_serves_all(scenario: str, mechanism: str) -> None:
    """One model; every context of every stream reuses the very first."""
    plan = _plan(scenario, (_A, _B), streams=2, contexts=2)
    assert plan.models == (_A,)
    reuse = [Context(stream, 0, mechanism, 0) for stream in (0, 1, 1)]
    assert plan.contexts == (Context(0, 0), *reuse)


@pytest.mark.parametrize("scenario", ["no_reuse_one_model", "runtime_memory", "copied_io", "plain"])
def test_one_model_without_reuse(scenario: str) -> None:
    """One model for all streams, and every context is loaded and left to the runtime."""
    plan = _plan(scenario, (_A, _B), streams=2, contexts=2)
    assert plan.models == (_A,)
    assert plan.contexts == tuple(Context(stream, 0) for stream in (0, 0, 1, 1))


def test_full_dup_with_one_internal_memory_per_core() -> None:
    """The contexts go round the cores, and those of one core share its internal memory."""
    plan = _plan("full_dup_internal_reuse", (_A, _B), streams=2, contexts=2, cores=3)
    assert plan.contexts == (
        Context(0, 0, internal=0, core=0),
        Context(0, 0, DUP, 0, internal=1, core=1),
        Context(1, 0, DUP, 0, internal=2, core=2),
        Context(1, 0, DUP, 0, internal=0, core=0),
    )
    assert plan.internal_memories() == {0: [0, 3], 1: [1], 2: [2]}


def test_full_dup_with_internal_reuse_is_full_dup_otherwise() -> None:
    """It differs from full dup in the internal memory and the core alone, so the further saving is the memory's."""
    for dup, both in zip(_plans("full_dup"), _plans("full_dup_internal_reuse")):
        assert both.models == dup.models
        assert tuple(replace(each, internal=None, core=None) for each in both.contexts) == dup.contexts


def test_models_that_run_in_turn() -> None:
    """Each model has one context on the one core; internal reuse gives all of them one internal memory."""
    plain = _plan("in_turn", (_A, _B, _C), streams=4, contexts=3)
    assert plain.models == (_A, _B, _C)
    assert plain.contexts == tuple(Context(0, model, core=0) for model in range(3))
    reuse = _plan("internal_reuse", (_A, _B, _C), streams=4, contexts=3)
    assert reuse.contexts == tuple(Context(0, model, internal=0, core=0) for model in range(3))
    assert reuse.internal_memories() == {0: [0, 1, 2]}
    last_first = _plan("internal_reuse_last_first", (_A, _B, _C), streams=4, contexts=3)
    assert last_first.models == reuse.models
    assert last_first.contexts == tuple(reversed(reuse.contexts))


def test_resolutions_share_the_weights_of_the_first() -> None:
    """Each resolution has one context; the first has the weights, whatever the others' models are called."""
    plain = _plan("resolutions", (_A, _B, _C), streams=4, contexts=3)
    assert plain.contexts == tuple(Context(0, model) for model in range(3))
    shared = _plan("shared_weights", (_A, _B, _C), streams=4, contexts=3)
    slaves = [Context(0, model, SHARED_WEIGHTS, 0) for model in (1, 2)]
    assert shared.contexts == (Context(0, 0), *slaves)


@pytest.mark.parametrize("count", [2, 3])
def test_the_first_of_several_resolutions(count: int) -> None:
    """So many of them, sharing or not; where there are no more than that, the scenario of all has them already."""
    models = models_of(*range(5))
    for name in ("resolutions", "shared_weights"):
        assert _plan(f"{name}_{count}", models, 4, 3) == replace(
            _plan(name, models[:count], 4, 3),
            scenario=f"{name}_{count}",
            baseline=f"resolutions_{count}" if name == "shared_weights" else None,
        )
        with pytest.raises(TooFewModels, match=f"first {count} resolutions and there are {count}: "):
            _plan(f"{name}_{count}", models[:count], 4, 3)


@pytest.mark.parametrize(
    ("scenario", "allocator"),
    [("external_memory", CREATE_MEM), *((f"external_{name}", name) for name in ALLOCATORS[1:])],
)
def test_all_memory_from_outside(scenario: str, allocator: str) -> None:
    """Every context is loaded, and gets weights, internal memory, input and output from the one allocator."""
    plan = _plan(scenario, (_A, _B), streams=2, contexts=1)
    outside = Context(0, 0, outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT, OUTPUT), allocator=allocator)
    assert plan.contexts == (outside, replace(outside, stream=1))


def test_internal_memory_from_outside() -> None:
    """Each context has an internal memory of its own, which the application gives; nothing else differs."""
    plan = _plan("external_internal", (_A,), streams=1, contexts=2)
    assert plan.contexts == (Context(0, 0, outside=(INTERNAL,)),) * 2


def test_one_kind_of_memory_from_outside() -> None:
    """Weights alone, and input and output alone; the rest is the runtime's."""
    weights, tensors = (_plan(f"external_{name}", (_A,), streams=1, contexts=2) for name in ("weights", "io"))
    assert weights.contexts == (Context(0, 0, outside=(WEIGHTS,)),) * 2
    assert tensors.contexts == (Context(0, 0, zero_copy=(INPUT, OUTPUT)),) * 2


@pytest.mark.parametrize(
    ("scenario", "tensors"),
    [("zero_copy_input", (INPUT,)), ("zero_copy_output", (OUTPUT,)), ("zero_copy_io", (INPUT, OUTPUT))],
)
def test_tensors_that_are_not_copied(scenario: str, tensors: tuple[str, ...]) -> None:
    """The scenario's name says which; all the rest is left to the runtime."""
    plan = _plan(scenario, (_A, _B), streams=1, contexts=2)
    assert plan.contexts == (Context(0, 0, zero_copy=tensors),) * 2


def test_tensors_that_stay_on_the_device() -> None:
    """On the runtime's own device, and on CUDA, whose baseline copies on CUDA too."""
    plans = [_plan(name, (_A,), 1, 2) for name in ("device_io", "cuda_device_io", "cuda_copied_io")]
    contexts = Context(0, 0, device_io=True), Context(0, 0, device_io=True, device=CUDA), Context(0, 0, device=CUDA)
    assert [plan.contexts for plan in plans] == [(context,) * 2 for context in contexts]


@pytest.mark.parametrize("size", ["1080p", "4k"])
@pytest.mark.parametrize("way", ["copied_io", "zero_copy_input", "zero_copy_output", "zero_copy_io", "device_io"])
def test_frames_move_as_small_tensors_do(way: str, size: str) -> None:
    """One context of the one model of frames, with what the scenario of the same name gives each context."""
    plan = _plan(f"{way}_{size}", (_A,), streams=4, contexts=3)
    assert plan.contexts == _plan(way, (_A,), streams=4, contexts=3).contexts[:1]


# Lean


def test_lean_has_every_mechanism_together() -> None:
    """Dups, one internal memory for each core, and tensors in place."""
    lean, dup = (_plan(name, (_A, _B), 2, 2, cores=3) for name in ("lean", "full_dup_internal_reuse"))
    assert lean.contexts == tuple(replace(context, zero_copy=(INPUT, OUTPUT)) for context in dup.contexts)


def test_lean_gives_up_one_mechanism_after_the_other() -> None:
    """The next plan is for a runtime that lacks one of those before: first all three, then two, then one of them."""
    plans = build_plans("lean", Parameters("onnxruntime", (_A,), 2, 2, 2, 7))
    have = [_mechanisms(plan) for plan in plans]
    assert have[0] == {"dup", "internal", "zero_copy"}
    assert [len(each) for each in have] == [3, 2, 2, 2, 1, 1, 1]
    assert len(set(map(frozenset, have))) == 7


def _mechanisms(plan: Plan) -> set[str]:
    """Return what the second context of a plan reuses."""
    context = plan.contexts[1]
    found = {"dup": context.mechanism == DUP, "internal": context.internal is not None, "zero_copy": context.zero_copy}
    return {name for name, used in found.items() if used}


# Which models


def test_fewer_models_than_streams_are_used_in_turn() -> None:
    """Streams 0 and 2 have the same model; with partial dup each still loads its own first context."""
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
    """More models than streams: the further ones are left out; the same model twice is there once."""
    assert _plan("no_reuse", (_A, _B, _C), streams=2, contexts=1).models == (_A, _B)
    assert _plan("no_reuse", (_A, _A, _B), streams=3, contexts=1).models == (_A, _B)


@pytest.mark.parametrize("name", _COMPARED)
def test_a_scenario_has_the_model_set_of_its_baseline(name: str) -> None:
    """Else the two would not be given the same models."""
    scenario = find_scenario(name)
    assert scenario.model_set in MODEL_SETS
    assert scenario.baseline is not None
    assert find_scenario(scenario.baseline).model_set == scenario.model_set


# Streams of frames


def test_decoding_alone_has_the_models_of_the_others_and_no_context() -> None:
    """Its result stands among theirs."""
    plan = _plan(_DECODE_ONLY, (_A, _B), streams=2, contexts=3)
    assert (plan.models, plan.contexts) == ((_A, _B), ())


def test_one_context_per_core_serves_all_streams() -> None:
    """There are as many as cores, all of one model, and all but the first are its dups."""
    plan = _plan(_PER_CORE, (_A, _B), streams=4, contexts=3, cores=3)
    assert plan.models == (_A,)
    assert plan.contexts == (Context(None, 0), Context(None, 0, DUP, 0), Context(None, 0, DUP, 0))


@pytest.mark.parametrize("name", _WITH_FRAMES)
def test_contexts_of_streams_are_bound_to_the_cores_in_turn(name: str) -> None:
    """On an NPU every core has as many contexts as any other, give or take one; on a CPU the system chooses."""
    parameters = Parameters("rknn", (_A, _B), streams=4, contexts=3, cores=3, rounds=1, binds=True)
    (bound,) = build_plans(name, parameters)
    (free,) = build_plans(name, replace(parameters, binds=False))
    assert [context.core for context in bound.contexts] == [index % 3 for index in range(len(bound.contexts))]
    assert free.contexts == tuple(replace(context, core=None) for context in bound.contexts)


def test_only_scenarios_of_streams_have_the_schedule() -> None:
    """The others run their rounds."""
    schedule = Streams(2, 30.0, 0, 0.0, 1.0, None)
    parameters = Parameters("x", models_of(*range(9)), 2, 1, 2, rounds=1, schedule=schedule)
    having = {each.name for each in SCENARIOS if build_plans(each.name, parameters)[0].schedule is not None}
    assert having == set(_WITH_FRAMES)


# What holds for all of them


@pytest.mark.parametrize("name", [name for name in _OF_STREAMS if name not in (_DECODE_ONLY, _PER_CORE)])
def test_every_layout_of_streams(name: str) -> None:
    """Each stream has its number of contexts, in order, and all models of the plan are used."""
    for plan, (streams, contexts, _, cores) in zip(_plans(name), _shapes(name)):
        assert [context.stream for context in plan.contexts] == sorted(list(range(streams)) * contexts)
        assert {context.model for context in plan.contexts} == set(range(len(plan.models)))
        assert (plan.scenario, plan.runtime, plan.cores, plan.rounds) == (name, "onnxruntime", cores, 7)


@pytest.mark.parametrize("name", _OF_MODELS)
def test_every_layout_of_models(name: str) -> None:
    """Each model that the scenario is about has one context, whatever the number of streams."""
    for plan, (_, _, models, cores) in zip(_plans(name), _shapes(name)):
        assert sorted(context.model for context in plan.contexts) == list(range(_OF_MODELS[name] or models))
        assert (plan.scenario, plan.runtime, plan.cores, plan.rounds) == (name, "onnxruntime", cores, 7)


@pytest.mark.parametrize("name", [name for name in _COMPARED if name != _PER_CORE])
def test_a_saving_is_taken_against_the_same_models(name: str) -> None:
    """A baseline gives each stream the same model as what is compared with it, and reuses nothing."""
    for plan, shape in zip(_plans(name), _shapes(name)):
        streams, contexts, models, cores = shape
        assert plan.baseline is not None
        baseline = _plan(plan.baseline, models_of(*range(models)), streams, contexts, cores)
        assert baseline.baseline is None
        assert Counter(_models_by_stream(baseline)) == Counter(_models_by_stream(plan))
        assert {context.mechanism for context in baseline.contexts} == {LOAD}
        plain = [replace(context, stream=0, model=0, core=None, device=None) for context in baseline.contexts]
        assert plain == [Context(0, 0)] * len(plain)


@pytest.mark.parametrize("name", _NAMES)
def test_who_shares_internal_memory_never_runs_at_once(name: str) -> None:
    """On one core and on many the schedule keeps the members of an internal memory apart."""
    for plan in _plans(name):
        for members in plan.internal_memories().values():
            pairs = list(itertools.combinations(members, 2))
            assert [pair for pair in pairs if plan.may_run_at_once(*pair)] == []


def test_all_cores_are_busy_with_internal_reuse() -> None:
    """Sharing internal memory by core leaves no core idle, or it would be bought with speed."""
    for plan in _plans("full_dup_internal_reuse"):
        assert len(plan.internal_memories()) == min(plan.cores, len(plan.contexts))
        sizes = [len(members) for members in plan.internal_memories().values()]
        assert max(sizes) - min(sizes) <= 1


def test_a_baseline_stands_before_what_is_compared_with_it() -> None:
    """The list is the order of running, and its names are unique."""
    assert len(set(_NAMES)) == len(_NAMES)
    for scenario in SCENARIOS:
        if scenario.baseline:
            assert _NAMES.index(scenario.baseline) < _NAMES.index(scenario.name)


@pytest.mark.parametrize("name", _NAMES)
def test_the_same_parameters_give_the_same_plan(name: str) -> None:
    """A scenario is a pure function."""
    assert make_plan(name, *"abcd", streams=3) == make_plan(name, *"abcd", streams=3)


def test_an_unknown_scenario() -> None:
    """The message names the valid ones."""
    with pytest.raises(KeyError) as refusal:
        find_scenario("half_dup")
    assert "'half_dup'" in str(refusal.value)
    assert all(name in str(refusal.value) for name in _NAMES)


def test_every_scenario_answers_a_question() -> None:
    """No scenario is left over, and a baseline answers the question of those compared with it."""
    assert [name for question in QUESTIONS for name in scenarios_of(question)] == list(_NAMES)
    for scenario in SCENARIOS:
        assert question_of(scenario.name, scenario.baseline) == question_of(scenario.baseline or scenario.name, None)
    assert question_of("of_tomorrow", "baseline_of_tomorrow") == OTHER_QUESTION
