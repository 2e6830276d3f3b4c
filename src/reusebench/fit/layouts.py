"""A layout: how many contexts each model has, on which cores, and what they reuse; and the Plan
that it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reusebench.measured.plan import (
    INTERNAL,
    LOAD,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)

__all__ = ["NO_REUSE", "ContextGroup", "Demand", "Form", "Layout", "plan_of", "spread"]


@dataclass(frozen=True)
class Demand:
    """What is to be served, and by what."""

    runtime: str
    models: tuple[Model, ...]
    #: How many streams each of the models serves.
    streams: tuple[int, ...]
    #: How many contexts a stream has at most.
    contexts: int
    #: At most so many contexts infer at once.
    cores: int
    #: Whether contexts are bound to cores, as on an NPU.
    binds: bool
    #: Whether the models are resolutions of one network, whose first has the weights that the
    #: others may have too.
    are_resolutions: bool = False

    @property
    def most(self) -> tuple[int, ...]:
        """How many contexts each model has at most."""
        return tuple(streams * self.contexts for streams in self.streams)


@dataclass(frozen=True)
class Form:
    """What the contexts of one model reuse."""

    #: Of the contexts after the first, one of scenarios.plan.MECHANISMS; of all of them where it is
    #: SHARED_WEIGHTS, whose source is the first context of the first model.
    mechanism: str = LOAD
    #: Whether they have one internal memory with the other contexts of their core.
    shares_internal: bool = False
    #: As in Context.
    zero_copy: tuple[str, ...] = ()
    #: Whether those of one core have these tensors in one memory.
    shares_io: bool = False
    #: Of dups: whether the first context's weights, and internal memory, are the application's. The
    #: library then has less of its own for the first one than where it allocates them.
    outside: bool = False

    @property
    def has_weights_outside(self) -> bool:
        """Whether the first context's weights are in memory of the application; internal memory
        then is too.
        """
        return self.outside or self.mechanism == SHARED_WEIGHT_MEMORY

    @property
    def needs_cores(self) -> bool:
        """Whether contexts share what only contexts that run in turn can share."""
        return self.shares_internal or self.shares_io


NO_REUSE = Form()


@dataclass(frozen=True)
class ContextGroup:
    """The contexts of one model."""

    #: Index into Demand.models.
    model: int
    form: Form
    #: How many of them each core runs.
    per_core: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.per_core)

    @property
    def cores(self) -> int:
        """How many cores run one of them."""
        return sum(bool(count) for count in self.per_core)


@dataclass(frozen=True)
class Layout:
    """The groups, in the order in which their contexts are made."""

    groups: tuple[ContextGroup, ...]

    @property
    def contexts(self) -> int:
        """How many contexts there are."""
        return sum(group.count for group in self.groups)

    @property
    def lanes(self) -> int:
        """How many cores run a context, which is how many contexts may infer at once."""
        return sum(any(counts) for counts in zip(*(group.per_core for group in self.groups)))


def spread(count: int, cores: Sequence[int], of: int) -> tuple[int, ...]:
    """Return how many of `count` contexts each of `of` cores runs where these cores take them in
    turn.
    """
    per_core = [0] * of
    for index in range(count):
        per_core[cores[index % len(cores)]] += 1
    return tuple(per_core)


def plan_of(layout: Layout, demand: Demand, name: str, rounds: int) -> Plan:
    """Return the plan of a layout, whose contexts run `rounds` times each; it has the models that
    are used.

    A group whose weights are those of the first model stands behind that one's.
    """
    cores = len(layout.groups[0].per_core)
    has_cores = demand.binds or any(group.form.needs_cores for group in layout.groups)
    models = sorted({group.model for group in layout.groups})
    contexts: list[Context] = []
    first_of_model: dict[int, int] = {}
    for number, group in enumerate(layout.groups):
        for core in _cores_in_turn(group.per_core):
            first = first_of_model.setdefault(group.model, len(contexts))
            lender = first_of_model[0] if group.form.mechanism == SHARED_WEIGHTS else first
            context = _context(group.form, models.index(group.model), lender, len(contexts))
            if has_cores:
                context = _on_core(context, group.form, core, number * cores + core)
            contexts.append(context)
    return Plan(
        scenario=name,
        baseline=None,
        runtime=demand.runtime,
        models=tuple(demand.models[model] for model in models),
        contexts=tuple(contexts),
        cores=cores,
        rounds=rounds,
    )


def _cores_in_turn(per_core: Sequence[int]) -> Iterator[int]:
    """Yield the core of each context, as the cores take them in turn."""
    for turn in range(max(per_core)):
        for core, count in enumerate(per_core):
            if turn < count:
                yield core


def _context(form: Form, model: int, lender: int, index: int) -> Context:
    mechanism = LOAD if lender == index else form.mechanism
    outside: tuple[str, ...] = ()
    if form.has_weights_outside:
        outside = (WEIGHTS,) if mechanism == LOAD else ()
        outside += () if form.shares_internal else (INTERNAL,)
    return Context(
        stream=None,
        model=model,
        mechanism=mechanism,
        source=None if mechanism == LOAD else lender,
        outside=outside,
        zero_copy=form.zero_copy,
    )


def _on_core(context: Context, form: Form, core: int, io: int) -> Context:
    """Return the context bound to a core, with what it shares there; `io` is the number of its
    tensors' memory.
    """
    internal = core if form.shares_internal else None
    return replace(context, core=core, internal=internal, io=io if form.shares_io else None)
