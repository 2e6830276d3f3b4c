"""The process memory of contexts on a CPU, measured at several numbers of contexts.

Lines give the memory at numbers in between. Costs of choices do not add up, as they do on an NPU:
all contexts share a heap, and contexts that run at once share arenas.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Optional

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Form, Layout, spread
from reusebench.fit.prediction import Prediction, frames_per_s
from reusebench.fit.study import WEIGHTS, Study
from reusebench.fit.uncertainty import (
    HEAP_BYTES,
    off_the_line,
    plus_minus_of_left_over,
    plus_minus_of_process,
)
from reusebench.measured.plan import INPUT, OUTPUT, SHARED_CONTEXT
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["ProcessCosts"]

#: Number of forms, those with the least memory, that are measured at every number of contexts.
_KEPT = 2

_PLAIN_FORMS = [Form(mechanism) for mechanism in WEIGHTS]
#: Sets of tensors in place. One memory for each core is never larger than one for each context.
_TENSORS = ((INPUT,), (OUTPUT,), (INPUT, OUTPUT))

#: The start of sums; it has a spread, since a sum with a figure without one would have none.
_NONE = Figure(0.0, 0.0)
_Metric = Callable[[Result], Figure]


class ProcessCosts:
    """Predictions by lines between measurements of one model, corrected for several models."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._demand = study.demand
        self._cores = study.demand.cores
        self._models = range(len(study.demand.models))
        #: Numbers of contexts to measure, besides the largest one: unused memory of a heap grows
        #: unevenly, and contexts beyond the cores cost frames.
        most = max(self._cores, *study.demand.most)
        self._counts = sorted({1, self._cores, min(2 * self._cores, most)})

    def missing(self) -> list[Layout]:
        """Return the layouts to measure next before anything can be predicted; none in the end."""
        for stage in self._stages():
            layouts = [layout for layout in stage if self._study.result(layout) is None]
            if layouts:
                return layouts
        return []

    def unproven(self, layout: Layout) -> list[Layout]:
        """Return the layout, if it was not measured: a prediction has a wider ±."""
        return [] if self._study.result(layout) else [layout]

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms that were measured at every number of contexts."""
        yield from self._kept(model)

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return sizes in bytes that compare forms, as Costs says."""
        return tuple(_over_baseline(self._at(model, form, count)).median for count in self._counts)

    def predict(self, layout: Layout) -> Prediction:
        """Return the prediction of a layout, all of whose models have one form."""
        first = layout.groups[0]
        measured = _baseline(self._at(first.model, first.form, 1))
        values = self._values(_baseline)
        baseline = Figure(measured.median, plus_minus_of_process(values, (), len(measured.values)))
        trimmed = self._trimmed(layout)
        return Prediction(
            npu=None,
            npu_peak_bytes=None,
            over_baseline=self._as_allocated(layout, trimmed),
            trimmed=trimmed,
            baseline=baseline,
            frames_per_s=self._frames(layout),
            is_busy=self._study.is_busy,
        )

    def least_bytes(self, layout: Layout) -> None:
        """Return None: without an account by component there is no bound."""

    def _stages(self) -> Iterator[list[Layout]]:
        """Yield the layouts of each stage of measurement; a stage needs the former results."""
        # One context of each model shows the time of an inference.
        yield [self._alone(model, NO_REUSE, 1) for model in self._models]

        # Each way to have weights is measured with many contexts.
        plain = []
        for model in self._models:
            plain += [self._alone(model, form, self._counts[-1]) for form in _PLAIN_FORMS]
        yield plain

        # The best way is combined with each other reuse: what one of them saves may be lost with
        # another, since all contexts share a heap.
        combined = []
        for model in self._models:
            forms = self._combined_forms(model)
            combined += [self._alone(model, form, self._counts[-1]) for form in forms]
        yield combined

        # The kept forms are measured at all numbers of contexts.
        curves = []
        for model in self._models:
            counts = (*self._counts, self._demand.most[model])
            for form in self._kept(model):
                curves += [self._alone(model, form, count) for count in counts]
        yield curves

        # Several models in one process show their common memory.
        kept, *kept_of_others = [self._kept(model) for model in self._models]
        if kept_of_others:
            together = []
            for form in kept:
                if all(form in forms for forms in kept_of_others):
                    together += [self._together(form, 1), self._together(form, self._cores)]
            yield together

    def _combined_forms(self, model: int) -> list[Form]:
        """Return the best mechanism with other reuse, and the shared context with its tensors."""
        plain = self._possible(model, _PLAIN_FORMS)
        bases = []
        loaded = [form for form in plain if form.mechanism != SHARED_CONTEXT]
        if loaded:
            best = min(loaded, key=lambda form: self._size(model, form))
            bases += [best, replace(best, shares_internal=True)]
        if Form(SHARED_CONTEXT) in plain:
            bases.append(Form(SHARED_CONTEXT))

        combined = []
        for base in bases:
            if base not in plain:
                combined.append(base)
            for tensors in _TENSORS:
                combined.append(replace(base, zero_copy=tensors, shares_io=True))
        return combined

    def _kept(self, model: int) -> list[Form]:
        """Return the form without reuse, and those with the least memory."""
        possible = self._possible(model, [*_PLAIN_FORMS, *self._combined_forms(model)])
        possible.sort(key=lambda form: self._size(model, form))
        return list(dict.fromkeys([NO_REUSE, *possible[:_KEPT]]))

    def _possible(self, model: int, forms: Iterable[Form]) -> list[Form]:
        """Return the forms that were measured and did not fail."""
        possible = []
        for form in forms:
            result = self._study.result(self._alone(model, form, self._counts[-1]))
            if result and result.outcome == "ok":
                possible.append(form)
        return possible

    def _size(self, model: int, form: Form) -> float:
        return _over_baseline(self._at(model, form, self._counts[-1])).median

    def _alone(self, model: int, form: Form, count: int) -> Layout:
        """Return the layout of one model's contexts, as the search has it."""
        per_core = spread(count, range(min(count, self._cores)), self._cores)
        return Layout((ContextGroup(model, form, per_core),))

    def _at(self, model: int, form: Form, count: int) -> Result:
        result = self._study.result(self._alone(model, form, count))
        assert result is not None
        return result

    def _together(self, form: Form, count: int) -> Layout:
        """Return the layout of all models in one process, with `count` contexts each."""
        per_core = spread(count, range(self._cores), self._cores)
        # Shared memory has the size that its first user needs, so the largest model comes first.
        models = sorted(self._models, key=lambda model: -sum(self.sizes(model, NO_REUSE)))
        return Layout(tuple(ContextGroup(model, form, per_core) for model in models))

    def _trimmed(self, layout: Layout) -> Figure | None:
        """Return the memory after malloc_trim(0); None if there are processes without it."""
        if not all(self._values(_trimmed_over_baseline)):
            return None
        return self._total(layout, _trimmed_over_baseline)

    def _as_allocated(self, layout: Layout, trimmed: Figure | None) -> Figure:
        """Return the memory as allocated: trimmed, and what the heap has left over.

        Repeats of one plan often have the same left over, and the next session of the same plan has
        another: so it may be as much more or less as other plans of the study show.
        """
        total = self._total(layout, _over_baseline)
        if trimmed is None or trimmed.spread is None or total.spread is None:
            return total
        plus_minus = 0.0
        for group in layout.groups:
            plus_minus += trimmed.spread + self._left_over_plus_minus(group)
        return Figure(total.median, max(total.spread, plus_minus))

    def _left_over_plus_minus(self, group: ContextGroup) -> float:
        """Return by how much the memory that a heap has left over differs by chance."""
        models = (self._demand.models[group.model],)
        by_count: dict[int, list[float]] = {}
        for result in self._study.results.values():
            plan = result.plan
            is_alike = plan.models == models and plan.contexts[-1].mechanism == group.form.mechanism
            if result.outcome == "ok" and is_alike:
                by_count.setdefault(len(plan.contexts), []).append(_left_over(result).median)
        curve = {count: known.median for count, known in self._curve(group, _left_over).items()}
        return plus_minus_of_left_over(by_count.values(), curve)

    def _total(self, layout: Layout, figure: _Metric) -> Figure:
        """Return the memory of the layout, with the ± of one more process."""
        measured = self._measured(layout)
        if measured is not None:
            return self._of_process(figure(measured), layout.groups, figure)

        total = _NONE
        for group in layout.groups:
            total += self._size_at(group, figure)
        if len(layout.groups) > 1:
            total += self._common(layout, figure)
        return total

    def _measured(self, layout: Layout) -> Result | None:
        """Return the result of exactly this layout; None if it was not measured, or failed."""
        result = self._study.result(layout)
        return result if result and result.outcome == "ok" else None

    def _of_process(
        self, measured: Figure, groups: Sequence[ContextGroup], figure: _Metric
    ) -> Figure:
        """Return a figure of measured repeats with the ± of one more process."""
        of_form = [measured.values] if len(groups) > 1 else []
        for group in groups:
            of_form += [known.values for known in self._curve(group, figure).values()]
        repeats = len(measured.values)
        plus_minus = plus_minus_of_process(self._values(figure), of_form, repeats)
        return Figure(measured.median, plus_minus)

    def _size_at(self, group: ContextGroup, figure: _Metric) -> Figure:
        """Return the memory of one model's contexts by themselves, with the ± of one process."""
        curve = self._curve(group, figure)
        measured = curve.get(group.count)
        if measured is not None:
            return self._of_process(measured, [group], figure)

        repeats = min(len(known.values) for known in curve.values())
        of_form = [known.values for known in curve.values()]
        plus_minus = plus_minus_of_process(self._values(figure), of_form, repeats)
        median = self._between(group.model, group.form, group.count, figure).median
        if plus_minus is None:
            return Figure(median)
        sizes = {count: known.median for count, known in curve.items()}
        heaps_bytes = HEAP_BYTES * group.cores
        return Figure(median, plus_minus + off_the_line(sizes, group.count) + heaps_bytes)

    def _curve(self, group: ContextGroup, figure: _Metric) -> dict[int, Figure]:
        """Return the figure at each measured number of contexts of a group's form."""
        curve = {}
        for count in self._counts_of(group.model, group.form):
            curve[count] = figure(self._at(group.model, group.form, count))
        return curve

    def _values(self, figure: _Metric) -> list[tuple[float, ...]]:
        """Return the values of the repeats of every plan that ran."""
        values = []
        for result in self._study.results.values():
            if result.outcome == "ok":
                values.append(figure(result).values)
        return values

    def _between(self, model: int, form: Form, count: int, figure: _Metric) -> Figure:
        """Return the figure at `count` contexts, on the line of the two nearest measurements."""
        counts = self._counts_of(model, form)
        index = min(max(1, bisect_left(counts, count)), len(counts) - 1)
        low = counts[index - 1]
        high = counts[index]
        lower = figure(self._at(model, form, low))
        upper = figure(self._at(model, form, high))
        share = (count - low) / (high - low)
        return lower.scaled(1 - share) + upper.scaled(share)

    def _counts_of(self, model: int, form: Form) -> list[int]:
        """Return the measured numbers of contexts, without those that failed."""
        counts = set(self._counts)
        for count in range(1, self._demand.most[model] + 1):
            result = self._study.result(self._alone(model, form, count))
            if result and result.outcome == "ok":
                counts.add(count)
        return sorted(counts)

    def _common(self, layout: Layout, figure: _Metric) -> Figure:
        """Return the difference of the models in one process to the sum of each alone."""
        has_few = all(group.count < self._cores for group in layout.groups)
        few = self._common_at(layout, 1, figure)
        many = self._common_at(layout, self._cores, figure)
        common = few if has_few else many
        if all(group.count in (1, self._cores) for group in layout.groups):
            return common
        # Between and beyond these numbers the common part is as uncertain as it changes.
        return common + Figure(0.0, abs(many.median - few.median))

    def _common_at(self, layout: Layout, count: int, figure: _Metric) -> Figure:
        """Return the common part of `count` contexts of each model, which was measured."""
        form = layout.groups[0].form
        together = self._study.result(self._together(form, count))
        assert together is not None
        common = figure(together)
        for group in layout.groups:
            common += figure(self._at(group.model, group.form, count)).scaled(-1)
        return common

    def _frames(self, layout: Layout) -> Figure | None:
        lanes = min(layout.contexts, self._cores)
        rates: dict[int, Figure] = {}
        for group in layout.groups:
            # The line is not continued beyond the last measurement.
            most = self._counts_of(group.model, group.form)[-1]
            count = min(layout.contexts, most)
            rate = self._between(group.model, group.form, count, _throughput)
            if not rate.median:
                return None
            rates[group.model] = rate.scaled(1 / lanes)
        shares = dict(enumerate(map(float, self._demand.streams)))
        return frames_per_s(layout, shares, rates, self._cores)


def _baseline(result: Result) -> Figure:
    return Figure.of(result.memory.baseline_memory_bytes) or _NONE


def _over_baseline(result: Result) -> Figure:
    return Figure.of(result.memory.application_memory_over_baseline_bytes) or _NONE


def _trimmed_over_baseline(result: Result) -> Figure:
    memory = result.memory
    return _difference(memory.application_memory_trimmed_bytes, memory.baseline_memory_bytes)


def _left_over(result: Result) -> Figure:
    """Return the memory that trimming takes from the process: the free memory of its heaps."""
    memory = result.memory
    return _difference(memory.application_memory_bytes, memory.application_memory_trimmed_bytes)


def _difference(larger: Sequence[Optional[int]], smaller: Sequence[Optional[int]]) -> Figure:
    """Return the differences in the repeats that have both figures."""
    differences = []
    for minuend, subtrahend in zip(larger, smaller):
        if minuend is not None and subtrahend is not None:
            differences.append(minuend - subtrahend)
    return Figure.of(differences) or _NONE


def _throughput(result: Result) -> Figure:
    return Figure.of(result.speed.throughput_per_s) or _NONE
