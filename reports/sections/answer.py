"""The section that opens the page: the memory of contexts without reuse and at least."""

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
from reusebench.storage.savings import NPU

#: Up to this number of answers stand open; if there are more, a table of runtimes opens the page.
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
        """Return the figures of layouts, and of runtimes."""
        return {
            "layouts": partial(layouts_figure, page.groups, page.labels, page.texts),
            "runtimes": partial(runtimes_figure, page.groups, page.labels, page.texts),
        }


@dataclass(frozen=True)
class LargeFigure:
    """A figure in large type."""

    head: str
    #: A number, or a word in its place.
    value: str
    unit: str
    remark: str
    is_word: bool = False


@dataclass(frozen=True)
class GroupAnswer:
    """The answer of one group."""

    #: Element id of the group.
    group: str
    label: str
    #: The contexts that the answer is about; empty if nothing could be compared.
    contexts: str
    figures: Sequence[LargeFigure]
    advice: str
    remarks: Sequence[str]


@dataclass(frozen=True)
class Opening:
    """The answer of each group, and answers about all groups."""

    answers: Sequence[GroupAnswer]
    #: The contexts by which runtimes are compared; empty if they are not.
    compared: str
    #: Sentences about the runtime with the least memory, its speed, and equal outputs.
    ranking: Sequence[str]
    runtimes: Table | None
    #: Sentences about frames, growing memory, leaks, and the number of contexts that fit.
    others: Sequence[str]

    @property
    def is_folded(self) -> bool:
        """Whether the answers are folded below the table of runtimes."""
        return self.runtimes is not None and len(self.answers) > _MOST_LARGE


def opening(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Opening:
    """Return the opening of a page with these groups, labelled so."""
    answers = []
    for number, (group, label) in enumerate(zip(groups, labels)):
        answer = _answer(group, group_id(number), label, texts)
        if answer:
            answers.append(answer)
    comparison = runtime_comparison(groups)
    if comparison is None:
        compared = ""
        ranking = []
        runtimes = None
    else:
        compared = compared_in_words(comparison, texts)
        ranking = runtime_sentences(comparison, labels, texts)
        runtimes = runtimes_table(comparison, labels, texts)
    return Opening(
        answers,
        compared,
        ranking or _not_comparable(groups, texts),
        runtimes,
        _other_sentences(groups, labels, texts),
    )


def _other_sentences(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return sentences about streams, leaks and limits of all groups."""
    streams = []
    growing = []
    leaks = []
    limits = []
    for group, label in zip(groups, labels):
        streams.append(opening_part(group, label, texts))
        growing += growing_parts(group, label, texts)
        leaks.append(opening_leaks(group, label, texts))
        limits.append(opening_limit(group.questions.get(LIMIT, []), label, texts))
    sentences = [
        _joined_parts("opening_streams", streams, texts),
        _joined_parts("opening_growing", growing, texts),
        *leaks,
        _joined_parts("opening_limit", limits, texts),
    ]
    return [sentence for sentence in sentences if sentence]


def _joined_parts(key: str, parts: Sequence[str | None], texts: Texts) -> str | None:
    """Return one sentence with the parts of all groups; None if no group has one."""
    known = [part for part in parts if part]
    if not known:
        return None
    return texts(key, parts=texts.joined(known))


def _answer(group: Group, element_id: str, label: str, texts: Texts) -> GroupAnswer | None:
    """Return the answer of a group; None if it ran no layout of contexts."""
    if not any(_is_layout(row) for row in group.rows):
        return None
    recommendation = main_recommendation(group.rows)
    if recommendation is None:
        return GroupAnswer(element_id, label, "", (), texts("answer_nothing_compared"), ())
    figures = [_before(recommendation, texts)]
    if recommendation.least is not recommendation.without_reuse:
        figures += [_least(recommendation, texts), _speed(recommendation, texts)]
    return GroupAnswer(
        element_id,
        label,
        set_in_words(recommendation, texts),
        figures,
        _advice(recommendation, texts),
        list(_remarks(recommendation, texts)),
    )


def _is_layout(row: Row) -> bool:
    """Whether the row is a layout of contexts, not an option, cycles or a limit."""
    if row.question == OPTIONS or not row.info.plan.contexts:
        return False
    return row.is_compared or row.schedule is not None


def _not_comparable(groups: Sequence[Group], texts: Texts) -> list[str]:
    """Return the sentence that runtimes cannot be compared; none if there is a single one."""
    runtimes = set()
    for group in groups:
        recommendation = main_recommendation(group.rows)
        if recommendation and recommendation.saving:
            runtimes.add(group.info.runtime)
    if len(runtimes) < 2:
        return []
    return [texts("answer_not_comparable")]


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
    """Return the rate with the least memory and its change, or why the change is not known."""
    row = recommendation.least
    change = recommendation.speed
    head = texts("answer_frames" if row.schedule else "answer_inferences")
    if change is None:
        reason = "missing" if row.computes else "virtual"
        return _unknown_speed(head, reason, texts)
    if change.verdict in (DISTURBED, ONE_REPEAT):
        return _unknown_speed(head, change.verdict, texts)
    remark = texts(
        f"answer_speed_{change.verdict}",
        before=per_second(change.baseline_rate),
        change=percent(abs(change.change_percent), spread=True),
    )
    remarks = [remark]
    if row.latency and row.baseline and row.baseline.latency:
        latency = milliseconds(row.latency)
        before = milliseconds(row.baseline.latency)
        remarks.append(texts("answer_latency", latency=latency, before=before))
    value, _, spread = per_second(change.rate).partition(" ")
    return LargeFigure(head, value, spread, texts.joined(remarks))


def _unknown_speed(head: str, reason: str, texts: Texts) -> LargeFigure:
    remark = texts(f"answer_speed_{reason}")
    return LargeFigure(head, texts("answer_unknown"), "", remark, is_word=True)


def _advice(recommendation: Recommendation, texts: Texts) -> str:
    least = recommendation.least
    if least is recommendation.without_reuse:
        has_others = len(recommendation.layouts) > 1
        return texts("answer_nothing_saves" if has_others else "answer_one_layout")
    return texts(
        "answer_advice" if recommendation.saving else "answer_fits",
        scenario=texts.scenario(least.scenario),
        layout=layout_in_words(least, texts),
    )


def _remarks(recommendation: Recommendation, texts: Texts) -> Iterator[str]:
    memory = recommendation.memory
    least = recommendation.least
    if recommendation.as_little:
        yield texts("answer_as_little", layouts=_with_sizes(recommendation, texts))
    if recommendation.differing:
        differing = texts.scenarios(row.scenario for row in recommendation.differing)
        yield texts("answer_differing", scenarios=differing)
    if least is not recommendation.without_reuse and not recommendation.outputs_compared:
        yield texts("answer_unchecked" if least.computes else "answer_unchecked_virtual")
    # A shortage of memory, or a single repeat, makes no figure of NPU memory doubtful.
    if memory == NPU:
        return
    if any(row.is_compared_with_short for row in recommendation.layouts):
        short = [row.scenario for row in recommendation.layouts if row.is_short]
        yield texts("opening_short", scenarios=texts.scenarios(short))
    if len(least.info.repeats) == 1:
        yield texts("warning_one_repeat")


def _with_sizes(recommendation: Recommendation, texts: Texts) -> str:
    """Return the layouts that take as little as the least one, each with its size."""
    memory = recommendation.memory
    layouts = []
    for row in recommendation.as_little:
        size = mib(row.memory(memory), memory == NPU)
        layouts.append(texts("answer_layout", scenario=texts.scenario(row.scenario), size=size))
    return texts.joined(layouts)


def _size(row: Row, memory: str) -> tuple[str, str]:
    """Return the number of MiB, and its unit with the spread."""
    value, _, spread = mib(row.memory(memory), memory == NPU).partition(" ")
    return value, f"{spread} MiB".strip()
