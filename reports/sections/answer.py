"""The answer that opens the page: what contexts take without reuse, how little they can take, how,
and at what cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.formatting import mib, milliseconds, per_second, percent
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.recommendation import Recommendation, main_recommendation
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.runtime_comparison import runtime_comparison
from reusebench.reports.results.savings import NPU
from reusebench.reports.results.speed_change import DISTURBED, ONE_REPEAT
from reusebench.reports.sections.layouts import (
    layout_in_words,
    layouts_figure,
    recommendations_table,
    set_in_words,
)
from reusebench.reports.sections.leaks import opening_leaks
from reusebench.reports.sections.limit import opening_limit
from reusebench.reports.sections.runtimes import (
    compared_in_words,
    runtime_sentences,
    runtimes_figure,
    runtimes_table,
)
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.streams.sentences import growing_parts, opening_part
from reusebench.scenarios.catalogue import LIMIT, OPTIONS

#: So many answers stand with large figures; of more, where they can be compared, a table is read at
#: a glance.
_MOST_LARGE = 3


class AnswerSection(Section):
    """The answer that opens the page."""

    name = "answer"
    is_listed = False
    opens_page = True

    def values(self, page: Page) -> Values:
        """Return the opening, and the table of all sets of contexts."""
        return {
            "opening": opening(page.groups, page.labels, page.texts),
            "sets": recommendations_table(page.groups, page.labels, page.texts),
        }

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figures of layouts, and of runtimes beside each other."""
        return {
            "layouts": partial(layouts_figure, page.groups, page.labels, page.texts),
            "runtimes": partial(runtimes_figure, page.groups, page.labels, page.texts),
        }


@dataclass(frozen=True)
class LargeFigure:
    """A figure that is shown large: what it is of, its number or a word in place of it, its unit,
    and a remark.
    """

    head: str
    value: str
    unit: str
    remark: str
    is_word: bool = False


@dataclass(frozen=True)
class Answer:
    """What a group says of its main contexts."""

    #: Of the group: its id on the page, and its label.
    group: str
    label: str
    #: Of which contexts it is; empty if nothing was measured that could be compared.
    contexts: str
    figures: Sequence[LargeFigure]
    #: What to do.
    advice: str
    remarks: Sequence[str]


@dataclass(frozen=True)
class Opening:
    """The answer of each group, and what is said of all of them."""

    answers: Sequence[Answer]
    #: Of which contexts runtimes are compared; empty if they are not.
    compared: str
    #: Which of them needs least, at which speed, and whether outputs agree; and all of them beside
    #: each other.
    ranking: Sequence[str]
    runtimes: Table | None
    #: What else was found: frames kept, memory that grows, leaks, how many contexts fit.
    others: Sequence[str]

    @property
    def is_folded(self) -> bool:
        """Whether the answers stand folded below the runtimes beside each other."""
        return self.runtimes is not None and len(self.answers) > _MOST_LARGE


def opening(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Opening:
    """Return what opens the page of these groups, so labelled."""
    labelled = list(zip(groups, labels))
    made = [
        _answer(group, group_id(number), label, texts)
        for number, (group, label) in enumerate(labelled)
    ]
    streams = [part for group, label in labelled if (part := opening_part(group, label, texts))]
    growing = [part for group, label in labelled for part in growing_parts(group, label, texts)]
    limits = [
        part
        for group, label in labelled
        if (part := opening_limit(group.questions.get(LIMIT, []), label, texts))
    ]
    others = [
        texts("opening_streams", parts=texts.joined(streams)) if streams else None,
        texts("opening_growing", parts=texts.joined(growing)) if growing else None,
        *(opening_leaks(group, label, texts) for group, label in labelled),
        texts("opening_limit", parts=texts.joined(limits)) if limits else None,
    ]
    comparison = runtime_comparison(groups)
    ranking = runtime_sentences(comparison, labels, texts) if comparison else []
    return Opening(
        answers=[answer for answer in made if answer],
        compared=compared_in_words(comparison, texts) if comparison else "",
        ranking=ranking or _not_comparable(groups, texts),
        runtimes=runtimes_table(comparison, labels, texts) if comparison else None,
        others=[sentence for sentence in others if sentence],
    )


def _answer(group: Group, group_name: str, label: str, texts: Texts) -> Answer | None:
    """Return the answer of a group; None if it ran nothing that is a layout of contexts."""
    of_layouts = (row for row in group.rows if row.question != OPTIONS)
    if not any(row.info.plan.contexts and (row.is_compared or row.schedule) for row in of_layouts):
        return None
    recommendation = main_recommendation(group.rows)
    if recommendation is None:
        return Answer(group_name, label, "", (), texts("answer_nothing_compared"), ())
    figures = [_before(recommendation, texts)]
    if recommendation.least is not recommendation.without_reuse:
        figures += [_least(recommendation, texts), _speed(recommendation, texts)]
    contexts = set_in_words(recommendation, texts)
    remarks = list(_remarks(recommendation, texts))
    return Answer(group_name, label, contexts, figures, _advice(recommendation, texts), remarks)


def _not_comparable(groups: Sequence[Group], texts: Texts) -> list[str]:
    """Return the sentence that no two runtimes can be compared; none where there is one alone."""
    saving = [group for group in groups if (one := main_recommendation(group.rows)) and one.saving]
    several = len({group.info.runtime for group in saving}) > 1
    return [texts("answer_not_comparable")] if several else []


def _before(recommendation: Recommendation, texts: Texts) -> LargeFigure:
    row = recommendation.without_reuse
    head = texts("answer_before")
    memory = texts("memory_npu" if recommendation.memory == NPU else "answer_whole_process")
    if not row.measured:
        return LargeFigure(head, texts(f"outcome_{row.outcome}"), "", memory, is_word=True)
    return LargeFigure(head, *_size(row, recommendation.memory), memory)


def _least(recommendation: Recommendation, texts: Texts) -> LargeFigure:
    saving = recommendation.saving
    saved = texts("answer_less", percent=percent(saving.percent)) if saving else ""
    head = texts("answer_least" if recommendation.outputs_compared else "answer_least_unchecked")
    return LargeFigure(head, *_size(recommendation.least, recommendation.memory), saved)


def _speed(recommendation: Recommendation, texts: Texts) -> LargeFigure:
    """Return the rate with the least memory, and how it differs; where that is not known, why."""
    row = recommendation.least
    change = recommendation.speed
    head = texts("answer_frames" if row.schedule else "answer_inferences")
    if change is None or change.verdict in (DISTURBED, ONE_REPEAT):
        reason = change.verdict if change else "missing" if row.computes else "virtual"
        return LargeFigure(
            head, texts("answer_unknown"), "", texts(f"answer_speed_{reason}"), is_word=True
        )
    size = percent(abs(change.change_percent), spread=True)
    remarks = [
        texts(
            f"answer_speed_{change.verdict}", before=per_second(change.baseline_rate), change=size
        )
    ]
    if row.latency and row.baseline and row.baseline.latency:
        latencies = {
            "latency": milliseconds(row.latency),
            "before": milliseconds(row.baseline.latency),
        }
        remarks.append(texts("answer_latency", **latencies))
    value, _, spread = per_second(change.rate).partition(" ")
    return LargeFigure(head, value, spread, texts.joined(remarks))


def _advice(recommendation: Recommendation, texts: Texts) -> str:
    least = recommendation.least
    if least is not recommendation.without_reuse:
        values = {
            "scenario": texts.scenario(least.scenario),
            "layout": layout_in_words(least, texts),
        }
        return texts("answer_advice" if recommendation.saving else "answer_fits", **values)
    return texts("answer_nothing_saves" if len(recommendation.layouts) > 1 else "answer_one_layout")


def _remarks(recommendation: Recommendation, texts: Texts) -> Iterator[str]:
    memory = recommendation.memory
    least = recommendation.least
    if recommendation.as_little:
        sizes = [
            texts(
                "answer_layout",
                scenario=texts.scenario(row.scenario),
                size=mib(row.memory(memory), memory == NPU),
            )
            for row in recommendation.as_little
        ]
        yield texts("answer_as_little", layouts=texts.joined(sizes))
    if recommendation.differing:
        yield texts(
            "answer_differing",
            scenarios=texts.scenarios(row.scenario for row in recommendation.differing),
        )
    if least is not recommendation.without_reuse and not recommendation.outputs_compared:
        yield texts("answer_unchecked" if least.computes else "answer_unchecked_virtual")
    if recommendation.memory != NPU and any(
        row.is_compared_with_short for row in recommendation.layouts
    ):
        yield texts(
            "opening_short",
            scenarios=texts.scenarios(
                row.scenario for row in recommendation.layouts if row.is_short
            ),
        )
    if recommendation.memory != NPU and len(least.info.repeats) == 1:
        yield texts("warning_one_repeat")


def _size(row: Row, memory: str) -> tuple[str, str]:
    """Return MiB as a number, and the spread with the unit."""
    value, _, spread = mib(row.memory(memory), memory == NPU).partition(" ")
    return value, f"{spread} MiB".strip()
