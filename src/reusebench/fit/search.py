"""The search for the best layout by predictions: the frontier of memory and frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Optional, Protocol

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Demand, Form, Layout, spread
from reusebench.fit.prediction import Prediction
from reusebench.measured.plan import (
    DUP,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
)

__all__ = ["Answer", "Candidate", "Costs", "Wish", "search"]

#: Limit of layouts; beyond it, each model runs on the first cores only, not on any set of cores.
_MOST_LAYOUTS = 100_000
#: Share of frames; nobody would notice a smaller loss.
_NO_LOSS = 0.05


class Costs(Protocol):
    """The source of predictions: NpuCosts or ProcessCosts."""

    def missing(self) -> list[Layout]:
        """Return the layouts to measure next before anything can be predicted."""

    def unproven(self, layout: Layout) -> list[Layout]:
        """Return the layouts to measure so that every form of `layout` was measured as a whole."""

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms that are not known to be impossible."""

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return sizes in bytes that compare forms.

        If none of them exceeds another form's, no layout of this form is larger either.
        """

    def predict(self, layout: Layout) -> Prediction:
        """Return the prediction of a layout."""

    def least_bytes(self, layout: Layout) -> int | None:
        """Return a lower bound for all layouts of these contexts and cores; None if unknown."""


@dataclass(frozen=True)
class Wish:
    """The requirements of a layout."""

    #: None: no limit.
    limit_bytes: Optional[int] = None
    #: Frames per second of each stream; None: as many as without reuse.
    fps: Optional[float] = None
    #: The file of a control group's limit that gave limit_bytes; None if no group decided.
    limit_source: Optional[str] = None


@dataclass(frozen=True)
class Candidate:
    """A layout with its prediction."""

    layout: Layout
    prediction: Prediction

    @property
    def bytes(self) -> float:
        """The figure that layouts are compared by."""
        return self.prediction.steady.median

    @property
    def able(self) -> tuple[float, ...]:
        """The performance, to compare: frames per second, or parallel contexts and contexts."""
        frames = self.prediction.frames_per_s
        if frames is None:
            return (self.layout.lanes, self.layout.contexts)
        return (frames.median,)

    def fits(self, limit_bytes: int | None) -> bool:
        """Whether the layout is within the limit, including the uncertainty."""
        limited = self.prediction.limited
        return limit_bytes is None or limited.median + (limited.spread or 0.0) <= limit_bytes


@dataclass(frozen=True)
class Answer:
    """The result of a search."""

    #: The application as it is today: every context loaded, nothing shared.
    today: Candidate
    #: The candidate with the least memory of those that do the wished frames and fit, or, if none
    #: fits, of those that do the frames. None if there are none.
    recommended: Optional[Candidate]
    #: The candidate with the least memory of the same ones, whose uncertainty the recommended one
    #: is within; None if there are none.
    least: Optional[Candidate]
    #: Candidates that no other beats in both memory and frames, by memory.
    frontier: tuple[Candidate, ...]
    candidates: tuple[Candidate, ...]
    #: Lower bound for all layouts of the recommended contexts.
    least_bytes: Optional[int]
    #: The one with the least memory of those that `reusebench apply` gives to a program that nobody
    #: changes, which makes all its contexts; None if none of them does the frames.
    applied: Optional[Candidate] = None


def search(demand: Demand, costs: Costs, wish: Wish) -> Answer:
    """Return the answer, by predictions only."""
    layout_today = _layout_today(demand)
    today = Candidate(layout_today, costs.predict(layout_today))
    candidates = [today]
    forms = [list(costs.forms(model)) for model in range(len(demand.models))]
    counts = [_counts(demand, most) for most in demand.most]
    for layout in _layouts(demand, costs, forms, counts):
        candidates.append(Candidate(layout, costs.predict(layout)))

    enough = [candidate for candidate in candidates if _is_enough(candidate, today, demand, wish)]
    fitting = [candidate for candidate in enough if candidate.fits(wish.limit_bytes)]
    least = min(fitting or enough, key=_order, default=None)
    recommended = _recommended(fitting or enough, least) if least else None
    return Answer(
        today=today,
        recommended=recommended,
        least=least,
        frontier=_frontier(candidates),
        candidates=tuple(candidates),
        least_bytes=costs.least_bytes(recommended.layout) if recommended else None,
        applied=_applied(demand, costs, wish, today),
    )


def _applied(demand: Demand, costs: Costs, wish: Wish, today: Candidate) -> Candidate | None:
    """Return Answer.applied."""
    forms = [_applicable(list(costs.forms(model))) for model in range(len(demand.models))]
    counts = [[most] for most in demand.most]
    enough = []
    for layout in _layouts(demand, costs, forms, counts):
        candidate = Candidate(layout, costs.predict(layout))
        if _is_enough(candidate, today, demand, wish):
            enough.append(candidate)
    fitting = [candidate for candidate in enough if candidate.fits(wish.limit_bytes)]
    return min(fitting or enough, key=_order, default=None)


def _applicable(forms: Sequence[Form]) -> list[Form]:
    """Return the forms that need no call of the program's own.

    Weights are shared by dups; by weight memory only if the runtime has no dups.
    """
    has_dups = any(form.mechanism == DUP for form in forms)
    applicable = []
    for form in forms:
        is_own = form.zero_copy or form.outside or form.mechanism == SHARED_WEIGHTS
        is_instead = has_dups and form.mechanism == SHARED_WEIGHT_MEMORY
        if not (is_own or is_instead):
            applicable.append(form)
    return applicable


def _layout_today(demand: Demand) -> Layout:
    """Return the layout of all contexts on all cores in turn, without any reuse."""
    groups: list[ContextGroup] = []
    placed = 0
    for model, count in enumerate(demand.most):
        cores = [(placed + index) % demand.cores for index in range(min(count, demand.cores))]
        groups.append(ContextGroup(model, NO_REUSE, spread(count, cores, demand.cores)))
        placed += count
    return Layout(tuple(groups))


def _is_enough(candidate: Candidate, today: Candidate, demand: Demand, wish: Wish) -> bool:
    """Whether a candidate does the wished frames.

    Frames that were measured beside other work refuse no layout: as many contexts as today must be
    able to infer at once.
    """
    frames = candidate.prediction.frames_per_s
    frames_today = today.prediction.frames_per_s
    if frames is None or frames_today is None:
        return candidate.able >= today.able
    if today.prediction.is_busy:
        return candidate.layout.lanes >= today.layout.lanes
    if wish.fps is not None:
        return frames.median >= wish.fps * sum(demand.streams)
    needed = frames_today.median * (1 - _NO_LOSS) - (frames_today.spread or 0.0)
    return frames.median + (frames.spread or 0.0) >= needed


def _layouts(
    demand: Demand, costs: Costs, possible: Sequence[list[Form]], counts: Sequence[list[int]]
) -> Iterator[Layout]:
    """Yield all layouts that may be the best: forms that are never smaller are left out.

    `possible` and `counts` have the forms, and numbers of contexts, of each model.
    """
    forms = [_smallest_forms(costs, model, possible[model]) for model in range(len(possible))]
    core_sets = _core_sets(demand)
    layout_count = prod(
        len(forms_of_model) * len(counts_of_model) * len(core_sets)
        for forms_of_model, counts_of_model in zip(forms, counts)
    )
    if layout_count > _MOST_LAYOUTS:
        core_sets = core_sets[: demand.cores]

    order = _in_order(demand, costs)
    for chosen_forms in product(*forms):
        # Models in one process on a CPU have one form: their common memory was measured with one.
        if not demand.binds and len(set(chosen_forms)) > 1:
            continue
        for chosen_counts in product(*counts):
            yield from _placed(demand, order, chosen_forms, chosen_counts, core_sets)


def _placed(
    demand: Demand,
    order: Sequence[int],
    forms: Sequence[Form],
    counts: Sequence[int],
    core_sets: Sequence[tuple[int, ...]],
) -> Iterator[Layout]:
    """Yield the ways to place the contexts on sets of cores."""
    choices = []
    for model, count in enumerate(counts):
        if not demand.binds:
            # The system places contexts on a CPU; they were measured on all cores they can have.
            sets = [core_sets[min(count, demand.cores) - 1]]
        elif model == 0:
            # Cores are equal, so the first model may as well have the first ones.
            sets = list(core_sets[: demand.cores])
        else:
            sets = list(core_sets)
        if demand.binds and forms[model].mechanism == SHARED_CONTEXT:
            # A core runs one inference of a context at a time.
            sets = [cores for cores in sets if len(cores) == 1]
        choices.append([cores for cores in sets if len(cores) <= count])

    for chosen in product(*choices):
        groups = []
        for model in order:
            per_core = spread(counts[model], chosen[model], demand.cores)
            groups.append(ContextGroup(model, forms[model], per_core))
        yield Layout(tuple(groups))


def _in_order(demand: Demand, costs: Costs) -> list[int]:
    """Return the models, largest first: shared memory has the size that its first user needs."""
    order = sorted(range(len(demand.models)), key=lambda model: -sum(costs.sizes(model, NO_REUSE)))
    if demand.are_resolutions:
        # The first model has the weights that the others may share.
        order.sort(key=bool)
    return order


def _smallest_forms(costs: Costs, model: int, forms: Sequence[Form]) -> list[Form]:
    """Return the forms that no other form beats; the plainest of equal ones."""
    sizes = {form: costs.sizes(model, form) for form in forms}
    ranks = {form: rank for rank, form in enumerate(sizes)}

    def beats(other: Form, form: Form) -> bool:
        if sizes[other] == sizes[form]:
            return ranks[other] < ranks[form]
        return all(size <= own for size, own in zip(sizes[other], sizes[form]))

    return [form for form in sizes if not any(beats(other, form) for other in sizes)]


def _counts(demand: Demand, most: int) -> list[int]:
    """Return the numbers of contexts to try for a model.

    With several models, numbers between that of the cores and `most` are left out: contexts beyond
    the cores only wait for each other.
    """
    highest = most if len(demand.models) == 1 else min(demand.cores, most)
    return sorted({*range(1, highest + 1), most})


def _core_sets(demand: Demand) -> list[tuple[int, ...]]:
    """Return all sets of cores; the sets of the first one, two and so on stand at the start."""
    sizes = range(1, demand.cores + 1)
    core_sets = [tuple(range(size)) for size in sizes]
    for size in sizes:
        for cores in combinations(range(demand.cores), size):
            if cores not in core_sets:
                core_sets.append(cores)
    return core_sets


def _recommended(candidates: Sequence[Candidate], least: Candidate) -> Candidate:
    """Return the candidate with the least memory; within its uncertainty, the most able one."""
    uncertainty = least.prediction.steady.spread
    if not uncertainty:
        return least
    alike = [candidate for candidate in candidates if candidate.bytes - least.bytes <= uncertainty]
    return max(alike, key=lambda candidate: candidate.able)


def _order(candidate: Candidate) -> tuple[float, ...]:
    """Return the sort key: less memory first, then better performance."""
    return (candidate.bytes, *(-amount for amount in candidate.able))


def _frontier(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates by memory, without those that take more and do no more."""
    frontier: list[Candidate] = []
    # The first of equal candidates stays, which is the plainest.
    for candidate in sorted(candidates, key=_order):
        if not frontier or candidate.able > frontier[-1].able:
            frontier.append(candidate)
    return tuple(frontier)
