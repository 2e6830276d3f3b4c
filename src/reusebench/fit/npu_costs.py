"""The NPU memory of contexts, exact by the ledger; each choice of a form is measured by itself."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from reusebench.accounting.sizes import COMMAND_BUFFER, COMPONENTS, ContextMemory
from reusebench.fit.layouts import NO_REUSE, ContextGroup, Form, Layout
from reusebench.fit.prediction import Prediction, frames_per_s
from reusebench.fit.study import TENSORS, WEIGHTS, Study, forms
from reusebench.fit.uncertainty import plus_minus_of_values
from reusebench.measured.plan import (
    DUP,
    LOAD,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
)
from reusebench.storage.measured_figure import Figure

__all__ = ["NpuCosts"]

#: Number of contexts in a measurement of a form: the first, and one for each additional context.
_CONTEXTS = 2
#: Components that contexts of one model could have in common.
_OF_WEIGHTS = ("weights", "biases")
#: Keys of a cost besides the components of NPU memory: memory of the process, and the two of
#: study.Load.
_PROCESS = "process"
_MADE = "made"
_TRANSIENT = "transient"


@dataclass(frozen=True)
class _Cost:
    """The memory of contexts of one form, in bytes by component."""

    first: Counter[str]
    #: Each additional context.
    further: Counter[str]
    #: Memory that the contexts of a core share.
    internal: int = 0
    io: int = 0


class NpuCosts:
    """Predictions that add measured costs."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._demand = study.demand
        self._models = range(len(study.demand.models))
        #: Key: model and form; emptied when there are more results.
        self._costs: dict[tuple[int, Form], _Cost | None] = {}
        self._known_results = 0

    def missing(self) -> list[Layout]:
        """Return the layouts to measure before anything can be predicted."""
        layouts = []
        for model in self._models:
            layouts += [self._alone(model, form) for form in self._single_choices(model)]
            if self._study.computes:
                for lanes in range(1, self._demand.cores + 1):
                    layouts.append(self._study.alone(model, NO_REUSE, lanes, lanes))
        return [layout for layout in layouts if self._study.result(layout) is None]

    def unproven(self, layout: Layout) -> list[Layout]:
        """Return the layouts to measure so that every form of `layout` was measured as a whole.

        The layout itself is the last one, for the memory of its process, which is no sum.
        """
        layouts = [self._alone(group.model, group.form) for group in layout.groups]
        forms_to_measure = [alone for alone in layouts if self._study.result(alone) is None]
        result = self._study.result(layout)
        knows_process = result is not None and (result.failure or len(result.repeats) > 1)
        return forms_to_measure if forms_to_measure or knows_process else [layout]

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms that are not known to be impossible."""
        for form in forms(self._demand, model):
            if self._cost(model, form) is not None:
                yield form

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return sizes in bytes that compare forms, as Costs says."""
        cost = self._known_cost(model, form)
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
            cost = self._known_cost(group.model, group.form)
            total.update(cost.first)
            for component, size in cost.further.items():
                total[component] += size * (group.count - 1)
            total["io"] += cost.io * group.cores
            _raise_to(internal, group, cost.internal)
        total["internal"] += sum(internal)

        npu = {component: total[component] for component in COMPONENTS}
        return Prediction(
            npu=npu,
            npu_peak_bytes=max(sum(npu.values()), self._peak_bytes(layout, sum(internal))),
            over_baseline=self._over_baseline(layout) or Figure(total[_PROCESS]),
            trimmed=None,
            baseline=self._baseline(),
            frames_per_s=self._frames(layout),
            is_busy=self._study.is_busy,
        )

    def _over_baseline(self, layout: Layout) -> Figure | None:
        """Return the memory of the process above its baseline; None if it was not measured.

        The sum of contexts that were measured two at a time has no ± that is known.
        """
        result = self._study.result(layout)
        if result is None or result.outcome != "ok":
            return None
        measured = Figure.of(result.memory.application_memory_over_baseline_bytes)
        if measured is None:
            return None
        return Figure(measured.median, plus_minus_of_values(measured.values))

    def _baseline(self) -> Figure:
        """Return the do-nothing baseline, which every plan has measured."""
        values: list[int] = []
        for result in self._study.results.values():
            values += [size for size in result.memory.baseline_memory_bytes if size is not None]
        return Figure(statistics.median(values), plus_minus_of_values(values))

    def _peak_bytes(self, layout: Layout, internal: int) -> int:
        """Return the peak before contexts infer; shared internal memory comes after them all."""
        live = peak = 0
        for group in layout.groups:
            cost = self._known_cost(group.model, group.form)
            for context in [cost.first] + [cost.further] * (group.count - 1):
                live += context[_MADE]
                peak = max(peak, live + context[_TRANSIENT])
        return max(peak, live + internal)

    def with_shared_weights(self, layout: Layout, open_files: int) -> dict[str, int]:
        """Return the NPU memory by component if the contexts of an open file shared weights.

        No library does so. Each open file would have the weights of a model once.
        """
        npu = dict(self.predict(layout).npu or {})
        for group in layout.groups:
            spared = group.count - min(group.cores, open_files)
            further = self._known_cost(group.model, group.form).further
            for component in _OF_WEIGHTS:
                npu[component] -= spared * further[component]
        return npu

    def least_bytes(self, layout: Layout) -> int:
        """Return a lower bound for all layouts of these contexts on these cores.

        It has the weights once, the largest internal memory of each core once, and for each context
        the least of everything else that was seen.
        """
        internal = [0] * len(layout.groups[0].per_core)
        total = 0
        for group in layout.groups:
            costs = []
            for form in self.forms(group.model):
                # Threads of one context do not infer on several cores.
                if form.mechanism != SHARED_CONTEXT or group.cores == 1:
                    costs.append(self._known_cost(group.model, form))
            total += min(sum(cost.first[name] for name in _OF_WEIGHTS) for cost in costs)
            total += group.count * min(_unshared_bytes(cost) for cost in costs)
            total += group.cores * min(cost.io or cost.further["io"] for cost in costs)
            smallest = min(cost.internal or cost.further["internal"] for cost in costs)
            _raise_to(internal, group, smallest)
        return total + sum(internal)

    def _cost(self, model: int, form: Form) -> _Cost | None:
        """Return the cost of a form, measured or added up; None if one of its choices fails."""
        if self._known_results != len(self._study.results):
            self._costs = {}
            self._known_results = len(self._study.results)
        if (model, form) not in self._costs:
            self._costs[model, form] = self._new_cost(model, form)
        return self._costs[model, form]

    def _known_cost(self, model: int, form: Form) -> _Cost:
        cost = self._cost(model, form)
        assert cost is not None
        return cost

    def _new_cost(self, model: int, form: Form) -> _Cost | None:
        if self._study.result(self._alone(model, form)) is not None:
            return self._measured_cost(model, form)
        plain = self._measured_cost(model, NO_REUSE)
        if plain is None:
            return None

        first = plain.first.copy()
        further = plain.further.copy()
        internal = io = 0
        for choice in _choices(form):
            single = self._measured_cost(model, choice)
            if single is None:
                return None
            _add_difference(first, single.first, plain.first)
            _add_difference(further, single.further, plain.further)
            internal += single.internal
            io += single.io
        if form.zero_copy and not form.shares_io:
            first["io"] += io
            further["io"] += io
            io = 0
        return _Cost(first, further, internal, io)

    def _measured_cost(self, model: int, form: Form) -> _Cost | None:
        layout = self._alone(model, form)
        result = self._study.result(layout)
        if result is None or result.outcome != "ok":
            return None
        account = result.repeats[0].npu
        if account is None:
            return None

        # A context with the weights precedes those that share the weights of another model.
        start = 1 if form.mechanism == SHARED_WEIGHTS else 0
        contexts = [Counter(_sizes(context)) for context in account.contexts[start:]]
        process_bytes = result.memory.context_memory_bytes[0] or ()
        for context, size_bytes in zip(contexts, process_bytes[start:]):
            context[_PROCESS] = size_bytes
        for context, load in zip(contexts, self._study.loads_of(layout)[start:]):
            context[_MADE] = load.made_bytes
            context[_TRANSIENT] = load.transient_bytes

        first, further = contexts
        internal = first["internal"] - further["internal"] if form.shares_internal else 0
        io = first["io"] - further["io"] if form.shares_io else 0
        first["internal"] -= internal
        first["io"] -= io
        return _Cost(first, further, internal, io)

    def _alone(self, model: int, form: Form) -> Layout:
        return self._study.alone(model, form, _CONTEXTS, 1)

    def _single_choices(self, model: int) -> list[Form]:
        """Return the forms that differ in one choice from the plainest one."""
        singles = [Form(mechanism) for mechanism in WEIGHTS]
        if self._demand.are_resolutions and model:
            singles.append(Form(SHARED_WEIGHTS))
        singles += [
            Form(shares_internal=True),
            Form(SHARED_WEIGHT_MEMORY, shares_internal=True),
            Form(DUP, outside=True),
            Form(DUP, shares_internal=True, outside=True),
        ]
        singles += [Form(zero_copy=tensors, shares_io=True) for tensors in TENSORS if tensors]
        return [form for form in singles if not self._is_lacking(form)]

    def _is_lacking(self, form: Form) -> bool:
        """Whether the runtime is known to lack what the form needs."""
        lacks = self._demand.lacks
        lacks_internal = form.shares_internal and "internal_reuse" in lacks
        return lacks_internal or (form.has_weights_outside and "external_weights" in lacks)

    def _frames(self, layout: Layout) -> Figure | None:
        lanes = min(layout.contexts, self._demand.cores)
        rates: dict[int, Figure] = {}
        for group in layout.groups:
            result = self._study.result(self._study.alone(group.model, NO_REUSE, lanes, lanes))
            if result is None:
                return None
            rate = Figure.of(result.speed.throughput_per_s)
            if rate is None:
                return None
            rates[group.model] = rate.scaled(1 / lanes)
        shares = dict(enumerate(map(float, self._demand.streams)))
        return frames_per_s(layout, shares, rates, self._demand.cores)


def _choices(form: Form) -> Iterator[Form]:
    """Yield a form for each choice that differs from the plainest one.

    Weight memory and internal memory of the application are one choice: librknnmrt needs both from
    the application if it is given one.
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


def _add_difference(total: Counter[str], single: Counter[str], plain: Counter[str]) -> None:
    """Add the difference that one choice makes to the plain form."""
    # The transient buffers are the same ones, whichever choice needs them.
    transient_bytes = max(total[_TRANSIENT], single[_TRANSIENT])
    for component in single.keys() | plain.keys():
        total[component] += single[component] - plain[component]
    total[_TRANSIENT] = transient_bytes


def _raise_to(internal: list[int], group: ContextGroup, size_bytes: int) -> None:
    """Raise the internal memory of the group's cores to at least `size_bytes`."""
    for core, count in enumerate(group.per_core):
        if count:
            internal[core] = max(internal[core], size_bytes)


def _unshared_bytes(cost: _Cost) -> int:
    """Return the size of an additional context without weights, internal memory and tensors."""
    return sum(cost.further[component] for component in (*COMMAND_BUFFER, "task_list", "other"))
