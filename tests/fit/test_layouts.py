"""Layouts and their plans."""

from __future__ import annotations

from itertools import combinations

import pytest

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Demand, Form, Layout, plan_of, spread
from reusebench.fit.study import Study, forms
from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    OUTPUT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
)
from tests.fit.made_up import demand_of

_DEMANDS = [
    demand_of((4,)),
    demand_of((2,), contexts=2, cores=1),
    demand_of((2, 2)),
    demand_of((1, 1), contexts=2, are_resolutions=True),
    demand_of((3,), cores=2, binds=False),
]


@pytest.mark.parametrize("demand", _DEMANDS)
def test_every_form_makes_a_valid_plan_on_all_cores(demand: Demand) -> None:
    """Plan accepts every form of every model, at every number of contexts."""
    for model, most in enumerate(demand.most):
        for form in forms(demand, model):
            for count in range(1, most + 1):
                groups = [
                    ContextGroup(model, form, spread(count, range(demand.cores), demand.cores))
                ]
                if model:
                    groups.insert(
                        0, ContextGroup(0, NO_REUSE, spread(1, range(demand.cores), demand.cores))
                    )
                plan = plan_of(Layout(tuple(groups)), demand, "mine", rounds=2)
                assert len(plan.contexts) == count + bool(model)
                assert plan.cores == demand.cores
                assert {context.core is None for context in plan.contexts} == {
                    not (demand.binds or form.needs_cores)
                }


def test_contexts_take_the_cores_in_turn() -> None:
    """Five contexts on two of three cores: the first core has three."""
    assert spread(5, (2, 0), 3) == (2, 0, 3)
    layout = Layout((ContextGroup(0, Form(DUP, shares_internal=True), (2, 0, 3)),))
    plan = plan_of(layout, demand_of((5,)), "mine", rounds=1)
    assert [context.core for context in plan.contexts] == [0, 2, 0, 2, 2]
    assert [context.internal for context in plan.contexts] == [0, 2, 0, 2, 2]
    assert [context.source for context in plan.contexts] == [None, 0, 0, 0, 0]
    assert (layout.contexts, layout.lanes) == (5, 2)


def test_memory_of_tensors_is_shared_by_contexts_of_one_model_and_core() -> None:
    """Each model has its own memory for tensors on each core."""
    form = Form(zero_copy=(INPUT, OUTPUT), shares_io=True)
    layout = Layout((ContextGroup(0, form, (2, 2)), ContextGroup(1, form, (2, 2))))
    plan = plan_of(layout, demand_of((4, 4), cores=2), "mine", rounds=1)
    members = [{(plan.contexts[index].model, plan.contexts[index].core) for index in group}
               for group in plan.io_memories().values()]  # fmt: skip
    assert sorted(map(list, members)) == [[(model, core)] for model in (0, 1) for core in (0, 1)]


def test_one_weight_memory_is_the_application_s() -> None:
    """Only the first context has weights outside; all have internal memory outside."""
    layout = Layout((ContextGroup(0, Form(SHARED_WEIGHT_MEMORY), (2,)),))
    first, second = plan_of(layout, demand_of((2,), cores=1), "mine", rounds=1).contexts
    assert (first.mechanism, first.outside) == (LOAD, (WEIGHTS, INTERNAL))
    assert (second.mechanism, second.source, second.outside) == (
        SHARED_WEIGHT_MEMORY,
        0,
        (INTERNAL,),
    )


def test_a_dup_of_a_context_with_its_weights_outside() -> None:
    """A dup of such a context needs internal memory of the application: its own, or its core's."""
    demand = demand_of((2,), cores=1)
    first, second = plan_of(
        Layout((ContextGroup(0, Form(DUP, outside=True), (2,)),)), demand, "mine", rounds=1
    ).contexts
    assert (first.mechanism, first.outside) == (LOAD, (WEIGHTS, INTERNAL))
    assert (second.mechanism, second.source, second.outside) == (DUP, 0, (INTERNAL,))
    first, second = plan_of(
        Layout((ContextGroup(0, Form(DUP, True, outside=True), (2,)),)), demand, "mine", rounds=1
    ).contexts
    assert (first.outside, second.outside) == ((WEIGHTS,), ())
    assert first.internal == second.internal == 0


def test_resolutions_have_the_weights_of_the_first_model() -> None:
    """The first context of the first model is the source of all others."""
    layout = Layout(
        (ContextGroup(0, Form(DUP), (2, 0)), ContextGroup(1, Form(SHARED_WEIGHTS), (1, 1)))
    )
    plan = plan_of(layout, demand_of((2, 2), cores=2, are_resolutions=True), "mine", rounds=1)
    assert [(context.model, context.mechanism, context.source) for context in plan.contexts] == [
        (0, LOAD, None),
        (0, DUP, 0),
        (1, SHARED_WEIGHTS, 0),
        (1, SHARED_WEIGHTS, 0),
    ]


def test_a_plan_has_the_models_that_it_uses() -> None:
    """A model without contexts is left out, and the others are renumbered."""
    demand = demand_of((1, 1, 1))
    plan = plan_of(Layout((ContextGroup(2, NO_REUSE, (1, 0, 0)),)), demand, "mine", rounds=1)
    assert plan.models == (demand.models[2],)
    assert [context.model for context in plan.contexts] == [0]


@pytest.mark.parametrize("demand", _DEMANDS)
def test_forms_are_all_different(demand: Demand) -> None:
    """Forms are distinct, and the first is the plainest."""
    listed = list(forms(demand, 0))
    assert listed[0] == NO_REUSE
    assert not [pair for pair in combinations(listed, 2) if pair[0] == pair[1]]


def test_without_arithmetic_each_context_infers_once() -> None:
    """A virtual board has no speed, so more rounds would show nothing."""
    layout = Layout((ContextGroup(0, NO_REUSE, (1, 0, 0)),))
    demand = demand_of((1,))
    assert Study(demand, computes=False).plan(layout).rounds == 1
    assert Study(demand, computes=True).plan(layout).rounds > 1
