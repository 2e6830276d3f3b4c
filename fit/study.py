"""The small plans that are measured for a demand, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from fit.layouts import NO_REUSE, Demand, Form, Group, Layout, plan_of, spread
from scenarios.plan import (
    DUP,
    INPUT,
    LOAD,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    Plan,
)
from storage.result import Result

__all__ = ["TENSORS", "WEIGHTS", "Study", "forms"]

#: Who has the weights, and which tensors are in place: every choice that a form has, the plainest first.
WEIGHTS = (LOAD, DUP, SHARED_WEIGHT_MEMORY, SHARED_CONTEXT)
TENSORS: tuple[tuple[str, ...], ...] = (
    (),
    (INPUT,),
    (OUTPUT,),
    (NATIVE_OUTPUT,),
    (INPUT, OUTPUT),
    (INPUT, NATIVE_OUTPUT),
)

#: Inferences of a measured process that computes, over all contexts, for a figure of speed; at least so many of each.
_INFERENCES, _LEAST_ROUNDS = 36, 6


def forms(demand: Demand, model: int) -> Iterator[Form]:
    """Yield every form that the contexts of a model can have."""
    mechanisms = WEIGHTS + ((SHARED_WEIGHTS,) if demand.are_resolutions and model else ())
    for mechanism in mechanisms:
        # The threads of a shared context have its internal memory; only tensors can be theirs.
        for shares_internal in (False,) if mechanism == SHARED_CONTEXT else (False, True):
            for zero_copy in TENSORS:
                for shares_io in (False, True) if zero_copy else (False,):
                    yield Form(mechanism, shares_internal, zero_copy, shares_io)


@dataclass
class Study:
    """Results by plan; a plan without one has still to be measured."""

    demand: Demand
    #: Whether the target computes: without it there is no speed, and one inference is enough.
    computes: bool = True
    #: By the plan without names.
    results: dict[Plan, Result] = field(default_factory=dict)

    def add(self, results: Iterable[Result]) -> None:
        """Take results in; of equal plans the last counts."""
        for result in results:
            self.results[_nameless(result.plan)] = result

    def result(self, layout: Layout) -> Result | None:
        """Return what a layout came to; None where it was not measured."""
        return self.results.get(_nameless(self.plan(layout)))

    def plan(self, layout: Layout, name: str = "fit") -> Plan:
        """Return the plan of a layout, as it is measured."""
        rounds = max(_LEAST_ROUNDS, -(-_INFERENCES // layout.contexts)) if self.computes else 1
        return plan_of(layout, self.demand, name, rounds)

    def alone(self, model: int, form: Form, count: int, cores: int) -> Layout:
        """Return the layout of one model alone; of the first model a context too where that one has the weights."""
        groups = [Group(model, form, spread(count, range(cores), cores))]
        if form.mechanism == SHARED_WEIGHTS:
            groups.insert(0, Group(0, NO_REUSE, spread(1, range(cores), cores)))
        return Layout(tuple(groups))


def _nameless(plan: Plan) -> Plan:
    return replace(plan, scenario="", baseline=None)
