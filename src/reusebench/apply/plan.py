"""A plan as settings of an applied program: what each context shares, by its model's content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

from reusebench.apply.digests import content_digest, rknn_digest
from reusebench.apply.errors import ApplyError
from reusebench.apply.settings import PLAN_NAME
from reusebench.measured.plan import (
    CREATE_MEM,
    LOAD,
    MODEL,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)
from reusebench.measured.runtimes import RUNTIMES

__all__ = ["APPLIED_RUNTIMES", "PlanSettings", "PlannedContext", "PlannedModel", "planned_in"]

_RKNN = "rknn"
#: Names of the runtimes whose contexts can be shared in a program that nobody changes.
APPLIED_RUNTIMES = tuple(entry.name for entry in RUNTIMES if entry.can_be_applied)
_FIRST_LINE = "reusebench-apply-plan 1"
#: Lines for the end of the program, which library and hooks pass over.
_LEFT_OUT, _PREDICTED = "left-out", "predicted-npu-bytes"
#: The number of a memory of the context's own, and of no core.
_OWN = -1


@dataclass(frozen=True)
class PlannedContext:
    """What a context shares: contexts with equal numbers share."""

    #: One session for several callers.
    context: int
    weights: int
    #: Internal memory; _OWN: the context's own.
    memory: int
    #: NPU core; _OWN: as the program says.
    core: int


@dataclass(frozen=True)
class PlannedModel:
    """A model's content, and its contexts in the order in which they are made."""

    name: str
    digest: str
    size_bytes: int
    contexts: tuple[PlannedContext, ...]


@dataclass(frozen=True)
class PlanSettings:
    """The part of a plan that a program can be given without a change."""

    runtime: str
    models: tuple[PlannedModel, ...]
    #: A sentence for each part that it cannot be given.
    left_out: tuple[str, ...] = ()
    #: NPU memory of all its contexts by `fit`; None if that is not known.
    predicted_bytes: Optional[int] = None

    @classmethod
    def of(cls, plan: Plan) -> PlanSettings:
        """Return the settings; raise ApplyError if none of the plan can be applied."""
        if plan.runtime not in APPLIED_RUNTIMES:
            raise ApplyError(
                f"the plan is for {plan.runtime}, whose programs have to be changed: `reusebench"
                f" plan --code` prints how. Valid here: plans for {', '.join(APPLIED_RUNTIMES)}"
            )
        if not plan.contexts:
            raise ApplyError("the plan has no context, so that there is nothing to apply")
        models = []
        for index, model in enumerate(plan.models):
            contexts = tuple(
                _planned(plan, number)
                for number, context in enumerate(plan.contexts)
                if context.model == index
            )
            if contexts:
                models.append(_planned_model(model, plan.runtime, contexts))
        return cls(plan.runtime, tuple(models), tuple(_left_out(plan)))

    def text(self) -> str:
        """Return the file that REUSEBENCH_APPLY_PLAN names."""
        lines = [_FIRST_LINE]
        for model in self.models:
            name = " ".join(model.name.split())
            lines.append(f"model {self.runtime} {model.digest} {model.size_bytes} {name}")
            for one in model.contexts:
                lines.append(f"context {one.context} {one.weights} {one.memory} {one.core}")
        lines += [f"{_LEFT_OUT} {sentence}" for sentence in self.left_out]
        if self.predicted_bytes is not None:
            lines.append(f"{_PREDICTED} {self.predicted_bytes}")
        return "\n".join(lines) + "\n"

    @classmethod
    def read(cls, text: str) -> PlanSettings:
        """Return the settings of such a file."""
        runtime = ""
        models: list[PlannedModel] = []
        left_out: list[str] = []
        predicted = None
        for line in text.splitlines():
            kind, _, words = line.partition(" ")
            if kind == "model":
                runtime, digest, size, name = words.split(" ", 3)
                models.append(PlannedModel(name, digest, int(size), ()))
            elif kind == "context":
                context = PlannedContext(*map(int, words.split()))
                models[-1] = replace(models[-1], contexts=(*models[-1].contexts, context))
            elif kind == _LEFT_OUT:
                left_out.append(words)
            elif kind == _PREDICTED:
                predicted = int(words)
        return cls(runtime, tuple(models), tuple(left_out), predicted)


def planned_in(folder: Path) -> PlanSettings | None:
    """Return the plan in a folder of launch.py; None if there is none."""
    file = folder / PLAN_NAME
    return PlanSettings.read(file.read_text(encoding="utf-8")) if file.exists() else None


def _planned_model(
    model: Model, runtime: str, contexts: tuple[PlannedContext, ...]
) -> PlannedModel:
    try:
        content = Path(model.path).read_bytes()
    except OSError as error:
        raise ApplyError(
            f"the plan's model {model.name!r} cannot be read: {model.path} ({error.strerror}). Its"
            " file is needed, for a program's models are known by their content"
        ) from None
    digest = rknn_digest if runtime == _RKNN else content_digest
    return PlannedModel(model.name, digest(content), len(content), contexts)


def _planned(plan: Plan, number: int) -> PlannedContext:
    context = plan.contexts[number]
    lender = number if context.source is None else context.source
    weights = _first_sharer(plan, number) if context.mechanism == SHARED_WEIGHTS else lender
    memory = context.internal
    core = context.core
    if memory is None and plan.runtime == _RKNN:
        # The callers of one context have one internal memory, also if each has a duplicate.
        is_called_by_several = any(
            other.mechanism == SHARED_CONTEXT and lender in (index, other.source)
            for index, other in enumerate(plan.contexts)
        )
        memory = len(plan.contexts) + lender if is_called_by_several else None
    return PlannedContext(
        context=lender if context.mechanism == SHARED_CONTEXT else number,
        weights=weights,
        memory=_OWN if memory is None else memory,
        core=core if core is not None and plan.cores > 1 and plan.runtime == _RKNN else _OWN,
    )


def _first_sharer(plan: Plan, number: int) -> int:
    """Return the first context of the model that has the weights of another resolution.

    A program loads each of its resolutions with weights; those of one are shared.
    """
    model = plan.contexts[number].model
    indices = range(number + 1)
    sharers = (
        index
        for index in indices
        if (plan.contexts[index].model, plan.contexts[index].mechanism) == (model, SHARED_WEIGHTS)
    )
    return next(sharers)


def _left_out(plan: Plan) -> Iterator[str]:
    """Yield what the program cannot be given, with the number of contexts concerned."""
    counts: Counter[str] = Counter()
    for context in plan.contexts:
        counts.update(_parts_left_out(context, plan.runtime))
    for sentence, count in counts.items():
        contexts = "1 context" if count == 1 else f"{count} contexts"
        yield f"{contexts}: {sentence}"


def _parts_left_out(context: Context, runtime: str) -> Iterator[str]:
    if set(context.zero_copy) - {MODEL}:
        yield "tensors in place; the program's own calls decide where its input and output are"
    if MODEL in context.zero_copy:
        yield "the model in place; the program's own call loads its file"
    if context.device_io or context.device:
        yield "tensors and inference on another device; the program chooses its devices itself"
    if context.options:
        yield "options of the runtime; the program has its own"
    if WEIGHTS in context.outside and context.mechanism == LOAD:
        yield "weights in memory of the application; the runtime allocates them, and shares them"
    if context.allocator != CREATE_MEM:
        yield f"memory from {context.allocator}; the runtime's own call allocates it"
    if context.mechanism == SHARED_WEIGHTS:
        yield "weights of another resolution; the program loads each resolution with its weights"
    if context.mechanism == SHARED_CONTEXT and runtime == _RKNN:
        yield "one context with several callers; each has a duplicate, in the same internal memory"
