"""Which layout to recommend: of all that ran with the same models and contexts, the one that takes
the least memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from reusebench.reports.results.rows import Row, workload_key
from reusebench.reports.results.savings import (
    APPLICATION,
    LESS,
    NPU,
    SAME,
    Saving,
    best_percent,
    saving_of,
)
from reusebench.reports.results.speed_change import SpeedChange, speed_change
from reusebench.scenarios.catalogue import OPTIONS


@dataclass(frozen=True)
class Recommendation:
    """The layout of some contexts that takes the least memory, with the outputs that they have
    without reuse.
    """

    #: NPU memory where every layout has a figure of it, else the application memory of the whole
    #: process: NPU or APPLICATION.
    memory: str
    #: It may have failed, as where memory is too small for it.
    without_reuse: Row
    #: Its stored result has the plan. It is without_reuse where no layout takes measurably less.
    least: Row
    #: Other layouts that take no measurably more than the least.
    as_little: tuple[Row, ...]
    #: Every layout that was measured, equal plans once, in the order of the scenarios.
    layouts: tuple[Row, ...]
    #: Those that are not recommended whatever they take, since their outputs are not those of
    #: without_reuse.
    differing: tuple[Row, ...]

    @property
    def saving(self) -> Saving | None:
        """What the least saves; None if it is without_reuse, or where that failed."""
        return self.least.saving(self.memory)

    @property
    def speed(self) -> SpeedChange | None:
        """What it costs in speed; None if that is not known, or there is no saving."""
        return speed_change(self.least)

    @property
    def outputs_compared(self) -> bool:
        """Whether its outputs are known to be those of without_reuse; where nothing computes they
        are not.
        """
        return self.least.computes and self.without_reuse.measured


def recommendations(rows: Iterable[Row]) -> list[Recommendation]:
    """Return a recommendation for each set of contexts that the rows of one group are layouts of.

    The main one comes first: contexts that infer again and again before streams of frames, then the
    most contexts, then the largest share that is saved. The others follow in the order of the
    scenarios.
    """
    sets: dict[Hashable, list[Row]] = {}
    for row in rows:
        key = _set_of_contexts(row)
        if key is not None:
            sets.setdefault(key, []).append(row)
    made = [
        recommendation for of_set in sets.values() if (recommendation := _recommendation(of_set))
    ]
    main = max(made, key=weight, default=None)
    return [main, *(other for other in made if other is not main)] if main else []


def main_recommendation(rows: Iterable[Row]) -> Recommendation | None:
    """Return the main one of the rows of one group; None if nothing was measured that a layout
    is of.
    """
    return next(iter(recommendations(rows)), None)


def _set_of_contexts(row: Row) -> Hashable | None:
    """Return what is equal in all layouts of the same contexts: models, contexts without reuse,
    what they have to do.

    None of what is no layout: cycles, contexts that are counted, decoding alone, options of the
    runtime, what has no baseline here.
    """
    root = row.baseline if row.info.baseline else row
    if (
        root is None
        or row.question == OPTIONS
        or not root.info.plan.contexts
        or not (row.is_compared or row.schedule)
    ):
        return None
    models = tuple(model.digest for model in root.info.models)
    contexts = tuple(
        (context.stream, context.model, context.device, context.core)
        for context in root.info.plan.contexts
    )
    return models, contexts, workload_key(root.info)


def _recommendation(rows: Sequence[Row]) -> Recommendation | None:
    layouts: dict[Hashable, Row] = {}
    for row in rows:
        if row.measured:
            layouts.setdefault(row.info.plan.contexts, row)
    measured = list(layouts.values())
    if not measured:
        return None
    memory = NPU if all(row.memory(NPU) for row in measured) else APPLICATION
    # The first is without reuse, or has a baseline that was not measured: then nothing says what
    # the layouts save.
    root = measured[0].baseline or measured[0]
    saving = [row for row in measured if (of_row := row.saving(memory)) and of_row.change == LESS]
    least = min(
        saving if root.measured else measured, key=lambda row: _median(row, memory), default=root
    )
    return Recommendation(
        memory=memory,
        without_reuse=least.baseline or root,
        least=least,
        as_little=tuple(
            row for row in saving if row is not least and _takes_as_little(row, least, memory)
        ),
        layouts=tuple(measured),
        differing=tuple(row for row in rows if row.outcome == "outputs_differ"),
    )


def _median(row: Row, memory: str) -> float:
    figure = row.memory(memory)
    assert figure is not None
    return figure.median


def _takes_as_little(row: Row, least: Row, memory: str) -> bool:
    saving = saving_of(memory, row.memory(memory), least.memory(memory))
    return saving is not None and saving.change == SAME


def weight(recommendation: Recommendation) -> tuple[bool, int, float]:
    """Return what the main one of several recommendations has most of."""
    plan = recommendation.without_reuse.info.plan
    return plan.schedule is None, len(plan.contexts), best_percent(recommendation.saving)
