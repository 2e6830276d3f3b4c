"""The Plan: plain data that says which contexts to make, who reuses what from whom, and how they run.

A Plan crosses the process boundary as JSON, so this module runs in the harness and in the measured
process: standard library only, Python 3.8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

__all__ = ["DUP", "LOAD", "SHARED_CONTEXT", "Context", "InvalidPlan", "Model", "Plan", "Step"]

#: The context is made from the model, and reuses nothing.
LOAD = "load"
#: A further context over the weights of its source, with internal memory of its own (rknn_dup_context).
DUP = "dup"
#: No further context: the source itself is run from one more thread.
SHARED_CONTEXT = "shared_context"

_MECHANISMS = (LOAD, DUP, SHARED_CONTEXT)


class InvalidPlan(ValueError):
    """The plan contradicts itself; the message names the context and what would be valid."""


@dataclass(frozen=True)
class Model:
    """A model file that contexts are made from."""

    #: What tables call it.
    name: str
    #: Absolute path of the file.
    path: str
    #: SHA-256 of the file and of the external data it names: equal digests are equal models.
    digest: str
    #: What the runtime made from the file beforehand so that its weights can be shared, if it needs that.
    prepared: Optional[str] = None


@dataclass(frozen=True)
class Context:
    """One context of a plan."""

    #: The stream whose frames it serves, counted from 0.
    stream: int
    #: Index into Plan.models.
    model: int
    #: LOAD, DUP or SHARED_CONTEXT.
    mechanism: str = LOAD
    #: Index into Plan.contexts of the context that it reuses; None for LOAD.
    source: Optional[int] = None


class Step(NamedTuple):
    """One step of a walk; the process stops at a barrier after it."""

    #: "imported", "context", "first_inference", "steady" or "destroy".
    phase: str
    #: Index into Plan.contexts where the step is of one context.
    context: Optional[int] = None


@dataclass(frozen=True)
class Plan:
    """What one measured process does: make the contexts in order, run them, destroy them in reverse order."""

    scenario: str
    #: The scenario with the same models and no reuse, which a saving is taken against; None for a baseline.
    baseline: Optional[str]
    runtime: str
    models: Tuple[Model, ...]
    contexts: Tuple[Context, ...]
    #: At most so many contexts infer at once; each runs on a thread of its own.
    cores: int
    #: Timed inferences of each context in the steady phase.
    rounds: int

    def __post_init__(self) -> None:
        """Refuse a plan that no runtime could walk."""
        if self.cores < 1 or self.rounds < 1:
            raise InvalidPlan(f"cores ({self.cores}) and rounds ({self.rounds}) must be 1 or more")
        for index, context in enumerate(self.contexts):
            self._check_context(index, context)

    def _check_context(self, index: int, context: Context) -> None:
        where = f"context {index} of scenario {self.scenario!r}"
        if context.mechanism not in _MECHANISMS:
            raise InvalidPlan(f"{where}: unknown mechanism {context.mechanism!r}; valid: {', '.join(_MECHANISMS)}")
        if not 0 <= context.model < len(self.models):
            raise InvalidPlan(f"{where}: model {context.model} is not among the plan's {len(self.models)} models")
        if context.mechanism == LOAD:
            if context.source is not None:
                raise InvalidPlan(f"{where}: a loaded context has no source; leave source out or make it a dup")
            return
        if context.source is None or not 0 <= context.source < index:
            raise InvalidPlan(f"{where}: its source must be a context made before it, not {context.source}")
        source = self.contexts[context.source]
        if source.model != context.model:
            raise InvalidPlan(f"{where}: its source uses another model; reuse needs the same model")
        if source.mechanism != LOAD:
            raise InvalidPlan(f"{where}: its source must be a loaded context, not a {source.mechanism}")

    def shares_weights(self, index: int) -> bool:
        """Whether the weights of this context are also those of another one by DUP."""
        if self.contexts[index].mechanism == DUP:
            return True
        return any(other.mechanism == DUP and other.source == index for other in self.contexts)

    def steps(self) -> Iterator[Step]:
        """Yield the steps of a walk in order; contexts are destroyed last made first, so a dup before its source."""
        indices = range(len(self.contexts))
        yield Step("imported")
        yield from (Step("context", index) for index in indices)
        yield from (Step("first_inference", index) for index in indices)
        if self.contexts:
            yield Step("steady")
        yield from (Step("destroy", index) for index in reversed(indices))

    def to_json(self) -> Dict[str, Any]:
        """Return the plan as what the json module writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> Plan:
        """Return the plan that to_json gave."""
        fields = dict(data)
        fields["models"] = tuple(Model(**model) for model in data["models"])
        fields["contexts"] = tuple(Context(**context) for context in data["contexts"])
        return cls(**fields)
