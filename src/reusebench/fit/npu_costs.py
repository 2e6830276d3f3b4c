"""What contexts take of an NPU's memory: to the byte by the ledger, each choice of a form measured
by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from reusebench.accounting.sizes import COMPONENTS, ContextMemory
from reusebench.fit.layouts import NO_REUSE, Form, Layout
from reusebench.fit.prediction import Prediction, frames_per_s
from reusebench.fit.study import TENSORS, WEIGHTS, Study, forms
from reusebench.measured.plan import DUP, LOAD, SHARED_WEIGHT_MEMORY, SHARED_WEIGHTS
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["NpuCosts"]

#: Contexts of a form that are measured: the first, and one that shows what each further one takes.
_CONTEXTS = 2
#: Beside the components of NPU memory: memory of the process; and what making a context takes
#: (study.Load).
_PROCESS = "process"
_MADE = "made"
_TRANSIENT = "transient"


@dataclass(frozen=True)
class _Cost:
    """What contexts of one form take, in bytes by component."""

    first: Counter[str]
    further: Counter[str]
    #: What the contexts of a core have once.
    internal: int = 0
    io: int = 0


class NpuCosts:
    """Predicts by adding what was measured."""

    def __init__(self, study: Study) -> None:
        self._study = study
        #: By model and form; emptied when there are further results.
        self._costs: dict[tuple[int, Form], _Cost | None] = {}
        self._known = 0

    def missing(self) -> list[Layout]:
        """Return what has to be measured before anything can be predicted."""
        layouts = []
        for model in range(len(self._study.demand.models)):
            layouts += [self._alone(model, form) for form in self._single_choices(model)]
            if self._study.computes:
                lanes = range(1, self._study.demand.cores + 1)
                layouts += [self._study.alone(model, NO_REUSE, count, count) for count in lanes]
        return [layout for layout in layouts if self._study.result(layout) is None]

    def unproven(self, layout: Layout) -> list[Layout]:
        """Return what has to be measured so that no form of the layout is composed of others."""
        layouts = [self._alone(group.model, group.form) for group in layout.groups]
        return [alone for alone in layouts if self._study.result(alone) is None]

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms that are not known to be impossible."""
        for form in forms(self._study.demand, model):
            if self._cost(model, form) is not None:
                yield form

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return sizes in bytes: where none is larger than that of another form, no layout of it
        is.
        """
        cost = self._cost(model, form)
        assert cost is not None
        sizes: list[float] = [cost.internal, cost.io]
        for context in (cost.first, cost.further):
            sizes += [sum(context[component] for component in COMPONENTS), context[_MADE]]
            sizes.append(context[_MADE] + context[_TRANSIENT])
        return tuple(sizes)

    def predict(self, layout: Layout) -> Prediction:
        """Return the prediction of a layout of possible forms."""
        total: Counter[str] = Counter()
        internal = [0] * len(layout.groups[0].per_core)
        for group in layout.groups:
            cost = self._cost(group.model, group.form)
            assert cost is not None
            total.update(cost.first)
            for component, size in cost.further.items():
                total[component] += size * (group.count - 1)
            total["io"] += cost.io * group.cores
            for core, count in enumerate(group.per_core):
                if count:
                    internal[core] = max(internal[core], cost.internal)
        total["internal"] += sum(internal)
        npu = {component: total[component] for component in COMPONENTS}
        first = self._measured(0, NO_REUSE)
        return Prediction(
            npu=npu,
            npu_peak_bytes=max(sum(npu.values()), self._peak_bytes(layout, sum(internal))),
            over_baseline=Figure(total[_PROCESS], 0.0),
            trimmed=None,
            baseline=Figure(first.memory.baseline_memory_bytes[0] or 0, 0.0),
            frames_per_s=self._frames(layout),
        )

    def _peak_bytes(self, layout: Layout, internal: int) -> int:
        """Return the most that is taken at once until contexts infer.

        Shared internal memory comes when all are made.
        """
        live = peak = 0
        for group in layout.groups:
            cost = self._cost(group.model, group.form)
            assert cost is not None
            for context in [cost.first] + [cost.further] * (group.count - 1):
                live += context[_MADE]
                peak = max(peak, live + context[_TRANSIENT])
        return max(peak, live + internal)

    def least_bytes(self, layout: Layout) -> int:
        """Return what no layout of these contexts on these cores can take less than.

        That is the weights once, the largest internal memory of each core once, and of each context
        the least that was seen of everything else.
        """
        internal = [0] * len(layout.groups[0].per_core)
        total = 0
        for group in layout.groups:
            costs = [
                cost for form in self.forms(group.model) if (cost := self._cost(group.model, form))
            ]
            total += min(cost.first["weights"] for cost in costs)
            total += group.count * min(_own(cost) for cost in costs) + group.cores * min(
                _tensors(cost) for cost in costs
            )
            smallest = min(cost.internal or cost.further["internal"] for cost in costs)
            for core, count in enumerate(group.per_core):
                if count:
                    internal[core] = max(internal[core], smallest)
        return total + sum(internal)

    def _cost(self, model: int, form: Form) -> _Cost | None:
        """Return the cost of a form, as measured or by adding its choices; None if one is
        impossible.
        """
        if self._known != len(self._study.results):
            self._costs = {}
            self._known = len(self._study.results)
        if (model, form) not in self._costs:
            self._costs[model, form] = self._new_cost(model, form)
        return self._costs[model, form]

    def _new_cost(self, model: int, form: Form) -> _Cost | None:
        if self._study.result(self._alone(model, form)) is not None:
            return self._measured_cost(model, form)
        plain = self._measured_cost(model, NO_REUSE)
        if plain is None:
            return None
        cost = _Cost(plain.first.copy(), plain.further.copy())
        for choice in _choices(form):
            single = self._measured_cost(model, choice)
            if single is None:
                return None
            for total, one, other in (
                (cost.first, single.first, plain.first),
                (cost.further, single.further, plain.further),
            ):
                # What the library holds for a moment is the same buffers, whichever choice they are
                # for.
                transient = max(total[_TRANSIENT], one[_TRANSIENT])
                _add_difference(total, one, other)
                total[_TRANSIENT] = transient
            cost = _Cost(
                cost.first, cost.further, cost.internal + single.internal, cost.io + single.io
            )
        if form.zero_copy and not form.shares_io:
            cost.first["io"] += cost.io
            cost.further["io"] += cost.io
            cost = _Cost(cost.first, cost.further, cost.internal)
        return cost

    def _measured_cost(self, model: int, form: Form) -> _Cost | None:
        result = self._study.result(self._alone(model, form))
        account = result.repeats[0].npu if result and result.outcome == "ok" else None
        if result is None or account is None:
            return None
        # Before a slave stands the context that has the weights.
        start = form.mechanism == SHARED_WEIGHTS
        added = result.memory.context_memory_bytes[0]
        contexts = [Counter(_sizes(context)) for context in account.contexts[start:]]
        for context, process_bytes in zip(contexts, (added or ())[start:]):
            context[_PROCESS] = process_bytes
        for context, load in zip(contexts, self._study.loads_of(self._alone(model, form))[start:]):
            context[_MADE], context[_TRANSIENT] = load.made_bytes, load.transient_bytes
        first, further = contexts
        internal = first["internal"] - further["internal"] if form.shares_internal else 0
        io = first["io"] - further["io"] if form.shares_io else 0
        first["internal"] -= internal
        first["io"] -= io
        return _Cost(first, further, internal, io)

    def _measured(self, model: int, form: Form) -> Result:
        result = self._study.result(self._alone(model, form))
        assert result is not None
        return result

    def _alone(self, model: int, form: Form) -> Layout:
        return self._study.alone(model, form, _CONTEXTS, 1)

    def _single_choices(self, model: int) -> list[Form]:
        """Return the forms with one choice that is not the plainest."""
        singles = [Form(mechanism) for mechanism in WEIGHTS]
        if self._study.demand.are_resolutions and model:
            singles.append(Form(SHARED_WEIGHTS))
        singles += [Form(shares_internal=True), Form(SHARED_WEIGHT_MEMORY, shares_internal=True)]
        singles += [Form(DUP, shares_internal, outside=True) for shares_internal in (False, True)]
        return singles + [Form(zero_copy=tensors, shares_io=True) for tensors in TENSORS if tensors]

    def _frames(self, layout: Layout) -> Figure | None:
        demand = self._study.demand
        rates: dict[int, Figure] = {}
        for group in layout.groups:
            lanes = min(layout.contexts, demand.cores)
            result = self._study.result(self._study.alone(group.model, NO_REUSE, lanes, lanes))
            rate = Figure.of(result.speed.throughput_per_s) if result else None
            if rate is None:
                return None
            rates[group.model] = rate.scaled(1 / lanes)
        return frames_per_s(
            layout, dict(enumerate(map(float, demand.streams))), rates, demand.cores
        )


def _choices(form: Form) -> Iterator[Form]:
    """Yield the form's choices that are not the plainest, each by itself.

    Weight memory and internal memory of the application are one: librknnmrt takes both outside,
    whichever is wanted.
    """
    if form.has_weights_outside:
        yield Form(form.mechanism, form.shares_internal, outside=form.outside)
    else:
        if form.mechanism != LOAD:
            yield Form(form.mechanism)
        if form.shares_internal:
            yield Form(shares_internal=True)
    if form.zero_copy:
        yield Form(zero_copy=form.zero_copy, shares_io=True)


def _sizes(context: ContextMemory) -> dict[str, int]:
    return {component: context.size_bytes(component) or 0 for component in COMPONENTS}


def _add_difference(total: Counter[str], one: Counter[str], other: Counter[str]) -> None:
    for component in one.keys() | other.keys():
        total[component] += one[component] - other[component]


def _own(cost: _Cost) -> int:
    """Return what a further context has by itself, without weights, internal tensors and
    tensors.
    """
    return sum(cost.further[component] for component in ("register_commands", "task_list", "other"))


def _tensors(cost: _Cost) -> int:
    return cost.io or cost.further["io"]
