"""The small plans that are measured for a demand, with their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from reusebench.fit.conditions import MeasuredConditions
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
from reusebench.storage.result import Result
from reusebench.storage.trace import Trace, read_trace

__all__ = ["TENSORS", "WEIGHTS", "Load", "Study", "forms"]

#: Ways to have weights, the plainest first.
WEIGHTS = (LOAD, DUP, SHARED_WEIGHT_MEMORY, SHARED_CONTEXT)
#: Sets of tensors in place, the plainest first.
TENSORS: tuple[tuple[str, ...], ...] = (
    (),
    (INPUT,),
    (OUTPUT,),
    (NATIVE_OUTPUT,),
    (INPUT, OUTPUT),
    (INPUT, NATIVE_OUTPUT),
)

#: Time that contexts infer for a figure of speed.
_TIMED_S = 1.0
#: Inferences per context while the time of one is unknown.
_FIRST_ROUNDS = 12
#: Bounds of inferences per context, once the time is known.
_LEAST_ROUNDS = 6
_MOST_ROUNDS = 300


def forms(demand: Demand, model: int) -> Iterator[Form]:
    """Yield every form that the contexts of a model can have."""
    mechanisms = list(WEIGHTS)
    if demand.are_resolutions and model:
        mechanisms.append(SHARED_WEIGHTS)
    for mechanism in mechanisms:
        may_be_outside = (False, True) if mechanism == DUP else (False,)
        # The threads of a shared context have its internal memory, and only tensors of their own.
        may_share_internal = (False,) if mechanism == SHARED_CONTEXT else (False, True)
        for outside, shares_internal, zero_copy in product(
            may_be_outside, may_share_internal, TENSORS
        ):
            yield Form(mechanism, shares_internal, zero_copy, False, outside)
            if zero_copy:
                yield Form(mechanism, shares_internal, zero_copy, True, outside)


@dataclass(frozen=True)
class Load:
    """The NPU memory that making one context takes."""

    #: Memory of the new context, before it has tensors, or internal memory of the application.
    made_bytes: int
    #: Additional memory while it is made: librknnmrt allocates weights even if they are shared.
    transient_bytes: int


@dataclass
class Study(MeasuredConditions):
    """The results by plan; a plan without a result has yet to be measured."""

    demand: Demand
    #: Whether the target computes; otherwise there is no speed, and one inference is enough.
    computes: bool = True
    #: Key: the plan without names.
    results: dict[Plan, Result] = field(default_factory=dict)
    #: Key: the plan without names; value: a load for each context, in order. Empty without a
    #: ledger.
    loads: dict[Plan, list[Load]] = field(default_factory=dict)

    def add(self, results: Iterable[Result], storage: Path) -> None:
        """Add results of a storage; the last of equal plans counts."""
        for result in results:
            plan = _nameless(result.plan)
            self.results[plan] = result
            self.loads[plan] = _loads(storage, result)

    def can_use(self, result: Result) -> bool:
        """Whether a stored result has all figures for predictions; a failure needs none."""
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
        """Return the result of a layout; None if it was not measured."""
        return self.results.get(_nameless(self.plan(layout)))

    def loads_of(self, layout: Layout) -> list[Load]:
        """Return the loads of a measured layout's contexts; empty without a ledger."""
        return self.loads.get(_nameless(self.plan(layout)), [])

    def plan(self, layout: Layout, name: str = "fit") -> Plan:
        """Return the plan to measure for a layout."""
        rounds = self._rounds(layout) if self.computes else 1
        return plan_of(layout, self.demand, name, rounds)

    def _rounds(self, layout: Layout) -> int:
        """Return the inferences per context, by the longest latency seen of the layout's models."""
        digests = {self.demand.models[group.model].digest for group in layout.groups}
        longest_ns = 0
        for result in self.results.values():
            if any(model.digest in digests for model in result.models):
                latencies_ns = [latency or 0 for latency in result.speed.latency_median_ns]
                longest_ns = max([longest_ns, *latencies_ns])
        if not longest_ns:
            return _FIRST_ROUNDS
        inferences = _TIMED_S * 1e9 / longest_ns * layout.lanes
        return min(max(_LEAST_ROUNDS, round(inferences / layout.contexts)), _MOST_ROUNDS)

    def alone(self, model: int, form: Form, count: int, cores: int) -> Layout:
        """Return the layout of one model; shared weights also need a context of the first model."""
        groups = [ContextGroup(model, form, spread(count, range(cores), cores))]
        if form.mechanism == SHARED_WEIGHTS:
            groups.insert(0, ContextGroup(0, NO_REUSE, spread(1, range(cores), cores)))
        return Layout(tuple(groups))


def _nameless(plan: Plan) -> Plan:
    """Return the plan without names and rounds: the number of inferences changes no memory."""
    return replace(plan, scenario="", baseline=None, rounds=1)


def _loads(storage: Path, result: Result) -> list[Load]:
    if not result.repeats:
        return []
    trace = read_trace(storage, result.repeats[0].trace, Trace)
    if trace is None or trace.npu is None:
        return []

    loads = []
    for before, barrier in zip(trace.barriers, trace.barriers[1:]):
        if barrier.phase != "context":
            continue
        start = trace.npu.ledger.live_bytes(before.at_ns)
        end = trace.npu.ledger.live_bytes(barrier.at_ns)
        peak = end
        for at_ns, live in zip(trace.npu.times_ns, trace.npu.live_bytes):
            if before.at_ns < at_ns <= barrier.at_ns:
                peak = max(peak, live)
        loads.append(Load(made_bytes=end - start, transient_bytes=peak - end))
    return loads
