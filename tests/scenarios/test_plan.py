"""Plans: JSON both ways, what is refused, and the order of steps."""

from __future__ import annotations

import dataclasses
import json

import pytest

from scenarios.catalogue import SCENARIOS
from scenarios.plan import DUP, LOAD, SHARED_CONTEXT, Context, InvalidPlan, Model, Plan, Step
from tests.support import make_plan

_MODELS = (Model("a", "/models/a.onnx", "aa", "/cache/a"), Model("b", "/models/b.onnx", "bb"))


def _plan(*contexts: Context, cores: int = 2, rounds: int = 3) -> Plan:
    return Plan("mine", None, "onnxruntime", _MODELS, contexts, cores, rounds)


@pytest.mark.parametrize("scenario", [each.name for each in SCENARIOS])
def test_json_both_ways_gives_the_same_plan(scenario: str) -> None:
    """What one process writes another one reads as an equal plan."""
    plan = make_plan(scenario, "a", "b", "c", streams=3, contexts=2)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_json_keeps_what_a_scenario_leaves_empty() -> None:
    """A prepared file, a missing one, and a plan without contexts survive."""
    for plan in (_plan(), _plan(Context(0, 0), Context(0, 0, DUP, 0), Context(1, 1))):
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        ([Context(0, 0, "clone")], ["context 0", "'mine'", "'clone'", "valid: load, dup, shared_context"]),
        ([Context(0, 2)], ["context 0", "model 2", "2 models"]),
        ([Context(0, -1)], ["context 0", "model -1"]),
        ([Context(0, 0), Context(0, 0, LOAD, 0)], ["context 1", "has no source", "make it a dup"]),
        ([Context(0, 0), Context(0, 0, DUP)], ["context 1", "made before it", "None"]),
        ([Context(0, 0, DUP, 0)], ["context 0", "made before it", "not 0"]),
        ([Context(0, 0), Context(0, 0, DUP, 2), Context(0, 0)], ["context 1", "made before it", "not 2"]),
        ([Context(0, 0), Context(0, 0, DUP, -1)], ["context 1", "made before it", "not -1"]),
        ([Context(0, 0), Context(0, 1, DUP, 0)], ["context 1", "another model", "same model"]),
        ([Context(0, 0), Context(0, 0, DUP, 0), Context(0, 0, DUP, 1)], ["context 2", "a loaded context", "not a dup"]),
        (
            [Context(0, 0), Context(0, 0, SHARED_CONTEXT, 0), Context(0, 0, SHARED_CONTEXT, 1)],
            ["context 2", "a loaded context", "not a shared_context"],
        ),
    ],
)
def test_an_impossible_plan_is_refused(contexts: list[Context], words: list[str]) -> None:
    """The message names the context and what would be valid."""
    with pytest.raises(InvalidPlan) as refusal:
        _plan(*contexts)
    assert [word for word in words if word not in str(refusal.value)] == []


@pytest.mark.parametrize(("cores", "rounds"), [(0, 3), (2, 0), (-1, 3)])
def test_a_plan_that_never_runs_is_refused(cores: int, rounds: int) -> None:
    """Without a core or a round nothing would be measured."""
    with pytest.raises(InvalidPlan, match=rf"cores \({cores}\) and rounds \({rounds}\) must be 1 or more"):
        _plan(Context(0, 0), cores=cores, rounds=rounds)


def test_a_plan_from_json_is_checked_too() -> None:
    """The measured process refuses what the harness would refuse."""
    data = json.loads(json.dumps(_plan(Context(0, 0)).to_json()))
    data["contexts"][0]["model"] = 7
    with pytest.raises(InvalidPlan, match="model 7"):
        Plan.from_json(data)


def test_the_steps_of_a_walk() -> None:
    """All contexts are made, then each infers alone, then all together, then they go, the last made first."""
    plan = _plan(Context(0, 0), Context(0, 0, DUP, 0))
    assert list(plan.steps()) == [
        Step("imported"),
        Step("context", 0),
        Step("context", 1),
        Step("first_inference", 0),
        Step("first_inference", 1),
        Step("steady"),
        Step("destroy", 1),
        Step("destroy", 0),
    ]
    assert list(_plan().steps()) == [Step("imported")]


@pytest.mark.parametrize("scenario", [each.name for each in SCENARIOS])
def test_nothing_outlives_its_source(scenario: str) -> None:
    """Whatever reuses a context is made after it and destroyed before it."""
    plan = make_plan(scenario, "a", "b", streams=3, contexts=3)
    made = [step.context for step in plan.steps() if step.phase == "context"]
    destroyed = [step.context for step in plan.steps() if step.phase == "destroy"]
    assert sorted(destroyed, key=str) == sorted(made, key=str) == sorted(range(9), key=str)
    for index, context in enumerate(plan.contexts):
        if context.source is not None:
            assert made.index(context.source) < made.index(index)
            assert destroyed.index(index) < destroyed.index(context.source)


def test_who_shares_weights() -> None:
    """A dup and its source share weights; a load without dups and a shared context are made from the model as it is."""
    plan = _plan(
        Context(0, 0),
        Context(0, 0, DUP, 0),
        Context(1, 1),
        Context(1, 1, SHARED_CONTEXT, 2),
        Context(1, 0),
    )
    assert [plan.shares_weights(index) for index in range(5)] == [True, True, False, False, False]


def test_a_plan_cannot_be_changed() -> None:
    """A plan that was checked stays as it was checked."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        _plan(Context(0, 0)).rounds = 0  # type: ignore[misc]
