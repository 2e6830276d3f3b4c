"""The recommended layout: of all layouts of the same contexts, the one with the least memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from reusebench.reports.results.model_names import short_name
from reusebench.reports.results.rows import Row
from reusebench.reports.results.sessions import has_conversations, has_other_tokens
from reusebench.reports.results.speed_change import SpeedChange, speed_change
from reusebench.scenarios.catalogue import MODEL_SETS, OPTIONS, STREAMS
from reusebench.storage.result_summary import workload_of
from reusebench.storage.savings import (
    APPLICATION,
    LESS,
    NPU,
    SAME,
    Saving,
    best_percent,
    saving_of,
)


@dataclass(frozen=True)
class Recommendation:
    """The layout of some contexts with the least memory, and the same outputs as without reuse."""

    #: NPU memory if it is known of every layout, otherwise the application memory of the whole
    #: process: NPU or APPLICATION.
    memory: str
    #: It may have failed, for example if memory is too small for it.
    without_reuse: Row
    #: Its stored result has the plan. It is without_reuse if no layout takes measurably less.
    least: Row
    #: Other layouts that take no measurably more than the least.
    as_little: tuple[Row, ...]
    #: Every layout that was measured, equal plans once, in the order of the scenarios.
    layouts: tuple[Row, ...]
    #: Layouts that are never recommended, because their outputs differ from without_reuse's.
    differing: tuple[Row, ...]

    @property
    def saving(self) -> Saving | None:
        """The saving of the least; None if the least is without_reuse, or that has failed."""
        return self.least.saving(self.memory)

    @property
    def speed(self) -> SpeedChange | None:
        """The change of speed; None if that is not known, or there is no saving."""
        return speed_change(self.least)

    @property
    def is_of_the_run(self) -> bool:
        """Whether its models are those of the run's streams, or of a plan."""
        model_set = self.without_reuse.model_set
        return model_set == STREAMS or model_set not in MODEL_SETS

    @property
    def outputs_compared(self) -> bool:
        """Whether its outputs are known to equal without_reuse's; False if nothing computes."""
        return self.least.computes and self.without_reuse.measured and not self.has_other_tokens

    @property
    def has_other_tokens(self) -> bool:
        """Whether its conversations generated other tokens than without reuse."""
        if not (has_conversations(self.least) and self.without_reuse.measured):
            return False
        return has_other_tokens(self.least, self.without_reuse)


def recommendations(rows: Iterable[Row]) -> list[Recommendation]:
    """Return a recommendation for each set of contexts that the rows of one group are layouts of.

    The main one comes first: contexts that infer again and again before streams of frames, then the
    most contexts, then the largest share that is saved. The others follow in the order of the
    scenarios.
    """
    rows_by_contexts: dict[Hashable, list[Row]] = {}
    for row in rows:
        key = _contexts_key(row)
        if key is not None:
            rows_by_contexts.setdefault(key, []).append(row)

    unordered = []
    for layouts in rows_by_contexts.values():
        recommendation = _recommendation(layouts)
        if recommendation:
            unordered.append(recommendation)
    if not unordered:
        return []
    main = max(unordered, key=weight)
    return [main, *(other for other in unordered if other is not main)]


def main_recommendation(rows: Iterable[Row]) -> Recommendation | None:
    """Return the main recommendation for the rows of one group; None if no layout was measured."""
    return next(iter(recommendations(rows)), None)


def answers_of(rows: Iterable[Row]) -> list[Recommendation]:
    """Return the main recommendation, and the others that it takes to cover all of a run's models.

    Built-in models of other questions, such as those for copies, need not be covered.
    """
    ordered = recommendations(rows)
    answers = ordered[:1]
    covered = _models_of(answers)
    for recommendation in ordered[1:]:
        models = _models_of([recommendation])
        if not models <= covered and recommendation.is_of_the_run:
            answers.append(recommendation)
            covered |= models
    return answers


def _models_of(recommendations: Iterable[Recommendation]) -> set[str]:
    """Return the models that recommendations are for; seeds of a built-in network are one."""
    names: set[str] = set()
    for recommendation in recommendations:
        for model in recommendation.without_reuse.info.models:
            name = short_name(model.name)
            names.add(model.digest if name == model.name else name)
    return names


def weight(recommendation: Recommendation) -> tuple[bool, int, int, int, float]:
    """Return the sort key of recommendations; the main one has the largest.

    Conversations with the fewest options of the runtime come first, then the longest.
    """
    row = recommendation.without_reuse
    plan = row.info.plan
    options = len(row.options) if plan.conversation else 0
    tokens = plan.conversation.tokens if plan.conversation else 0
    saved_percent = best_percent(recommendation.saving)
    return plan.schedule is None, len(plan.contexts), -options, tokens, saved_percent


def _contexts_key(row: Row) -> Hashable | None:
    """Return the models, the contexts without reuse and their task, equal in all their layouts.

    None if the row is no layout: cycles, contexts that are counted, decoding alone, options of the
    runtime, or a row without its baseline in the group.
    """
    root = row.baseline if row.info.baseline else row
    if root is None or not root.info.plan.contexts:
        return None
    if row.question == OPTIONS or not (row.is_compared or row.schedule):
        return None

    models = tuple(model.digest for model in root.info.models)
    contexts = tuple(
        (context.stream, context.model, context.device, context.core)
        for context in root.info.plan.contexts
    )
    return models, contexts, workload_of(root.info)


def _recommendation(rows: Sequence[Row]) -> Recommendation | None:
    """Return the recommendation for layouts of the same contexts; None if none was measured."""
    layouts: dict[Hashable, Row] = {}
    for row in rows:
        if row.measured:
            layouts.setdefault(row.info.plan.contexts, row)
    measured = list(layouts.values())
    if not measured:
        return None

    memory = NPU if all(row.memory(NPU) for row in measured) else APPLICATION
    saving_rows = []
    for row in measured:
        saving = row.saving(memory)
        if saving and saving.change == LESS:
            saving_rows.append(row)

    # The first is without reuse, or has a baseline that was not measured. Without that baseline's
    # memory no saving is known, and all layouts are candidates.
    root = measured[0].baseline or measured[0]
    candidates = saving_rows if root.measured else measured
    least = min(candidates, key=lambda row: _median(row, memory), default=root)
    others = [row for row in saving_rows if row is not least]
    return Recommendation(
        memory=memory,
        without_reuse=least.baseline or root,
        least=least,
        as_little=tuple(row for row in others if _takes_as_little(row, least, memory)),
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
