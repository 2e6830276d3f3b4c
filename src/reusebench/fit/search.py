"""Every layout that could be the best: predicted, the frontier of memory against frames, and the
one to recommend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Optional, Protocol

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Demand, Form, Layout, spread
from reusebench.fit.prediction import Prediction

__all__ = ["Answer", "Candidate", "Costs", "Wish", "search"]

#: With more layouts than these the cores of each model are the first ones only.
_MOST_LAYOUTS = 100_000
#: Of frames: less is no difference that anybody would see.
_NO_LOSS = 0.05


class Costs(Protocol):
    """What predicts: NpuCosts or ProcessCosts."""

    def missing(self) -> list[Layout]:
        """Return what has to be measured next before anything can be predicted."""

    def unproven(self, layout: Layout) -> list[Layout]:
        """Return what has to be measured so that no form of the layout is composed of others."""

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms that are not known to be impossible."""

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return sizes in bytes: where none is larger than that of another form, no layout of it
        is.
        """

    def predict(self, layout: Layout) -> Prediction:
        """Return the prediction of a layout."""

    def least_bytes(self, layout: Layout) -> int | None:
        """Return what no layout of these contexts on these cores takes less than; None if that
        is not known.
        """


@dataclass(frozen=True)
class Wish:
    """What a layout must keep to."""

    #: None: there is no limit.
    limit_bytes: Optional[int] = None
    #: Of each stream; None: as many as without reuse.
    fps: Optional[float] = None


@dataclass(frozen=True)
class Candidate:
    """A layout with what it is predicted to be."""

    layout: Layout
    prediction: Prediction

    @property
    def bytes(self) -> float:
        """What layouts are compared by."""
        return self.prediction.steady.median

    @property
    def able(self) -> tuple[float, ...]:
        """What it does, larger is more: frames per second; where they are not known, contexts at
        once, and contexts.
        """
        frames = self.prediction.frames_per_s
        return (self.layout.lanes, self.layout.contexts) if frames is None else (frames.median,)

    def fits(self, limit_bytes: int | None) -> bool:
        """Whether it is within the limit, the uncertainty included."""
        limited = self.prediction.limited
        return limit_bytes is None or limited.median + (limited.spread or 0.0) <= limit_bytes


@dataclass(frozen=True)
class Answer:
    """What the search came to."""

    #: As the application is today: every context loaded, nothing shared.
    today: Candidate
    #: The least memory with the frames that are wished for, of what fits, or of all if nothing
    #: does; None: nothing has these frames.
    recommended: Optional[Candidate]
    #: No other layout has more frames in the same memory, or less memory with the same frames; by
    #: memory.
    frontier: tuple[Candidate, ...]
    points: tuple[Candidate, ...]
    #: What no layout of the recommended contexts takes less than.
    least_bytes: Optional[int]


def search(demand: Demand, costs: Costs, wish: Wish) -> Answer:
    """Return the answer, by predictions alone."""
    today = _today(demand)
    first = Candidate(today, costs.predict(today))
    points = [first]
    for layout in _layouts(demand, costs):
        points.append(Candidate(layout, costs.predict(layout)))
    enough = [point for point in points if _is_enough(point, first, demand, wish)]
    recommended = _recommended(
        [point for point in enough if point.fits(wish.limit_bytes)] or enough
    )
    return Answer(
        today=first,
        recommended=recommended,
        frontier=_frontier(points),
        points=tuple(points),
        least_bytes=costs.least_bytes(recommended.layout) if recommended else None,
    )


def _today(demand: Demand) -> Layout:
    """Return all contexts, on all cores in turn, none with anything of another."""
    groups: list[ContextGroup] = []
    placed = 0
    for model, count in enumerate(demand.most):
        cores = [(placed + index) % demand.cores for index in range(min(count, demand.cores))]
        groups.append(ContextGroup(model, NO_REUSE, spread(count, cores, demand.cores)))
        placed += count
    return Layout(tuple(groups))


def _is_enough(point: Candidate, today: Candidate, demand: Demand, wish: Wish) -> bool:
    """Whether a layout does what is wished for."""
    frames = point.prediction.frames_per_s
    usual = today.prediction.frames_per_s
    if frames is None or usual is None:
        return point.able >= today.able
    if wish.fps is not None:
        return frames.median >= wish.fps * sum(demand.streams)
    return frames.median + (frames.spread or 0.0) >= usual.median * (1 - _NO_LOSS) - (
        usual.spread or 0.0
    )


def _layouts(demand: Demand, costs: Costs) -> Iterator[Layout]:
    """Yield the layouts that no other one is better than in everything: forms that are never
    smaller are left out.
    """
    models = range(len(demand.models))
    forms = [_smallest(costs, model) for model in models]
    counts = [_counts(demand, most) for most in demand.most]
    cores = _core_sets(demand)
    size = 1
    for model in models:
        size *= len(forms[model]) * len(counts[model]) * len(cores)
    every = cores if size <= _MOST_LAYOUTS else cores[: demand.cores]
    order = _in_order(demand, costs)
    for chosen in product(*forms):
        if not _is_whole(demand, chosen):
            continue
        for count in product(*counts):
            yield from _placed(demand, order, chosen, count, every)


def _placed(
    demand: Demand,
    order: Sequence[int],
    forms: Sequence[Form],
    counts: Sequence[int],
    core_sets: Sequence[tuple[int, ...]],
) -> Iterator[Layout]:
    """Yield the ways to place the contexts on cores; which core is which makes no difference to the
    first model.
    """
    choices = []
    for model, count in enumerate(counts):
        # On a CPU the system places the contexts, and they were measured on all cores that they can
        # have.
        firsts = (
            core_sets[: demand.cores] if demand.binds else [core_sets[min(count, demand.cores) - 1]]
        )
        sets = core_sets if demand.binds and model else firsts
        choices.append([cores for cores in sets if len(cores) <= count])
    for chosen in product(*choices):
        groups = []
        for model in order:
            groups.append(
                ContextGroup(
                    model, forms[model], spread(counts[model], chosen[model], demand.cores)
                )
            )
        yield Layout(tuple(groups))


def _in_order(demand: Demand, costs: Costs) -> list[int]:
    """Return the models, the largest first: what is shared has the size that its first user
    needs.
    """
    order = sorted(range(len(demand.models)), key=lambda model: -sum(costs.sizes(model, NO_REUSE)))
    # The first has the weights that the others may have too.
    return sorted(order, key=bool) if demand.are_resolutions else order


def _smallest(costs: Costs, model: int) -> list[Form]:
    """Return the forms that are smaller than every other in some size; of equal ones the
    plainest.
    """
    sizes = {form: costs.sizes(model, form) for form in costs.forms(model)}
    kept: list[Form] = []
    for form, own in sizes.items():
        others = [
            other
            for other in sizes
            if other != form and all(a <= b for a, b in zip(sizes[other], own))
        ]
        if all(
            sizes[other] == own and list(sizes).index(other) > list(sizes).index(form)
            for other in others
        ):
            kept.append(form)
    return kept


def _counts(demand: Demand, most: int) -> list[int]:
    """Return how many contexts a model may have; of several models none between the number of cores
    and all.

    Contexts beyond the cores only wait for each other.
    """
    return sorted(
        {*range(1, (min(demand.cores, most) if len(demand.models) > 1 else most) + 1), most}
    )


def _core_sets(demand: Demand) -> list[tuple[int, ...]]:
    """Return sets of cores: first those of the first ones, from one to all; then the others."""
    firsts = [tuple(range(size)) for size in range(1, demand.cores + 1)]
    every = [
        cores
        for size in range(1, demand.cores + 1)
        for cores in combinations(range(demand.cores), size)
    ]
    return firsts + [cores for cores in every if cores not in firsts]


def _is_whole(demand: Demand, forms: Sequence[Form]) -> bool:
    """Whether a process of a CPU has one form: what several have in common was measured with
    one.
    """
    return demand.binds or len(set(forms)) == 1


def _recommended(points: Sequence[Candidate]) -> Candidate | None:
    """Return the point of the least memory; of those that cannot be told from it the one that does
    most.
    """
    least = min(points, key=_order, default=None)
    if least is None:
        return None
    uncertainty = least.prediction.steady.spread
    if not uncertainty:
        return least
    alike = [point for point in points if point.bytes - least.bytes <= uncertainty]
    return max(alike, key=lambda point: point.able)


def _order(point: Candidate) -> tuple[float, ...]:
    """Return what points are sorted by: less memory first, of equal memory what does more."""
    return (point.bytes, *(-amount for amount in point.able))


def _frontier(points: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the points by memory, without those that take more and do no more."""
    frontier: list[Candidate] = []
    # Of equal ones the first stays, which is the plainest.
    for point in sorted(points, key=_order):
        if not frontier or point.able > frontier[-1].able:
            frontier.append(point)
    return tuple(frontier)
