"""Scenarios as plan files: a printed file gives the scenario's plan when it is read again."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from reusebench.harness.errors import UserError
from reusebench.harness.measuring.models.model_sets import BuiltIn
from reusebench.harness.model_request import default_recipes
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.reading import read_plan_file
from reusebench.harness.plans.writing import (
    file_plan,
    machine_cores,
    plan_text,
    scenario_plans,
    scenario_text,
    writable_scenario,
)
from reusebench.harness.settings import StreamPace
from reusebench.measured.plan import CUDA, DUP, Context, Model, Plan, Streams
from reusebench.models import Recipe
from reusebench.scenarios.catalogue import SCENARIOS, Parameters, Scenario, suits

_STREAMS = 2
_CONTEXTS = 3
_CORES = 2
_BUILT_IN = BuiltIn(
    stream=("tiny", 64),
    in_turn=(("tiny", 96), ("tiny", 64)),
    resolutions=tuple(("tiny", size) for size in (64, 96, 80, 48)),
)


def _models(recipes: list[Recipe]) -> tuple[Model, ...]:
    """Return built-in models with the fields that plans know."""
    return tuple(
        Model(Path(recipe.file_name).stem, recipe.file_name, recipe.file_name) for recipe in recipes
    )


def _plan_of(file: PlanFile, runtime: str) -> Plan:
    """Return the plan of a file on this machine, with the options' defaults."""
    models = _models([model.recipe for model in file.models])
    cores = file.checked_cores(_CORES, is_known=True)
    return file.plan(
        runtime, models, cores, 6, file.schedule(StreamPace(), None) if file.streams else None
    )


@pytest.mark.parametrize("runtime", ["onnxruntime", "rknn"])
@pytest.mark.parametrize(
    "scenario",
    [
        scenario
        for scenario in SCENARIOS
        if not scenario.runs_once and suits(scenario.name, has_conversations=False)
    ],
    ids=lambda scenario: scenario.name,
)
def test_a_printed_scenario_is_its_plan(tmp_path: Path, scenario: Scenario, runtime: str) -> None:
    """Every scenario with known contexts keeps models, contexts, reuse, cores and streams."""
    recipes = _BUILT_IN.recipes(scenario.model_set, _STREAMS)
    path = tmp_path / "p.toml"
    path.write_text(scenario_text(scenario, runtime, recipes, _STREAMS, _CONTEXTS, _CORES))
    file = read_plan_file(path)
    schedule = Streams(_STREAMS, video=None, **asdict(StreamPace()))
    parameters = Parameters(
        runtime,
        _models(recipes),
        _STREAMS,
        _CONTEXTS,
        _CORES,
        6,
        binds=runtime == "rknn",
        schedule=schedule,
    )
    expected = scenario.plans(parameters)[0]
    assert file.name == f"my_{scenario.name}"
    assert _plan_of(file, runtime) == replace(
        expected, scenario=file.name, baseline=file.scenarios[0]
    )


@pytest.mark.parametrize(
    "scenario",
    [scenario for scenario in SCENARIOS if not suits(scenario.name, has_conversations=False)],
    ids=lambda scenario: scenario.name,
)
def test_a_printed_scenario_of_language_models(tmp_path: Path, scenario: Scenario) -> None:
    """Models, adapters, conversation and the shared cache are kept."""
    if scenario.runs_once:
        pytest.skip("cycles are no plan file")
    runtime = "llama_cpp"
    recipes = default_recipes(scenario, _STREAMS, runtime)
    path = tmp_path / "p.toml"
    path.write_text(scenario_text(scenario, runtime, recipes, _STREAMS, _CONTEXTS, 1))
    file = read_plan_file(path)
    assert file_plan(file, runtime, 1).conversation is not None
    expected = scenario_plans(scenario, runtime, recipes, _STREAMS, _CONTEXTS, 1)[0]
    assert replace(
        file_plan(file, runtime, 1), scenario=scenario.name, baseline=scenario.baseline
    ) == replace(expected, models=file_plan(file, runtime, 1).models)
    assert [model.language_recipe for model in file.models] == list(recipes)


def test_cycles_are_no_plan_file() -> None:
    """A plan file has no cycles: the error names the test that measures them."""
    with pytest.raises(UserError, match=r"bench test_leaks\.py"):
        writable_scenario("cycles_dups", "rknn")


def test_what_scenarios_do_not_have_is_written_too(tmp_path: Path) -> None:
    """Chains in another order than that of making, a device, names of contexts, and names that need
    quotes are kept.
    """
    recipe = Recipe("tiny", 64, 0)
    model = Model("tiny-64-seed0-v1", "", "tiny-64-seed0-v1")
    contexts = (
        Context(0, 0, device=CUDA, device_io=True, name="the first"),
        Context(0, 0, DUP, 0),
        Context(0, 0, DUP, 0, name="last"),
    )
    plan = Plan("mine", None, "onnxruntime", (model,), contexts, 1, 6, chains=((2, 0),))
    path = tmp_path / "p.toml"
    path.write_text(plan_text(plan, [recipe], "Mine."))
    file = read_plan_file(path)
    assert (file.contexts, file.chains) == (contexts, plan.chains)
    assert [context.name for context in file.contexts] == ["the first", "context-2", "last"]


def test_an_unknown_scenario() -> None:
    """The nearest name is told."""
    with pytest.raises(UserError, match="there is no scenario 'ful_dup'; did you mean 'full_dup'"):
        writable_scenario("ful_dup", "rknn")
    assert writable_scenario("full_dup", "rknn").name == "full_dup"


def test_a_scenario_that_no_plan_file_says() -> None:
    """A scenario that makes contexts until one fails has no list of contexts."""
    with pytest.raises(
        UserError, match=r"limit_lean makes contexts until one fails.*bench test_limit\.py"
    ):
        writable_scenario("limit_lean", "rknn")


def test_cores_of_this_machine() -> None:
    """The cores of an NPU that is not here are not known."""
    assert machine_cores("onnxruntime") >= 1
    assert machine_cores("rknn") >= 1
