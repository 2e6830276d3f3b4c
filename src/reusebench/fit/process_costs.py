"""What contexts take of a process's memory on a CPU: measured at several numbers of contexts, and
in between by lines.

Such memory does not add up by choices, as an NPU's does: a heap is shared by all, and arenas by
those that run at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Form, Layout, spread
from reusebench.fit.prediction import Prediction, frames_per_s
from reusebench.fit.study import WEIGHTS, Study
from reusebench.measured.plan import INPUT, OUTPUT, SHARED_CONTEXT
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["ProcessCosts"]

#: So many forms, those that take the least, are measured at every number of contexts.
_KEPT = 2

#: Without a spread a sum would have none.
_NONE = Figure(0.0, 0.0)
_Metric = Callable[[Result], Figure]


class ProcessCosts:
    """Predicts by lines between what was measured of one model, less what several models have in
    common.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        cores = study.demand.cores
        #: How many contexts of one model are measured together, besides all of them: what a heap
        #: has left over grows unevenly, and contexts beyond the cores cost frames.
        self._counts = sorted({1, cores, 2 * cores})

    def missing(self) -> list[Layout]:
        """Return what has to be measured next before anything can be predicted; none in the end."""
        for stage in (
            self._first,
            self._mechanisms,
            self._combinations,
            self._curves,
            self._together,
        ):
            layouts = [layout for layout in stage() if self._study.result(layout) is None]
            if layouts:
                return layouts
        return []

    def unproven(self, layout: Layout) -> list[Layout]:  # noqa: ARG002
        """Return nothing: every form is measured as it is."""
        return []

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms that were measured at every number of contexts."""
        yield from self._kept(model)

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return sizes in bytes: where none is larger than that of another form, no layout of it
        is.
        """
        return tuple(_over_baseline(self._at(model, form, count)).median for count in self._counts)

    def predict(self, layout: Layout) -> Prediction:
        """Return the prediction of a layout, all of whose models have one form."""
        first = layout.groups[0]
        baseline = Figure.of(self._at(first.model, first.form, 1).memory.baseline_memory_bytes)
        assert baseline is not None
        return Prediction(
            npu=None,
            npu_peak_bytes=None,
            over_baseline=self._total(layout, _over_baseline),
            trimmed=self._total(layout, _trimmed_over_baseline),
            baseline=baseline,
            frames_per_s=self._frames(layout),
        )

    def least_bytes(self, layout: Layout) -> None:
        """Return None: without an account by component there is no bound."""

    # What is measured, stage by stage

    def _first(self) -> Iterator[Layout]:
        """Yield one context of each model: how long an inference takes."""
        for model in self._models():
            yield self._alone(model, NO_REUSE, 1)

    def _mechanisms(self) -> Iterator[Layout]:
        """Yield each way to have weights, of as many contexts as are measured."""
        for model in self._models():
            for form in self._plain_forms():
                yield self._alone(model, form, self._counts[-1])

    def _combinations(self) -> Iterator[Layout]:
        """Yield the best of them with internal memory and tensors shared too, and the shared
        context with tensors.
        """
        for model in self._models():
            for form in self._combined_forms(model):
                yield self._alone(model, form, self._counts[-1])

    def _curves(self) -> Iterator[Layout]:
        for model in self._models():
            for form in self._kept(model):
                counts = (*self._counts, self._study.demand.most[model])
                yield from (self._alone(model, form, count) for count in counts)

    def _together(self) -> Iterator[Layout]:
        """Yield all models in one process, where there are several: once with the fewest, once with
        more contexts.
        """
        if len(self._study.demand.models) == 1:
            return
        for form in dict.fromkeys(form for model in self._models() for form in self._kept(model)):
            if all(form in self._kept(model) for model in self._models()):
                yield from (self._all(form, count) for count in (1, self._study.demand.cores))

    def _models(self) -> range:
        return range(len(self._study.demand.models))

    def _plain_forms(self) -> list[Form]:
        return [Form(mechanism) for mechanism in WEIGHTS]

    def _combined_forms(self, model: int) -> list[Form]:
        plain = self._measured(model, self._plain_forms())
        loaded = [form for form in plain if form.mechanism != SHARED_CONTEXT]
        combined = []
        if loaded:
            best = min(loaded, key=lambda form: self._most(model, form)).mechanism
            combined += [Form(best, True), Form(best, True, (INPUT, OUTPUT), True)]
        if Form(SHARED_CONTEXT) in plain:
            combined.append(Form(SHARED_CONTEXT, False, (INPUT, OUTPUT), True))
        return combined

    def _kept(self, model: int) -> list[Form]:
        """Return the form without reuse, and those that take the least."""
        measured = self._measured(model, [*self._plain_forms(), *self._combined_forms(model)])
        measured.sort(key=lambda form: self._most(model, form))
        return list(dict.fromkeys([NO_REUSE, *measured[:_KEPT]]))

    def _measured(self, model: int, forms: list[Form]) -> list[Form]:
        """Return those of the forms that the runtime has."""
        results = [
            (form, self._study.result(self._alone(model, form, self._counts[-1]))) for form in forms
        ]
        return [form for form, result in results if result and result.outcome == "ok"]

    def _most(self, model: int, form: Form) -> float:
        return _over_baseline(self._at(model, form, self._counts[-1])).median

    def _alone(self, model: int, form: Form, count: int) -> Layout:
        return self._study.alone(model, form, count, min(count, self._study.demand.cores))

    def _at(self, model: int, form: Form, count: int) -> Result:
        result = self._study.result(self._alone(model, form, count))
        assert result is not None
        return result

    def _all(self, form: Form, count: int) -> Layout:
        cores = self._study.demand.cores
        groups = []
        for model in self._in_order():
            groups.append(ContextGroup(model, form, spread(count, range(cores), cores)))
        return Layout(tuple(groups))

    def _in_order(self) -> list[int]:
        """Return the models, the largest first: memory that is shared has the size that its first
        user needs.
        """
        return sorted(self._models(), key=lambda model: -sum(self.sizes(model, NO_REUSE)))

    # What follows from it

    def _total(self, layout: Layout, figure: _Metric) -> Figure:
        total = _NONE
        for group in layout.groups:
            total += self._between(group.model, group.form, group.count, figure)
        if len(layout.groups) > 1:
            total += self._common(layout, figure)
        return total

    def _between(self, model: int, form: Form, count: int, figure: _Metric) -> Figure:
        """Return the figure at a number of contexts, on the line through the two nearest that were
        measured.
        """
        counts = self._counts_of(model, form)
        index = min(max(1, bisect_left(counts, count)), len(counts) - 1)
        low = counts[index - 1]
        high = counts[index]
        lower, upper = (figure(self._at(model, form, measured)) for measured in (low, high))
        share = (count - low) / (high - low)
        return lower.scaled(1 - share) + upper.scaled(share)

    def _counts_of(self, model: int, form: Form) -> list[int]:
        """Return the numbers of contexts with a figure; so many that they do not run have none."""
        most = self._study.demand.most[model]
        all_contexts = self._study.result(self._alone(model, form, most))
        return (
            sorted({*self._counts, most})
            if all_contexts and all_contexts.outcome == "ok"
            else self._counts
        )

    def _common(self, layout: Layout, figure: _Metric) -> Figure:
        """Return what several models take together more, or less where negative, than one by
        one.
        """
        form = layout.groups[0].form
        cores = self._study.demand.cores
        count = 1 if all(group.count < cores for group in layout.groups) else cores
        together = self._study.result(self._all(form, count))
        assert together is not None
        common = figure(together)
        for group in layout.groups:
            common += figure(self._at(group.model, group.form, count)).scaled(-1)
        return common

    def _frames(self, layout: Layout) -> Figure | None:
        demand = self._study.demand
        lanes = min(layout.contexts, demand.cores)
        rates: dict[int, Figure] = {}
        for group in layout.groups:
            counts = self._counts_of(group.model, group.form)
            # Lines end where nothing was measured.
            rate = self._between(
                group.model, group.form, min(layout.contexts, counts[-1]), _throughput
            )
            if not rate.median:
                return None
            rates[group.model] = rate.scaled(1 / lanes)
        return frames_per_s(
            layout, dict(enumerate(map(float, demand.streams))), rates, demand.cores
        )


def _over_baseline(result: Result) -> Figure:
    return Figure.of(result.memory.application_memory_over_baseline_bytes) or _NONE


def _trimmed_over_baseline(result: Result) -> Figure:
    memory = result.memory
    differences: list[float] = []
    for trimmed, baseline in zip(
        memory.application_memory_trimmed_bytes, memory.baseline_memory_bytes
    ):
        if trimmed is not None and baseline is not None:
            differences.append(trimmed - baseline)
    return Figure.of(differences) or _NONE


def _throughput(result: Result) -> Figure:
    return Figure.of(result.speed.throughput_per_s) or _NONE
