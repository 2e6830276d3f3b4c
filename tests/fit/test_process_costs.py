"""Predicted memory of a process on a CPU, for results that are known in advance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Demand, Form, Layout, spread
from reusebench.fit.process_costs import ProcessCosts
from reusebench.fit.study import Study
from reusebench.measured.messages import Message
from reusebench.measured.plan import (
    DUP,
    INPUT,
    LOAD,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    Plan,
)
from reusebench.storage.result import Result
from reusebench.targets.outcome import Failure
from tests.fit.made_up import demand_of
from tests.reports import stored

_MIB = 2**20
_BASELINE = 50 * _MIB
_REFUSED = Failure("not_supported", "context", 1, Message("rknn_one_thread"))
#: MiB of the first context, and of each additional one.
_OF_MECHANISM = {LOAD: (40, 40), DUP: (44, 12), SHARED_CONTEXT: (42, 3)}
#: MiB that a second model in the process saves.
_COMMON = -5


def _mib(plan: Plan) -> float:
    total = 0.0
    for model in range(len(plan.models)):
        contexts = [context for context in plan.contexts if context.model == model]
        first, further = _OF_MECHANISM[contexts[-1].mechanism]
        shared = 4 * sum(context.internal is not None for context in contexts[1:])
        total += first + further * (len(contexts) - 1) - shared
    return total + _COMMON * (len(plan.models) - 1)


def _two_mib(plan: Plan) -> float:  # noqa: ARG001
    return 2


def _odd_is_more(plan: Plan) -> float:
    """Return MiB that a heap has left over: 9 for one context or three, otherwise 2."""
    return 9 if len(plan.contexts) % 2 else 2


def _result(folder: Path, plan: Plan, left_over_mib: Callable[[Plan], float] = _two_mib) -> Result:
    """Return the result of a plan, with two repeats 1 MiB apart."""
    if any(context.mechanism == SHARED_WEIGHT_MEMORY for context in plan.contexts):
        return stored.result(folder, "fit", [], plan=plan, failure=_REFUSED)
    made = stored.result(folder, "fit", [[_MIB] * len(plan.contexts)] * 2, plan=plan)
    trimmed = [round((_mib(plan) - 2 + offset) * _MIB) for offset in (-0.5, 0.5)]
    over = [round(size + left_over_mib(plan) * _MIB) for size in trimmed]
    made = stored.with_memory(
        made,
        application_memory_bytes=[size + _BASELINE for size in over],
        application_memory_over_baseline_bytes=over,
        application_memory_trimmed_bytes=[size + _BASELINE for size in trimmed],
        baseline_memory_bytes=[_BASELINE, _BASELINE],
    )
    lanes = min(len(plan.contexts), plan.cores)
    return stored.with_speed(made, throughput_per_s=(20.0 * lanes, 22.0 * lanes))


def _calibrated(
    folder: Path,
    demand: Demand,
    measured: Callable[[Plan], None] = lambda _: None,
    left_over_mib: Callable[[Plan], float] = _two_mib,
) -> ProcessCosts:
    return _costs_of(Study(demand), folder, measured, left_over_mib)


def _costs_of(
    study: Study,
    folder: Path,
    measured: Callable[[Plan], None] = lambda _: None,
    left_over_mib: Callable[[Plan], float] = _two_mib,
) -> ProcessCosts:
    costs = ProcessCosts(study)
    while missing := costs.missing():
        for layout in missing:
            measured(study.plan(layout))
            study.add([_result(folder, study.plan(layout), left_over_mib)], folder)
    return costs


def _of_one(form: Form, count: int, cores: int) -> Layout:
    return Layout((ContextGroup(0, form, spread(count, range(min(count, cores)), cores)),))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 12])
def test_memory_is_on_lines_between_measured_numbers_of_contexts(
    count: int, tmp_path: Path
) -> None:
    """All figures lie on lines between measurements, and beyond the last one on its line."""
    demand = demand_of((12,), cores=2, binds=False)
    costs = _calibrated(tmp_path, demand)
    for form in costs.forms(0):
        layout = _of_one(form, count, demand.cores)
        prediction = costs.predict(layout)
        expected = _mib(Study(demand).plan(layout)) * _MIB
        assert prediction.over_baseline.median == pytest.approx(expected)
        assert prediction.application.median == pytest.approx(expected + _BASELINE)
        assert prediction.trimmed is not None
        assert prediction.trimmed.median == pytest.approx(expected - 2 * _MIB)
        assert (prediction.over_baseline.spread or 0) >= 0.5 * _MIB * 0.999
        assert prediction.npu is None


def test_a_mechanism_that_the_runtime_lacks_is_in_no_form(tmp_path: Path) -> None:
    """The form without reuse is kept, and those with the least memory."""
    plans: list[Plan] = []
    costs = _calibrated(tmp_path, demand_of((6,), cores=2, binds=False), plans.append)
    kept = list(costs.forms(0))
    assert kept[0] == NO_REUSE
    assert SHARED_WEIGHT_MEMORY not in {form.mechanism for form in kept}
    assert len(plans) <= 24


def test_the_output_alone_may_be_in_place(tmp_path: Path) -> None:
    """Each tensor in place is measured by itself, with the memory of cores shared and without."""
    plans: list[Plan] = []
    _calibrated(tmp_path, demand_of((6,), cores=2, binds=False), plans.append)
    measured = set()
    for plan in plans:
        last = plan.contexts[-1]
        measured.add((last.mechanism, last.internal is not None, last.zero_copy))
    for tensors in ((INPUT,), (OUTPUT,), (INPUT, OUTPUT)):
        assert (SHARED_CONTEXT, False, tensors) in measured
        assert (DUP, False, tensors) in measured
        assert (DUP, True, tensors) in measured


@pytest.mark.parametrize("counts", [(3,), (2, 3)])
def test_a_layout_that_was_not_measured_is_unproven(
    counts: tuple[int, ...], tmp_path: Path
) -> None:
    """Once it was measured, its ± is narrower; so it is with several models in one process."""
    demand = demand_of((6,) * len(counts), cores=2, binds=False)
    study = Study(demand)
    costs = _costs_of(study, tmp_path)
    groups = []
    for model, count in enumerate(counts):
        groups.append(ContextGroup(model, NO_REUSE, spread(count, range(2), 2)))
    layout = Layout(tuple(groups))
    assert costs.unproven(layout) == [layout]
    before = costs.predict(layout)
    study.add([_result(tmp_path, study.plan(layout))], tmp_path)
    assert costs.unproven(layout) == []
    after = costs.predict(layout)
    assert (after.over_baseline.spread or 0) < (before.over_baseline.spread or 0)
    assert after.trimmed is not None
    assert before.trimmed is not None
    assert (after.trimmed.spread or 0) < (before.trimmed.spread or 0)


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_what_is_searched_is_what_was_measured(count: int, tmp_path: Path) -> None:
    """The plan of one context too has the cores of the machine."""
    demand = demand_of((6,), cores=2, binds=False)
    costs = _calibrated(tmp_path, demand)
    for form in costs.forms(0):
        assert costs.unproven(_of_one(form, count, demand.cores)) == []


def test_what_a_heap_has_left_over_may_jump(tmp_path: Path) -> None:
    """A line between even numbers of contexts misses what odd ones leave over; ± has it."""
    demand = demand_of((6,), cores=2, binds=False)
    costs = _calibrated(tmp_path, demand, left_over_mib=_odd_is_more)
    steady = _calibrated(tmp_path, demand)
    layout = _of_one(NO_REUSE, 3, demand.cores)
    predicted = costs.predict(layout)
    plan = Study(demand).plan(layout)
    measured_bytes = (_mib(plan) - 2 + _odd_is_more(plan)) * _MIB
    error_bytes = abs(predicted.over_baseline.median - measured_bytes)
    assert error_bytes > 6 * _MIB
    assert error_bytes <= (predicted.over_baseline.spread or 0)
    # The trimmed memory does not jump, and its ± does not either.
    assert predicted.trimmed is not None
    assert predicted.trimmed == steady.predict(layout).trimmed


def test_memory_that_was_not_trimmed_is_not_predicted(tmp_path: Path) -> None:
    """A C library without malloc_trim leaves the figure as allocated, with its ±."""
    demand = demand_of((4,), cores=2, binds=False)
    study = Study(demand)
    costs = ProcessCosts(study)
    while missing := costs.missing():
        for layout in missing:
            made = _result(tmp_path, study.plan(layout))
            repeats = len(made.memory.application_memory_trimmed_bytes)
            if made.outcome == "ok":
                nothing = [None] * repeats
                made = stored.with_memory(made, application_memory_trimmed_bytes=nothing)
            study.add([made], tmp_path)
    predicted = costs.predict(_of_one(NO_REUSE, 3, demand.cores))
    assert predicted.trimmed is None
    assert predicted.over_baseline.median == pytest.approx(120 * _MIB)
    assert (predicted.over_baseline.spread or 0) > 0


def test_no_more_contexts_are_measured_than_asked_for(tmp_path: Path) -> None:
    """Two contexts on two cores: what more would take decides nothing."""
    plans: list[Plan] = []
    _calibrated(tmp_path, demand_of((2,), cores=2, binds=False), plans.append)
    assert max(len(plan.contexts) for plan in plans) == 2


def test_what_models_have_in_common_counts_once(tmp_path: Path) -> None:
    """The saving was measured with all models in one process."""
    demand = demand_of((4, 4), cores=2, binds=False)
    costs = _calibrated(tmp_path, demand)
    groups = [ContextGroup(model, NO_REUSE, (2, 1)) for model in range(2)]
    layout = Layout(tuple(groups))
    expected = _mib(Study(demand).plan(layout)) * _MIB
    assert costs.predict(layout).over_baseline.median == pytest.approx(expected)


def test_frames_are_those_of_contexts_that_run_at_once(tmp_path: Path) -> None:
    """Two cores do twice as many frames as one; contexts beyond the cores wait."""
    costs = _calibrated(tmp_path, demand_of((6,), cores=2, binds=False))
    rates = []
    for count in (1, 2, 6):
        frames = costs.predict(_of_one(NO_REUSE, count, 2)).frames_per_s
        assert frames is not None
        rates.append(frames.median)
    assert rates == pytest.approx([21.0, 42.0, 42.0])
