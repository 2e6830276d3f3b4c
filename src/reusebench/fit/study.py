"""The small plans that are measured for a demand, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Demand, Form, Layout, plan_of, spread
from reusebench.measured.plan import (
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
from reusebench.storage.fit_answer import FitShortage
from reusebench.storage.result import Result
from reusebench.storage.trace import Trace, read_trace

__all__ = ["TENSORS", "WEIGHTS", "Load", "Study", "forms"]

#: Who has the weights, and which tensors are in place: every choice that a form has, the plainest
#: first.
WEIGHTS = (LOAD, DUP, SHARED_WEIGHT_MEMORY, SHARED_CONTEXT)
TENSORS: tuple[tuple[str, ...], ...] = (
    (),
    (INPUT,),
    (OUTPUT,),
    (NATIVE_OUTPUT,),
    (INPUT, OUTPUT),
    (INPUT, NATIVE_OUTPUT),
)

#: Of a process that computes: how long its contexts infer for a figure of speed; where it is not
#: known how long one inference takes, how many there are of each context, and else at least and at
#: most.
_TIMED_S = 1.0
_FIRST_ROUNDS = 12
_LEAST_ROUNDS = 6
_MOST_ROUNDS = 300


def forms(demand: Demand, model: int) -> Iterator[Form]:
    """Yield every form that the contexts of a model can have."""
    mechanisms = WEIGHTS + ((SHARED_WEIGHTS,) if demand.are_resolutions and model else ())
    for mechanism in mechanisms:
        for outside in (False, True) if mechanism == DUP else (False,):
            # The threads of a shared context have its internal memory; only tensors can be theirs.
            for shares_internal in (False,) if mechanism == SHARED_CONTEXT else (False, True):
                for zero_copy in TENSORS:
                    for shares_io in (False, True) if zero_copy else (False,):
                        yield Form(mechanism, shares_internal, zero_copy, shares_io, outside)


@dataclass(frozen=True)
class Load:
    """What making one context takes of the NPU's memory."""

    #: That it holds when it is made, before it has internal memory of the application, or tensors.
    made_bytes: int
    #: That it holds besides while it is made: librknnmrt allocates weights that it then gets from
    #: elsewhere.
    transient_bytes: int


@dataclass
class Study:
    """Results by plan; a plan without one has still to be measured."""

    demand: Demand
    #: Whether the target computes: without it there is no speed, and one inference is enough.
    computes: bool = True
    #: By the plan without names.
    results: dict[Plan, Result] = field(default_factory=dict)
    #: By the same, for each context in order; none without a ledger.
    loads: dict[Plan, list[Load]] = field(default_factory=dict)

    @property
    def short(self) -> tuple[FitShortage, ...]:
        """The plans that were measured while memory was short."""
        signs = ((result.scenario, result.shortage_signs) for result in self.results.values())
        return tuple(FitShortage(plan, shown) for plan, shown in signs if shown)

    def add(self, results: Iterable[Result], storage: Path) -> None:
        """Take results of a storage in; of equal plans the last counts."""
        for result in results:
            plan = _nameless(result.plan)
            self.results[plan] = result
            self.loads[plan] = _loads(storage, result)

    def can_use(self, result: Result) -> bool:
        """Whether a stored result has all that is predicted from: what failed is known to be
        impossible without it.
        """
        if result.outcome != "ok":
            return True
        memory = result.memory
        needed = (
            memory.application_memory_over_baseline_bytes,
            memory.baseline_memory_bytes,
            memory.context_memory_bytes,
        )
        repeats = len(result.repeats)
        is_whole = all(len(figures) == repeats and None not in figures for figures in needed)
        has_accounts = all(repeat.npu and repeat.npu.contexts for repeat in result.repeats)
        return is_whole and repeats > 0 and (has_accounts or not self.demand.binds)

    def result(self, layout: Layout) -> Result | None:
        """Return what a layout came to; None if it was not measured."""
        return self.results.get(_nameless(self.plan(layout)))

    def loads_of(self, layout: Layout) -> list[Load]:
        """Return what making each context of a measured layout took; nothing if there was no
        ledger.
        """
        return self.loads.get(_nameless(self.plan(layout)), [])

    def plan(self, layout: Layout, name: str = "fit") -> Plan:
        """Return the plan of a layout, as it is measured."""
        return plan_of(layout, self.demand, name, self._rounds(layout) if self.computes else 1)

    def _rounds(self, layout: Layout) -> int:
        """Return how often each context infers, by the longest inference that was seen of a model
        of the layout.
        """
        latencies_ns = [0]
        for result in self.results.values():
            if {model.digest for model in result.models} & {
                self.demand.models[g.model].digest for g in layout.groups
            }:
                latencies_ns += [latency for latency in result.speed.latency_median_ns if latency]
        if not max(latencies_ns):
            return _FIRST_ROUNDS
        inferences = _TIMED_S * 1e9 / max(latencies_ns) * layout.lanes
        return min(max(_LEAST_ROUNDS, round(inferences / layout.contexts)), _MOST_ROUNDS)

    def alone(self, model: int, form: Form, count: int, cores: int) -> Layout:
        """Return the layout of one model alone; of the first model a context too where that one has
        the weights.
        """
        groups = [ContextGroup(model, form, spread(count, range(cores), cores))]
        if form.mechanism == SHARED_WEIGHTS:
            groups.insert(0, ContextGroup(0, NO_REUSE, spread(1, range(cores), cores)))
        return Layout(tuple(groups))


def _nameless(plan: Plan) -> Plan:
    """Return what plans are equal by: how often they infer changes no memory."""
    return replace(plan, scenario="", baseline=None, rounds=1)


def _loads(storage: Path, result: Result) -> list[Load]:
    trace = read_trace(storage, result.repeats[0].trace, Trace) if result.repeats else None
    loads: list[Load] = []
    if trace is None or trace.npu is None:
        return loads
    for before, barrier in zip(trace.barriers, trace.barriers[1:]):
        if barrier.phase != "context":
            continue
        start, end = (trace.npu.ledger.live_bytes(one.at_ns) for one in (before, barrier))
        times = zip(trace.npu.times_ns, trace.npu.live_bytes)
        peak = max(
            (live for at_ns, live in times if before.at_ns < at_ns <= barrier.at_ns), default=end
        )
        loads.append(Load(end - start, max(0, peak - end)))
    return loads
