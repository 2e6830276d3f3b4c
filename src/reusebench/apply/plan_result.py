"""What a program got of a plan: lines for the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from reusebench.apply.plan import PlannedModel, PlanSettings
from reusebench.apply.report import ProcessReport

__all__ = ["plan_lines"]

_MIB = 2**20


def plan_lines(
    settings: PlanSettings, reports: Sequence[ProcessReport], taken_bytes: Optional[int] = None
) -> Iterator[str]:
    """Yield the lines about the plan; `taken_bytes` is the NPU memory of the program, if known."""
    plans = [
        report.plan
        for report in reports
        if report.runtime == settings.runtime and report.plan is not None
    ]
    if not plans:
        yield f"plan: it is for {settings.runtime}, which no process of the program has used"
        return
    loaded = _sum(plan.loaded for plan in plans)
    beyond = _sum(plan.beyond for plan in plans)
    unknown = _sum(plan.unknown for plan in plans)
    for model in settings.models:
        yield f"plan: {_of_model(model, loaded[model.digest], beyond[model.digest])}"
    for name, count in unknown.items():
        yield (
            f"plan: {_contexts(count)} of {name}, which it does not have, shared as without a plan"
        )
    for sentence in settings.left_out:
        yield f"plan, not applied to {sentence}"
    if settings.predicted_bytes is not None:
        yield from _compared(settings.predicted_bytes, taken_bytes)


def _of_model(model: PlannedModel, loaded: int, beyond: int) -> str:
    """Return the words about the contexts of a model."""
    planned = len(model.contexts)
    if not loaded:
        return (
            f"{model.name} was not loaded: no model of the program has the content of its file"
            f" ({model.size_bytes:,} bytes)"
        )
    if beyond:
        return (
            f"{model.name}: {_contexts(planned)} as planned, and {beyond} more, which share as"
            " without a plan"
        )
    if loaded < planned:
        return f"{model.name}: {loaded} of {_contexts(planned)} as planned; no more were made"
    return f"{model.name}: {_contexts(planned)} as planned"


def _compared(predicted: int, taken: int | None) -> Iterator[str]:
    words = f"NPU memory by fit: {_size(predicted)}"
    if taken is None:
        yield f"plan: {words}; --target vboard:CHIP tells what it takes"
    elif taken == predicted:
        yield f"plan: {words}, taken to the byte"
    else:
        yield f"plan: {words}; {_size(taken)} was taken, {taken - predicted:+,} bytes"


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def _contexts(count: int) -> str:
    return "1 context" if count == 1 else f"{count} contexts"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.2f} MiB ({size_bytes:,} bytes)"
