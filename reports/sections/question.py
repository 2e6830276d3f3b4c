"""The section of a question: answers, explanation and comparison of its scenarios, by group."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.formatting import mib, percent
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.figure import explanation_figure
from reusebench.reports.explanation.sentences import explanation_sentences
from reusebench.reports.results.published import PublishedRow
from reusebench.reports.results.recommendation import recommendations
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.layouts import memory_in_words
from reusebench.reports.sections.mechanisms import mechanisms_table
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values
from reusebench.reports.shared.answers import not_supported, steps_to_lean
from reusebench.reports.shared.breakdown import components_table, page_kinds_table
from reusebench.reports.shared.comparison import comparison_table
from reusebench.scenarios.catalogue import OTHER_QUESTION
from reusebench.storage.savings import NPU, best_percent


class QuestionSection(GroupSection):
    """A section about the scenarios of one question."""

    def __init__(self, question: str) -> None:
        self.name = question

    def title(self, texts: Texts) -> str:
        """Return the question."""
        return texts(f"question_{self.name}")

    def applies(self, page: Page) -> bool:
        """Whether any group has scenarios of the question."""
        return any(self.name in group.questions for group in page.groups)

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the scenarios of the question."""
        return group.questions.get(self.name, [])

    def part(self, view: GroupView) -> Values:
        """Return the sentences that every question has; subclasses add to them."""
        return {"not_supported": not_supported(view.rows, view.texts)}


class ComparisonSection(QuestionSection):
    """A question whose scenarios are compared with their baselines."""

    @property
    def template(self) -> str:
        """The template that all comparisons share; a subclass may extend it by one of its own."""
        return "sections/question.html.j2"

    def values(self, page: Page) -> Values:
        """Return the parts, and the overview that stands above them."""
        return {**super().values(page), "overview": self._overview(page)}

    def part(self, view: GroupView) -> Values:
        """Return answers, explanation and comparison of the rows."""
        texts = view.texts
        # Streams have workloads in place of a comparison.
        rows = [row for row in view.rows if row.schedule is None]
        return {
            **super().part(view),
            "steps": steps_to_lean(rows, texts),
            "reasons": [] if view.page.is_folded else explanation_sentences(rows, texts),
            "components": components_table(rows, texts),
            "by_runtime": _is_told_by_runtime(rows),
            "parts": page_kinds_table(rows, texts) if _has_parts(view) else None,
            "comparison": comparison_table(view.group, rows, self.published(view.group), texts),
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the layout that saves most, and how much."""
        return saving_in_words(view.rows, view.texts)

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of predicted and measured memory."""
        rows = [row for row in view.rows if row.is_compared]
        if not rows:
            return {}
        return {f"{self.name}-explanation": partial(explanation_figure, rows, view.texts)}

    def published(self, group: Group) -> Sequence[PublishedRow]:  # noqa: ARG002  only dup has any
        """Return the published rows that stand below the comparison; by default none."""
        return ()

    def _overview(self, page: Page) -> Table | None:
        """Return the question's mechanisms in all groups, if the groups below are folded."""
        if not page.is_folded or self.name == OTHER_QUESTION:
            return None
        groups = page.material.of_scenarios
        return mechanisms_table(groups, page.labels[: len(groups)], page.texts, self.name)


def saving_in_words(rows: Sequence[Row], texts: Texts) -> str:
    """Return the layout of these rows that saves most, with its memory, or that none saves."""
    known = recommendations(rows)
    best = max(known, key=lambda one: best_percent(one.saving), default=None)
    if best is None:
        return texts("summary_not_measured")
    saving = best.saving
    if saving is None:
        return texts("summary_nothing")
    is_npu = best.memory == NPU
    return texts(
        "summary_saves",
        scenario=texts.scenario(best.least.scenario),
        percent=percent(saving.percent),
        memory=memory_in_words(best.memory, texts),
        least=mib(best.least.memory(best.memory), is_npu),
        before=mib(saving.whole, is_npu),
    )


def _has_parts(view: GroupView) -> bool:
    """Whether application memory is shown by part: there is no NPU memory, and there is room."""
    return not (view.group.has_npu_memory or view.page.is_folded)


def _is_told_by_runtime(rows: Sequence[Row]) -> bool:
    """Whether the components of any row come from the runtime itself, not from the ledger."""
    accounts = itertools.chain(*(row.accounts for row in rows))
    return any(account.source == "runtime" for account in accounts)
