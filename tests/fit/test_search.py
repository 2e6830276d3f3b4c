"""The search, with costs that are known in advance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Demand, Form, Layout
from reusebench.fit.prediction import Prediction
from reusebench.fit.search import Answer, Candidate, Wish, search
from reusebench.measured.plan import DUP, INPUT, SHARED_CONTEXT, SHARED_WEIGHT_MEMORY
from reusebench.storage.measured_figure import Figure
from tests.fit.made_up import MadeUpCosts, demand_of

_FORMS = (
    NO_REUSE,
    Form(DUP),
    Form(shares_internal=True),
    Form(DUP, shares_internal=True),
    Form(DUP, zero_copy=(INPUT,), shares_io=True),
    Form(DUP, True, (INPUT,), True),
)


def _costs(demand: Demand, seed: int, with_frames: bool = False) -> MadeUpCosts:
    chance = random.Random(seed)
    sizes = {}
    for model in range(len(demand.models)):
        weights = chance.randint(1, 50)
        internal = chance.randint(1, 20)
        io = chance.randint(1, 5)
        for form in _FORMS:
            further = chance.randint(0, 2) + (0 if form.mechanism == DUP else weights)
            further += 0 if form.shares_internal else internal
            further += 0 if form.shares_io else io
            of_core = internal if form.shares_internal else 0
            first = further + (weights if form.mechanism == DUP else 0)
            sizes[model, form] = (first, further, of_core, io if form.shares_io else 0)
    rates = (
        {model: Figure(chance.uniform(10, 50)) for model in range(len(demand.models))}
        if with_frames
        else {}
    )
    return MadeUpCosts(sizes, demand.cores, rates, dict(enumerate(map(float, demand.streams))))


def _every_layout(demand: Demand, costs: MadeUpCosts) -> Iterator[Layout]:
    """Yield all layouts: every form, and every number of contexts per model and core."""
    choices = []
    for model, most in enumerate(demand.most):
        spreads = [
            counts
            for counts in product(range(most + 1), repeat=demand.cores)
            if 0 < sum(counts) <= most
        ]
        choices.append(
            [ContextGroup(model, form, counts) for form in costs.forms(model) for counts in spreads]
        )
    for groups in product(*choices):
        yield Layout(groups)


_DEMANDS = (
    demand_of((4,)),
    demand_of((3,), cores=2),
    demand_of((2, 1), cores=2),
    demand_of((2, 2), cores=2),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("demand", _DEMANDS)
def test_nothing_takes_less_than_what_is_recommended(demand: Demand, seed: int) -> None:
    """The recommendation has the least memory of all layouts with equal contexts and lanes."""
    costs = _costs(demand, seed)
    answer = search(demand, costs, Wish())
    able = (answer.today.layout.lanes, sum(demand.most))
    least = min(
        costs.predict(layout).npu_bytes or 0
        for layout in _every_layout(demand, costs)
        if (layout.lanes, layout.contexts) >= able
    )
    assert answer.recommended is not None
    assert answer.recommended.bytes == least


@pytest.mark.parametrize("with_frames", [False, True])
@pytest.mark.parametrize("demand", _DEMANDS)
def test_nothing_is_better_than_the_frontier(demand: Demand, with_frames: bool) -> None:
    """The frontier rises in memory and performance, and no layout beats it."""
    costs = _costs(demand, 5, with_frames)
    frontier = search(demand, costs, Wish()).frontier
    for low, high in zip(frontier, frontier[1:]):
        assert low.bytes < high.bytes
        assert low.able < high.able
    for layout in _every_layout(demand, costs):
        point = Candidate(layout, costs.predict(layout))
        as_good = [
            other
            for other in frontier
            if other.bytes <= point.bytes and _does_as_much(other, point)
        ]
        assert as_good


def _does_as_much(one: Candidate, other: Candidate) -> bool:
    return (
        all(mine >= theirs - 1e-9 for mine, theirs in zip(one.able, other.able))
        or one.able >= other.able
    )


def _frames(answer: Answer) -> float:
    assert answer.recommended is not None
    frames = answer.recommended.prediction.frames_per_s
    assert frames is not None
    return frames.median


def test_fewer_frames_need_less_memory() -> None:
    """With --fps just enough contexts are recommended; none if no layout does the frames."""
    demand = demand_of((4,))
    costs = _costs(demand, 1, with_frames=True)
    usual = search(demand, costs, Wish())
    per_stream = _frames(usual) / 4
    few = search(demand, costs, Wish(fps=per_stream / 3))
    assert few.recommended is not None
    assert usual.recommended is not None
    assert few.recommended.bytes < usual.recommended.bytes
    assert _frames(few) >= 4 * per_stream / 3 - 1e-9
    assert search(demand, costs, Wish(fps=per_stream * 3)).recommended is None


def test_frames_beside_other_work_refuse_no_layout() -> None:
    """The least that may infer as much at once is recommended, however many frames were wished."""
    demand = demand_of((4,), cores=2)
    costs = replace(_costs(demand, 1, with_frames=True), is_busy=True)
    wish = Wish(fps=1e6)
    assert search(demand, replace(costs, is_busy=False), wish).recommended is None
    answer = search(demand, costs, wish)
    at_once = [candidate for candidate in answer.candidates if candidate.layout.lanes == 2]
    assert answer.recommended == min(at_once, key=lambda candidate: candidate.bytes)
    assert answer.applied is not None


def test_the_limit_includes_the_uncertainty() -> None:
    """A layout that may exceed the limit does not fit, although its median is below."""
    layout = Layout((ContextGroup(0, NO_REUSE, (1,)),))
    point = Candidate(
        layout, Prediction(None, None, Figure(900.0, 50.0), None, Figure(100.0, 0.0), None)
    )
    assert [point.fits(limit) for limit in (None, 1050, 1049)] == [True, True, False]


def test_what_is_exactly_known_fits_to_the_byte() -> None:
    """Without uncertainty a layout fits a limit of its own size, but not one byte less."""
    demand = demand_of((2,))
    answer = search(demand, _costs(demand, 2), Wish())
    assert answer.recommended is not None
    size = round(answer.recommended.bytes)
    assert [answer.recommended.fits(limit) for limit in (None, size, size - 1)] == [
        True,
        True,
        False,
    ]


def test_one_process_on_a_cpu_has_one_form() -> None:
    """All models of a process have one form: memory common to several forms was not measured."""
    demand = demand_of((2, 2), cores=2, binds=False)
    answer = search(demand, _costs(demand, 3, with_frames=True), Wish())
    assert {len({group.form for group in point.layout.groups}) for point in answer.candidates} == {
        1
    }


@pytest.mark.parametrize("demand", _DEMANDS)
def test_what_is_applied_has_all_contexts_and_no_tensors_in_place(demand: Demand) -> None:
    """It has the least memory of the layouts that need no call of the program's own."""
    costs = _costs(demand, 6)
    answer = search(demand, costs, Wish())
    needs_none = [
        layout
        for layout in _every_layout(demand, costs)
        if not any(group.form.zero_copy for group in layout.groups)
        and tuple(group.count for group in sorted(layout.groups, key=lambda one: one.model))
        == demand.most
        and layout.lanes >= answer.today.layout.lanes
    ]
    assert answer.applied is not None
    assert answer.applied.bytes == min(
        costs.predict(layout).npu_bytes or 0 for layout in needs_none
    )


def test_weight_memory_is_applied_only_without_dups() -> None:
    """A runtime that has dups shares weights by them, if weight memory is smaller, too."""
    demand = demand_of((2,), cores=1)
    weight_memory = Form(SHARED_WEIGHT_MEMORY, shares_internal=True)
    sizes = {(0, NO_REUSE): (9, 9, 0, 0), (0, weight_memory): (5, 1, 1, 0)}
    mini = MadeUpCosts(sizes, 1, {}, {0: 1.0})
    applied = search(demand, mini, Wish()).applied
    assert applied is not None
    assert applied.layout.groups[0].form == weight_memory
    with_dups = MadeUpCosts({**sizes, (0, Form(DUP)): (6, 2, 0, 0)}, 1, {}, {0: 1.0})
    applied = search(demand, with_dups, Wish()).applied
    assert applied is not None
    assert applied.layout.groups[0].form == Form(DUP)


def test_threads_of_a_context_are_on_one_core_of_an_npu() -> None:
    """They take the least memory and infer in turn: not enough where three inferred at once."""
    demand = demand_of((6,))
    threads = Form(SHARED_CONTEXT)
    sizes = {(0, NO_REUSE): (9, 9, 0, 0), (0, threads): (9, 0, 0, 0)}
    costs = MadeUpCosts(sizes, demand.cores, {}, {0: 6.0})
    answer = search(demand, costs, Wish())
    assert answer.recommended is not None
    assert answer.recommended.layout == answer.today.layout
    lanes = set()
    for candidate in answer.candidates:
        (group,) = candidate.layout.groups
        if group.form == threads:
            lanes.add(candidate.layout.lanes)
    assert lanes == {1}
