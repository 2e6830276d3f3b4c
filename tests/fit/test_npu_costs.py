"""Predicted NPU memory, for accounts that are known in advance."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import COMPONENTS, ContextMemory
from reusebench.fit.answering import patches_of
from reusebench.fit.layouts import ContextGroup, Demand, Layout, spread
from reusebench.fit.npu_costs import NpuCosts
from reusebench.fit.study import Study, forms
from reusebench.measured.messages import Message
from reusebench.measured.plan import (
    DUP,
    LOAD,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    Plan,
)
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure
from tests.fit.made_up import demand_of
from tests.reports import stored

_PAGE = 4096
#: Key: name of a model; value: pages of weights, internal memory, register commands, input and
#: output.
_SIZES = {"model-0": (900, 70, 11, 5), "model-1": (300, 110, 7, 3)}
#: Changes with weights outside: the library rounds them up, and has fewer register commands.
_OUTSIDE = 1
_FEWER = 2
#: Mechanisms that the full library refuses, and that the mini runtime refuses.
_FULL = (SHARED_CONTEXT,)
_MINI = (SHARED_CONTEXT, DUP)
#: Key: component; value: pages of one context with Teflon, whose interpreters share nothing.
_OF_TEFLON = {"weights": 40, "biases": 3, "internal": 20, "io": 9, "register_commands": 2}
_REFUSED = Failure("not_supported", "context", 1, Message("rknn_one_thread"))


def _account(plan: Plan, is_mini: bool) -> Account:
    """Return the account of a plan by simple rules, as complex as those of a library.

    Shared memory belongs to the first context that has it; memory of tensors in place has an
    additional page. The mini runtime allocates weights outside if internal memory is outside.
    """
    contexts = []
    internal_of: dict[int, int] = {}
    io_of: dict[int, int] = {}
    for index, context in enumerate(plan.contexts):
        weights, internal, registers, tensors = _SIZES[plan.models[context.model].name]
        has_outside = "weights" in context.outside or context.mechanism == SHARED_WEIGHT_MEMORY
        has_outside |= is_mini and context.internal is not None
        largest = max(
            (
                _SIZES[plan.models[other.model].name][1]
                for other in plan.contexts
                if other.internal == context.internal
            ),
            default=0,
        )
        if context.internal is not None:
            internal = largest if internal_of.setdefault(context.internal, index) == index else 0
        if context.zero_copy:
            tensors += len(context.zero_copy)
        if context.io is not None and io_of.setdefault(context.io, index) != index:
            tensors = 0
        pages = {
            "weights": (weights + _OUTSIDE * has_outside) * (context.mechanism == LOAD),
            "internal": internal,
            "register_commands": registers - _FEWER * has_outside,
            "task_list": 1,
            "task_list_copy": 1 * (context.mechanism == LOAD and not has_outside),
            "padding": 1,
            "io": tensors,
            "other": 0,
        }
        contexts.append(
            ContextMemory(**{f"{name}_bytes": count * _PAGE for name, count in pages.items()})
        )
    return stored.account_with(contexts, stored.npu_account(plan))


def _account_of_teflon(plan: Plan) -> Account:
    """Return the account of a plan: all of a context's own, or nothing for another thread of it."""
    contexts = []
    for context in plan.contexts:
        has_own = context.mechanism != SHARED_CONTEXT
        pages = {f"{name}_bytes": count * _PAGE * has_own for name, count in _OF_TEFLON.items()}
        contexts.append(ContextMemory(**pages))
    return stored.account_with(contexts, stored.npu_account(plan))


def _result_of_teflon(folder: Path, plan: Plan) -> Result:
    """Return the result of a plan, which fails if contexts share memory or have some outside."""
    failure = None
    for context in plan.contexts:
        is_shared = context.internal is not None or context.io is not None
        if is_shared or context.outside or context.mechanism == SHARED_WEIGHT_MEMORY:
            failure = _REFUSED
    sizes = [] if failure else [[2**20] * len(plan.contexts)]
    account = _account_of_teflon
    return stored.result(
        folder, "fit", sizes, plan=plan, failure=failure, npu=account, computes=False
    )


def _result(folder: Path, plan: Plan, refused: tuple[str, ...], repeats: int = 1) -> Result:
    """Return the result of a plan; a failure if the plan has a refused mechanism."""
    failure = _REFUSED if any(context.mechanism in refused for context in plan.contexts) else None
    sizes = [] if failure else [[2**20] * len(plan.contexts)] * repeats
    account = partial(_account, is_mini=DUP in refused)
    return stored.result(
        folder, "fit", sizes, plan=plan, failure=failure, npu=account, computes=False
    )


def _calibrated(
    folder: Path, demand: Demand, refused: tuple[str, ...] = _FULL
) -> tuple[Study, NpuCosts]:
    """Return a study in which all missing layouts are measured."""
    study = Study(demand, computes=False)
    costs = NpuCosts(study)
    while missing := costs.missing():
        study.add([_result(folder, study.plan(layout), refused) for layout in missing], folder)
    return study, costs


def _calibrated_on_teflon(folder: Path, demand: Demand) -> NpuCosts:
    study = Study(demand, computes=False)
    costs = NpuCosts(study)
    while missing := costs.missing():
        plans = [study.plan(layout) for layout in missing]
        study.add([_result_of_teflon(folder, plan) for plan in plans], folder)
    return costs


def _layouts(demand: Demand, costs: NpuCosts, count: int) -> list[Layout]:
    """Return layouts with random forms, numbers of contexts and cores."""
    chance = random.Random(count)
    layouts = []
    for _ in range(count):
        groups = []
        for model in range(len(demand.models)):
            cores = chance.sample(range(demand.cores), chance.randint(1, demand.cores))
            form = chance.choice(list(costs.forms(model)))
            groups.append(
                ContextGroup(
                    model,
                    form,
                    spread(chance.randint(1, demand.most[model]), sorted(cores), demand.cores),
                )
            )
        layouts.append(Layout(tuple(groups)))
    return layouts


def test_the_process_of_a_layout_is_known_once_it_was_measured(tmp_path: Path) -> None:
    """The sum of contexts has no ±; three processes of the layout itself have one."""
    demand = demand_of((6,))
    study, costs = _calibrated(tmp_path, demand)
    form = next(iter(costs.forms(0)))
    layout = Layout((ContextGroup(0, form, (2, 2, 2)),))
    before = costs.predict(layout)
    assert before.over_baseline.spread is None
    assert before.application.spread is None
    (unproven,) = costs.unproven(layout)
    assert unproven == layout
    plan = study.plan(layout)
    sizes = [[2**20] * 6] * 3
    account = partial(_account, is_mini=False)
    made = stored.result(tmp_path, "fit", sizes, plan=plan, npu=account, computes=False)
    over = [40 * 2**20, 41 * 2**20, 43 * 2**20]
    study.add([stored.with_memory(made, application_memory_over_baseline_bytes=over)], tmp_path)
    assert costs.unproven(layout) == []
    after = costs.predict(layout)
    assert after.over_baseline.median == over[1]
    assert after.over_baseline.spread is not None
    assert 2 * 2**20 < after.over_baseline.spread < 10 * 2**20
    assert after.application.spread is not None
    assert after.npu == before.npu


@pytest.mark.parametrize(
    ("demand", "refused"),
    [
        (demand_of((6,)), _FULL),
        (demand_of((4,), cores=1), _MINI),
        (demand_of((3, 4)), _FULL),
        (demand_of((3, 4), cores=1), _MINI),
        (demand_of((3, 4), are_resolutions=True), _FULL),
    ],
)
def test_a_layout_that_was_not_measured_is_predicted_to_the_byte(
    demand: Demand, refused: tuple[str, ...], tmp_path: Path
) -> None:
    """Predictions are exact by component, though only two contexts of each choice were measured."""
    study, costs = _calibrated(tmp_path, demand, refused)
    few = len(study.results)
    for layout in _layouts(demand, costs, 60):
        account = _account(study.plan(layout), is_mini=refused == _MINI)
        by_component = {
            component: sum(context.size_bytes(component) or 0 for context in account.contexts)
            for component in COMPONENTS
        }
        assert costs.predict(layout).npu == by_component, layout
    assert len(study.results) == few <= 14 * len(demand.models)


def test_a_mechanism_that_the_library_lacks_is_in_no_form(tmp_path: Path) -> None:
    """A failed choice, such as dup on the mini runtime, rules out its forms, and no others."""
    demand = demand_of((3,))
    _, costs = _calibrated(tmp_path, demand, _MINI)
    possible = [form for form in forms(demand, 0) if form.mechanism not in (DUP, SHARED_CONTEXT)]
    assert list(costs.forms(0)) == possible


def test_a_composed_form_is_to_be_measured_before_it_is_recommended(tmp_path: Path) -> None:
    """Forms that were measured as a whole are proven."""
    demand = demand_of((3,))
    study, costs = _calibrated(tmp_path, demand)
    for form in costs.forms(0):
        layout = Layout((ContextGroup(0, form, (1, 1, 1)),))
        for _ in range(2):  # the form, then the layout itself
            unproven = costs.unproven(layout)
            study.add([_result(tmp_path, study.plan(one), _FULL, 2) for one in unproven], tmp_path)
        assert costs.unproven(layout) == []
        alone = Layout((ContextGroup(0, form, (2,)),))
        assert study.result(alone) is not None
        assert study.result(layout) is not None


@pytest.mark.parametrize(
    "demand", [demand_of((4,)), demand_of((2, 2)), demand_of((2, 2), are_resolutions=True)]
)
def test_nothing_takes_less_than_the_lower_bound(demand: Demand, tmp_path: Path) -> None:
    """The lower bound holds for all forms of all models, on all cores."""
    study, costs = _calibrated(tmp_path, demand)
    most = [
        ContextGroup(model, next(costs.forms(model)), spread(count, range(3), 3))
        for model, count in enumerate(demand.most)
    ]
    least = costs.least_bytes(Layout(tuple(most)))
    for chosen in product(*(list(costs.forms(model)) for model in range(len(demand.models)))):
        groups = [
            ContextGroup(group.model, form, group.per_core) for group, form in zip(most, chosen)
        ]
        assert (costs.predict(Layout(tuple(groups))).npu_bytes or 0) >= least
    if demand.are_resolutions:
        assert any(form.mechanism == SHARED_WEIGHTS for form in costs.forms(1))
    assert study.results


def test_weights_and_biases_are_once_in_each_open_file_if_a_driver_shared_them(
    tmp_path: Path,
) -> None:
    """Everything else stays per context; threads of one context have nothing to share."""
    costs = _calibrated_on_teflon(tmp_path, demand_of((12,)))
    form_of = {form.mechanism: form for form in costs.forms(0)}
    assert sorted(form_of) == sorted({LOAD, DUP, SHARED_CONTEXT})

    loaded = Layout((ContextGroup(0, form_of[LOAD], (4, 4, 4)),))
    today = costs.predict(loaded).npu or {}
    assert {name: today[name] for name in _OF_TEFLON} == {
        name: 12 * pages * _PAGE for name, pages in _OF_TEFLON.items()
    }
    for open_files in (3, 1):
        shared = costs.with_shared_weights(loaded, open_files)
        expected = {"weights": open_files * 40 * _PAGE, "biases": open_files * 3 * _PAGE}
        assert shared == {**today, **expected}
    assert [patch.open_files for patch in patches_of(costs, loaded, "Mesa")] == [3, 1]

    threads = Layout((ContextGroup(0, form_of[SHARED_CONTEXT], (12, 0, 0)),))
    assert costs.with_shared_weights(threads, 1) == costs.predict(threads).npu
    assert patches_of(costs, threads, "Mesa") == ()


def test_threads_of_one_context_do_not_lower_the_bound_of_several_cores(tmp_path: Path) -> None:
    """Contexts on three cores have tensors and commands each, whatever threads would have."""
    costs = _calibrated_on_teflon(tmp_path, demand_of((3,)))
    layout = Layout((ContextGroup(0, next(costs.forms(0)), (1, 1, 1)),))
    pages = 40 + 3 + 3 * (20 + 9 + 2)
    assert costs.least_bytes(layout) == pages * _PAGE


def test_what_a_runtime_is_known_to_lack_is_not_measured() -> None:
    """Plans with memory of the application are left out, and forms with it are never predicted."""
    demand = replace(demand_of((3,)), lacks=frozenset({"internal_reuse", "external_weights"}))
    for layout in NpuCosts(Study(demand, computes=False)).missing():
        (group,) = layout.groups
        assert not group.form.shares_internal
        assert not group.form.has_weights_outside
