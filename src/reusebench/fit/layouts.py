"""Layouts: the contexts of each model, their cores and their reuse, and the Plan of a layout."""

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
    """The workload to plan for: models, streams and runtime."""

    runtime: str
    models: tuple[Model, ...]
    #: Number of streams per model.
    streams: tuple[int, ...]
    #: Contexts per stream, at most.
    contexts: int
    #: Number of contexts that may infer at once.
    cores: int
    #: Whether contexts are bound to cores, as on an NPU.
    binds: bool
    #: Whether the models are resolutions of one network; all may then have the first one's weights.
    are_resolutions: bool = False
    #: Scenarios whose mechanism the runtime lacks for every model, which need no measurement.
    lacks: frozenset[str] = frozenset()

    @property
    def most(self) -> tuple[int, ...]:
        """The largest number of contexts per model."""
        return tuple(streams * self.contexts for streams in self.streams)


@dataclass(frozen=True)
class Form:
    """The reuse among the contexts of one model."""

    #: One of plan.MECHANISMS, for the contexts after the first. SHARED_WEIGHTS is for all contexts;
    #: their source is the first context of the first model.
    mechanism: str = LOAD
    #: Whether the contexts of a core share internal memory.
    shares_internal: bool = False
    #: Tensors in place, as in Context.
    zero_copy: tuple[str, ...] = ()
    #: Whether the contexts of a core have these tensors in one memory.
    shares_io: bool = False
    #: Dups only: whether the application allocates weights and internal memory of the first
    #: context. The library then needs less memory of its own for it.
    outside: bool = False

    @property
    def has_weights_outside(self) -> bool:
        """Whether the application allocates the first context's weights, and internal memory."""
        return self.outside or self.mechanism == SHARED_WEIGHT_MEMORY

    @property
    def needs_cores(self) -> bool:
        """Whether contexts share memory that only contexts running in turn can share."""
        return self.shares_internal or self.shares_io


NO_REUSE = Form()


@dataclass(frozen=True)
class ContextGroup:
    """The contexts of one model."""

    #: Index into Demand.models.
    model: int
    form: Form
    #: Number of contexts on each core.
    per_core: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of contexts."""
        return sum(self.per_core)

    @property
    def cores(self) -> int:
        """The number of cores that run at least one context."""
        return sum(bool(count) for count in self.per_core)


@dataclass(frozen=True)
class Layout:
    """The groups, in the order in which their contexts are made."""

    groups: tuple[ContextGroup, ...]

    @property
    def contexts(self) -> int:
        """The number of contexts."""
        return sum(group.count for group in self.groups)

    @property
    def lanes(self) -> int:
        """The number of cores with a context, and so of contexts that may infer at once."""
        per_core = [group.per_core for group in self.groups]
        return sum(any(counts) for counts in zip(*per_core))


def spread(count: int, cores: Sequence[int], core_count: int) -> tuple[int, ...]:
    """Return the number of contexts on each core, if `cores` take `count` contexts in turn."""
    per_core = [0] * core_count
    for index in range(count):
        per_core[cores[index % len(cores)]] += 1
    return tuple(per_core)


def plan_of(layout: Layout, demand: Demand, name: str, rounds: int) -> Plan:
    """Return the plan of a layout, with the models that it uses; contexts run `rounds` times each.

    A group that shares the weights of the first model must follow the first model's group.
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
    """Return the context with this index in the plan; it is loaded if it is its own lender."""
    mechanism = LOAD if lender == index else form.mechanism
    is_loaded = mechanism == LOAD
    outside: list[str] = []
    if form.has_weights_outside and is_loaded:
        outside.append(WEIGHTS)
    if form.has_weights_outside and not form.shares_internal:
        outside.append(INTERNAL)
    return Context(
        stream=None,
        model=model,
        mechanism=mechanism,
        source=None if is_loaded else lender,
        outside=tuple(outside),
        zero_copy=form.zero_copy,
    )


def _on_core(context: Context, form: Form, core: int, io: int) -> Context:
    """Return the context bound to a core; `io` is the number of a shared memory for tensors."""
    return replace(
        context,
        core=core,
        internal=core if form.shares_internal else None,
        io=io if form.shares_io else None,
    )
