"""Plans of several models: what a program says of one context by the number of another one can be
wrong in these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Optional

from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    MODEL,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)

__all__ = [
    "FIRST",
    "FREE",
    "LARGE",
    "PLANS",
    "SECOND",
    "SIZES",
    "ModelFile",
    "SeveralModels",
    "put_together",
]

#: Files: two of one size with different weights, the first one's network at another size, and that
#: with free sizes.
FIRST = "first"
SECOND = "second"
LARGE = "large"
FREE = "free"
#: Sizes in pixels: of the first two, and of the third.
SIZES = (64, 96)


class ModelFile(NamedTuple):
    """A model of a plan."""

    #: One of the files above.
    file: str
    #: Height and width, if the plan names them.
    size: Optional[int] = None


_FILES = (ModelFile(FIRST), ModelFile(SECOND), ModelFile(LARGE))
#: Numbers of models, in these and in other files.
_A, _B, _C = range(3)


class SeveralModels(NamedTuple):
    """A plan of any runtime."""

    contexts: tuple[Context, ...]
    cores: int = 1
    chains: tuple[tuple[int, ...], ...] = ()
    models: tuple[ModelFile, ...] = _FILES

    def files(self) -> set[str]:
        """Return the files that it needs."""
        return {model.file for model in self.models}

    def plan(self, scenario: str, runtime: str, models: Mapping[ModelFile, Model]) -> Plan:
        """Return it over these models."""
        own = tuple(models[model] for model in self.models)
        return Plan(
            scenario, None, runtime, own, self.contexts, self.cores, rounds=2, chains=self.chains
        )


def _load(model: int, **memory: Any) -> Context:
    return Context(0, model, **memory)


def _dup(model: int, source: int, **memory: Any) -> Context:
    return Context(0, model, DUP, source, **memory)


def _on_core(core: int) -> dict[str, Any]:
    """Return the fields of a context on a core: its contexts run in turn, with one internal
    memory.
    """
    return {"core": core, "internal": core}


def _lean(core: int, tensors: int) -> dict[str, Any]:
    """Return the same of contexts that have their tensors in place, in the memory of that
    number.
    """
    return {**_on_core(core), "zero_copy": (INPUT, OUTPUT), "io": tensors}


_IN_PLACE = {"zero_copy": (INPUT, OUTPUT)}

PLANS = {
    "dups_before_another_load": SeveralModels(
        (_load(_A), _load(_B), _dup(_B, 1), _dup(_B, 1), _load(_A))
    ),
    "a_dup_at_the_end": SeveralModels((_load(_A), _load(_B), _dup(_B, 1))),
    "the_second_model_is_first": SeveralModels(
        (_load(_B), _dup(_B, 0), _load(_A), _load(_B), _dup(_A, 2))
    ),
    "dups_crosswise": SeveralModels((_load(_A), _load(_B), _dup(_B, 1), _dup(_A, 0)), cores=2),
    "three_models": SeveralModels(
        (_load(_C), _load(_A), _dup(_A, 1), _load(_B), _dup(_C, 0), _dup(_B, 3), _load(_A)), cores=2
    ),
    "shared_contexts": SeveralModels(
        (
            _load(_A),
            _load(_B),
            Context(0, _B, SHARED_CONTEXT, 1),
            Context(0, _A, SHARED_CONTEXT, 0),
            _load(_C),
            _dup(_C, 4),
        ),
        cores=2,
    ),
    "resolutions": SeveralModels(
        (
            _load(_B),
            _load(_A),
            Context(0, _C, SHARED_WEIGHTS, 1),
            _dup(_B, 0),
            _load(_C),
            _dup(_A, 1),
        )
    ),
    "one_internal_memory": SeveralModels(
        (
            _load(_C, **_on_core(0)),
            _load(_B, **_on_core(0)),
            _dup(_B, 1, **_on_core(0)),
            _load(_A, **_on_core(0)),
            _dup(_C, 0, **_on_core(0)),
        )
    ),
    "internal_memories": SeveralModels(
        (
            _load(_A, **_on_core(0)),
            _load(_B, **_on_core(1)),
            _dup(_B, 1, **_on_core(0)),
            _dup(_A, 0, **_on_core(1)),
            _load(_A, core=1),
            _load(_B, **_on_core(0)),
        ),
        cores=2,
    ),
    "weights_outside": SeveralModels(
        (
            _load(_A),
            _load(_B, outside=(WEIGHTS,)),
            _load(_C),
            _dup(_C, 2),
            _load(_A, outside=(WEIGHTS,)),
        )
    ),
    "weight_memory": SeveralModels(
        (
            _load(_A),
            _load(_B, outside=(WEIGHTS,)),
            Context(0, _B, SHARED_WEIGHT_MEMORY, 1),
            _dup(_A, 0),
            _load(_A),
        )
    ),
    "memory_outside": SeveralModels(
        (
            _load(_A),
            _load(_B, outside=(WEIGHTS, INTERNAL)),
            _dup(_A, 0, outside=(INTERNAL,)),
            Context(0, _B, SHARED_WEIGHT_MEMORY, 1, outside=(INTERNAL,)),
            _load(_A, outside=(INTERNAL,)),
        )
    ),
    "internal_outside": SeveralModels(
        (
            _load(_A),
            _load(_B, outside=(INTERNAL,)),
            _dup(_B, 1),
            _dup(_A, 0, outside=(INTERNAL,)),
            _load(_A),
        )
    ),
    "models_in_place": SeveralModels(
        (
            _load(_A, zero_copy=(MODEL,)),
            _load(_B, zero_copy=(MODEL,)),
            _dup(_B, 1),
            _dup(_A, 0),
            _load(_A),
        )
    ),
    "tensors_in_place": SeveralModels(
        (
            _load(_A),
            _load(_B, **_IN_PLACE),
            _dup(_B, 1, zero_copy=(INPUT,)),
            _dup(_A, 0, zero_copy=(OUTPUT,)),
            _load(_C, **_IN_PLACE),
            _load(_A, zero_copy=(INPUT,)),
        ),
        cores=2,
    ),
    "outputs_in_place": SeveralModels(
        (
            _load(_A),
            _load(_B, zero_copy=(OUTPUT,)),
            _dup(_B, 1, zero_copy=(OUTPUT,)),
            _dup(_A, 0),
            _load(_C),
        ),
        cores=2,
    ),
    "chains": SeveralModels(
        (
            _load(_A, internal=5),
            _load(_B, internal=5),
            _dup(_A, 0, internal=2),
            _dup(_B, 1, internal=2),
            _load(_C),
        ),
        cores=2,
        chains=((1, 0), (2, 3)),
    ),
    "chains_without_memory": SeveralModels(
        (_load(_A), _load(_B), _dup(_B, 1), _dup(_A, 0), _load(_C)),
        cores=2,
        chains=((1, 0), (2, 3)),
    ),
    "lean": SeveralModels(
        (
            _load(_A, **_lean(0, tensors=0)),
            _load(_B, **_lean(0, tensors=1)),
            _dup(_B, 1, **_lean(1, tensors=2)),
            _dup(_A, 0, **_lean(1, tensors=3)),
            _dup(_B, 1, **_lean(0, tensors=1)),
            _dup(_A, 0, **_lean(1, tensors=3)),
        ),
        cores=2,
    ),
    "named_sizes": SeveralModels(
        (_load(_A), _load(_B), _dup(_B, 1), _dup(_A, 0), _load(_C)),
        models=(ModelFile(FREE, SIZES[0]), ModelFile(SECOND), ModelFile(LARGE, SIZES[1])),
    ),
    "one_file_in_place": SeveralModels(
        (
            _load(_A),
            _load(_B, **_IN_PLACE),
            _dup(_B, 1),
            _dup(_A, 0, zero_copy=(OUTPUT,)),
            _load(_C),
        ),
        models=(ModelFile(FREE, SIZES[0]), ModelFile(FREE, SIZES[1]), ModelFile(SECOND)),
    ),
    "one_file_at_two_sizes": SeveralModels(
        (_load(_A), _load(_B), _dup(_B, 1), _dup(_A, 0), _load(_C)),
        models=(ModelFile(FREE, SIZES[0]), ModelFile(FREE, SIZES[1]), ModelFile(SECOND)),
    ),
}


def put_together(plans: Sequence[Plan]) -> Plan:
    """Return a plan with the contexts of all plans, which share nothing but the cores."""
    models: list[Model] = []
    contexts: list[Context] = []
    chains: list[tuple[int, ...]] = []
    for plan in plans:
        first = len(contexts)
        # Above every number of an internal memory, and of memory for tensors.
        memories = 100 * len(contexts)
        for context in plan.contexts:
            contexts.append(
                replace(
                    context,
                    model=context.model + len(models),
                    source=_moved(context.source, first),
                    internal=_moved(context.internal, memories),
                    io=_moved(context.io, memories),
                )
            )
        chains += [tuple(index + first for index in chain) for chain in plan.chains]
        models += plan.models
    cores = max(plan.cores for plan in plans)
    return replace(
        plans[0],
        scenario="all",
        models=tuple(models),
        contexts=tuple(contexts),
        cores=cores,
        chains=tuple(chains),
    )


def _moved(number: Optional[int], by: int) -> Optional[int]:
    return None if number is None else number + by
