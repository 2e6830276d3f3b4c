"""The list of scenarios: which contexts each lays out, and what it is compared with."""

from __future__ import annotations

import itertools

import pytest

from scenarios.catalogue import SCENARIOS, Parameters, build_plan, find_scenario
from scenarios.plan import DUP, LOAD, SHARED_CONTEXT, Context, Model, Plan
from tests.support import make_plan, models_of

_A, _B, _C = (Model(name, f"/{name}.onnx", name * 2) for name in "abc")
_NAMES = [scenario.name for scenario in SCENARIOS]
_SHAPES = list(itertools.product((1, 2, 4), (1, 3), (1, 3, 5)))


def _plan(name: str, models: tuple[Model, ...], streams: int, contexts: int) -> Plan:
    return build_plan(name, Parameters("onnxruntime", models, streams, contexts, cores=4, rounds=7))


def _models_by_stream(plan: Plan) -> list[tuple[int, Model]]:
    return [(context.stream, plan.models[context.model]) for context in plan.contexts]


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


def test_no_reuse_one_model() -> None:
    """One model for all streams, and every context is loaded."""
    plan = _plan("no_reuse_one_model", (_A, _B), streams=2, contexts=2)
    assert plan.models == (_A,)
    assert plan.contexts == tuple(Context(stream, 0) for stream in (0, 0, 1, 1))


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


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize(("streams", "contexts", "models"), _SHAPES)
def test_every_layout(name: str, streams: int, contexts: int, models: int) -> None:
    """Each stream has its number of contexts, in order, and the parameters arrive in the plan."""
    plan = _plan(name, models_of(*range(models)), streams, contexts)
    assert [context.stream for context in plan.contexts] == sorted(list(range(streams)) * contexts)
    assert {context.model for context in plan.contexts} == set(range(len(plan.models)))
    assert (plan.scenario, plan.runtime, plan.cores, plan.rounds) == (name, "onnxruntime", 4, 7)


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS if scenario.baseline])
@pytest.mark.parametrize(("streams", "contexts", "models"), _SHAPES)
def test_a_saving_is_taken_against_the_same_models(name: str, streams: int, contexts: int, models: int) -> None:
    """A baseline gives each stream the same model as what is compared with it, and reuses nothing."""
    given = models_of(*range(models))
    plan = _plan(name, given, streams, contexts)
    assert plan.baseline is not None
    baseline = _plan(plan.baseline, given, streams, contexts)
    assert baseline.baseline is None
    assert _models_by_stream(baseline) == _models_by_stream(plan)
    assert {context.mechanism for context in baseline.contexts} == {LOAD}


def test_a_baseline_stands_before_what_is_compared_with_it() -> None:
    """The list is the order of running, and its names are unique."""
    assert len(set(_NAMES)) == len(_NAMES)
    for scenario in SCENARIOS:
        if scenario.baseline:
            assert _NAMES.index(scenario.baseline) < _NAMES.index(scenario.name)


@pytest.mark.parametrize("name", _NAMES)
def test_the_same_parameters_give_the_same_plan(name: str) -> None:
    """A scenario is a pure function."""
    assert make_plan(name, "a", "b", streams=3) == make_plan(name, "a", "b", streams=3)


def test_an_unknown_scenario() -> None:
    """The message names the valid ones."""
    with pytest.raises(KeyError) as refusal:
        find_scenario("half_dup")
    assert "'half_dup'" in str(refusal.value)
    assert all(name in str(refusal.value) for name in _NAMES)
