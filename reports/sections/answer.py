"""The section that opens the page: what contexts need, how little is enough, and the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from reusebench.measured.runtimes import RUNTIMES
from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.formatting import mib, milliseconds, per_second, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table
from reusebench.reports.base.terms import Term
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.model_names import models_in_words, short_name
from reusebench.reports.results.recommendation import (
    Recommendation,
    answers_of,
    main_recommendation,
)
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.runtime_comparison import runtime_comparison
from reusebench.reports.results.sessions import (
    ALL_GENERATED,
    FIRST_TOKEN,
    has_conversations,
    speed_figure,
)
from reusebench.reports.results.speed_change import DISTURBED, ONE_REPEAT, SpeedChange
from reusebench.reports.sections.code import CodeBlock, code_blocks
from reusebench.reports.sections.layouts import (
    drawn_layouts,
    layout_in_words,
    layouts_figure,
    speed_in_words,
)
from reusebench.reports.sections.leaks import leak_sentences
from reusebench.reports.sections.runtimes import (
    compared_in_words,
    runtime_sentences,
    runtimes_figure,
    runtimes_table,
)
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.shared.answers import group_warnings
from reusebench.reports.shared.session_words import further_sentence, least_sentence
from reusebench.reports.side_by_side.sentences import patch_sentence
from reusebench.reports.streams.sentences import growing_parts
from reusebench.scenarios.catalogue import OPTIONS, QUESTIONS, SESSIONS
from reusebench.storage.savings import NPU

#: Up to this number of answers stand open; if there are more, a table of runtimes opens the page.
_MOST_LARGE = 3


class AnswerSection(Section):
    """The answer that opens the page."""

    name = "answer"
    is_folded = False

    def values(self, page: Page) -> Values:
        """Return the opening, the programs, reasons to mistrust the figures, and what to do with a
        program that nobody changes.
        """
        return {
            "opening": opening(page.groups, page.labels, page.texts),
            "blocks": _programs(page),
            "warnings": warnings_of(page.groups, page.labels, page.texts),
            "apply": page.texts("answer_apply") if _can_be_applied(page.groups) else "",
        }

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figures of layouts, and of runtimes."""
        labels = dict(zip(page.groups, page.labels))
        drawn = page.material.drawn
        drawn_labels = [labels[group] for group in drawn]
        return {
            "layouts": partial(layouts_figure, drawn, drawn_labels, page.texts),
            "runtimes": partial(runtimes_figure, page.groups, page.labels, page.texts),
        }


def _programs(page: Page) -> list[CodeBlock]:
    """Return the programs; of many runtimes that ran the same contexts, those of the best two."""
    blocks = code_blocks(page.groups, page.labels, page.texts)
    comparison = runtime_comparison(page.groups)
    if comparison is None or len(page.groups) <= _MOST_LARGE:
        return blocks
    best = {group_id(member.number) for member in comparison.best}
    return [block for block in blocks if block.group in best]


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
class Answer:
    """The answer for some contexts of a group."""

    #: Element id of the group.
    group: str
    label: str
    #: What they need, how little is enough, at which speed, and how.
    sentence: str
    figures: Sequence[LargeFigure] = ()
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Opening:
    """The answer of each group, and answers about all groups."""

    answers: Sequence[Answer]
    #: The contexts by which runtimes are compared; empty if they are not.
    compared: str
    #: Sentences about the runtime with the least memory, its speed, and equal outputs.
    ranking: Sequence[str]
    runtimes: Table | None
    #: The titles of the layouts in the figure, each with its term.
    meanings: Sequence[tuple[str, Term]]

    @property
    def is_folded(self) -> bool:
        """Whether the answers are folded below the table of runtimes."""
        return self.runtimes is not None and len(self.answers) > _MOST_LARGE


def opening(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Opening:
    """Return the opening of a page with these groups, labelled so."""
    answers: list[Answer] = []
    for number, (group, label) in enumerate(zip(groups, labels)):
        answers += _answers(group, group_id(number), label, texts)
    meanings = _meanings(groups, texts)
    comparison = runtime_comparison(groups)
    if comparison is None:
        return Opening(answers, "", _not_comparable(groups, texts), None, meanings)
    return Opening(
        answers,
        compared_in_words(comparison, texts),
        runtime_sentences(comparison, labels, texts) or _not_comparable(groups, texts),
        runtimes_table(comparison, labels, texts),
        meanings,
    )


def warnings_of(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[str]:
    """Return models without an answer, leaks and reasons to mistrust figures.

    They stand after labels if there are several groups.
    """
    warnings = []
    for group, label in zip(groups, labels):
        leaks = [*leak_sentences(group.rows, texts), *growing_parts(group, texts)]
        uncovered = _models_not_covered(group, texts)
        for warning in (*uncovered, *leaks, *group_warnings(group, texts)):
            is_single = len(groups) == 1
            warnings.append(warning if is_single else texts("of_group", group=label, words=warning))
    return warnings


def _answers(group: Group, element_id: str, label: str, texts: Texts) -> list[Answer]:
    """Return the answers of a group; none if it ran no layout of contexts."""
    if not any(_is_layout(row) for row in group.rows):
        return []
    recommendations = answers_of(group.rows)
    if not recommendations:
        return [Answer(element_id, label, texts("answer_nothing_compared"))]
    return [
        Answer(
            element_id,
            label,
            _whole_sentence(recommendation, group, texts),
            list(_large_figures(recommendation, texts)),
            list(_remarks(recommendation, group.rows, texts)),
        )
        for recommendation in recommendations
    ]


def _whole_sentence(recommendation: Recommendation, group: Group, texts: Texts) -> str:
    """Return the answer; of conversations it begins with what a further one costs."""
    sentence = _sentence(recommendation, texts)
    if recommendation.without_reuse.scenario not in QUESTIONS[SESSIONS]:
        return sentence
    return texts.sentences([further_sentence(group.rows, texts), sentence])


def _models_not_covered(group: Group, texts: Texts) -> list[str]:
    """Return a sentence if the answers are not for all models that the user gave."""
    layouts = [answer.without_reuse for answer in answers_of(group.rows) if answer.is_of_the_run]
    given = max((layout.info.model_files for layout in layouts), default=0)
    covered: dict[str, str] = {}
    for layout in layouts:
        covered.update((model.digest, model.name) for model in layout.info.models)
    # Built-in models of a set differ by their seeds alone.
    are_built_in = any(short_name(name) != name for name in covered.values())
    if are_built_in or len(covered) >= given:
        return []
    names = texts.joined(covered.values())
    return [texts("models_not_covered", covered=len(covered), given=given, names=names)]


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


def _sentence(recommendation: Recommendation, texts: Texts) -> str:
    """Return the need of the contexts, the least that is enough, its speed, and its layout."""
    before = recommendation.without_reuse
    least = recommendation.least
    suffix = "_sessions" if has_conversations(before) else ""
    values = {
        "contexts": len(before.info.plan.contexts),
        "models": models_in_words(before.info.models),
        "memory": texts("memory_npu" if recommendation.memory == NPU else "memory_application"),
    }
    if least is before:
        has_others = len(recommendation.layouts) > 1
        need = texts(f"answer_need{suffix}", before=_mib(before, recommendation), **values)
        reason = texts("answer_nothing_saves" if has_others else "answer_one_layout")
        return texts.sentences([need, reason])
    values |= {
        "least": _mib(least, recommendation),
        "scenario": texts.scenario(least.scenario),
        "layout": layout_in_words(least, texts),
    }
    saving = recommendation.saving
    if saving is None:
        return texts(f"answer_fits{suffix}", **values)
    return texts(
        f"answer_sentence{suffix}",
        before=_mib(before, recommendation),
        percent=percent(saving.percent),
        speed=speed_in_words(recommendation, texts),
        **values,
    )


def _mib(row: Row, recommendation: Recommendation) -> str:
    """Return the memory of a layout, with its spread."""
    is_npu = recommendation.memory == NPU
    return mib(row.memory(recommendation.memory), is_npu)


def _large_figures(recommendation: Recommendation, texts: Texts) -> Iterator[LargeFigure]:
    yield _before(recommendation, texts)
    if recommendation.least is not recommendation.without_reuse:
        yield _least(recommendation, texts)
        yield _speed(recommendation, texts)


def _before(recommendation: Recommendation, texts: Texts) -> LargeFigure:
    row = recommendation.without_reuse
    head = texts("answer_before")
    memory = texts("memory_npu" if recommendation.memory == NPU else "answer_whole_process")
    if not row.measured:
        return LargeFigure(head, texts(f"outcome_{row.outcome}"), "", memory, is_word=True)
    return LargeFigure(head, *_size(row, recommendation), memory)


def _least(recommendation: Recommendation, texts: Texts) -> LargeFigure:
    saving = recommendation.saving
    saved = texts("answer_less", percent=percent(saving.percent)) if saving else ""
    head = texts("answer_least" if recommendation.outputs_compared else "answer_least_unchecked")
    return LargeFigure(head, *_size(recommendation.least, recommendation), saved)


def _speed(recommendation: Recommendation, texts: Texts) -> LargeFigure:
    """Return the rate with the least memory and its change, or why the change is not known."""
    row = recommendation.least
    change = recommendation.speed
    head = texts(_rate_key(row))
    if change is None:
        reason = "missing" if row.computes else "virtual"
        return _unknown_speed(head, reason, texts)
    if change.verdict == DISTURBED:
        return _unknown_speed(head, "short" if row.is_compared_with_short else "busy", texts)
    if change.verdict == ONE_REPEAT:
        return _unknown_speed(head, change.verdict, texts)
    rate, baseline_rate = _shown_rates(change)
    remark = texts(
        f"answer_speed_{change.verdict}",
        before=per_second(baseline_rate),
        change=percent(abs(change.change_percent), spread=True),
    )
    remarks = [remark]
    if has_conversations(row):
        remarks += _first_token(row, change.row.baseline, texts)
    elif row.latency and row.baseline and row.baseline.latency:
        latency = milliseconds(row.latency)
        before = milliseconds(row.baseline.latency)
        remarks.append(texts("answer_latency", latency=latency, before=before))
    value, _, spread = per_second(rate).partition(" ")
    return LargeFigure(head, value, spread, texts.joined(remarks))


def _shown_rates(change: SpeedChange) -> tuple[Figure, Figure]:
    """Return the rate and the baseline's: of conversations tokens, which turns are as many of."""
    row = change.row
    if has_conversations(row) and row.baseline:
        tokens = speed_figure(row, ALL_GENERATED)
        baseline_tokens = speed_figure(row.baseline, ALL_GENERATED)
        if tokens and baseline_tokens:
            return tokens, baseline_tokens
    return change.rate, change.baseline_rate


def _first_token(row: Row, baseline: Row | None, texts: Texts) -> Iterator[str]:
    own = speed_figure(row, FIRST_TOKEN)
    before = speed_figure(baseline, FIRST_TOKEN) if baseline else None
    if own and before:
        values = {"first": milliseconds(own), "before": milliseconds(before)}
        yield texts("answer_first_token", **values)


def _rate_key(row: Row) -> str:
    if has_conversations(row):
        return "answer_tokens"
    return "answer_frames" if row.schedule else "answer_inferences"


def _unknown_speed(head: str, reason: str, texts: Texts) -> LargeFigure:
    remark = texts(f"answer_speed_{reason}")
    return LargeFigure(head, texts("answer_unknown"), "", remark, is_word=True)


def _size(row: Row, recommendation: Recommendation) -> tuple[str, str]:
    """Return the number of MiB, and its unit with the spread."""
    value, _, spread = _mib(row, recommendation).partition(" ")
    return value, f"{spread} MiB".strip()


def _remarks(recommendation: Recommendation, rows: Sequence[Row], texts: Texts) -> Iterator[str]:
    least = recommendation.least
    if recommendation.without_reuse.scenario in QUESTIONS[SESSIONS]:
        yield from filter(None, [least_sentence(rows, texts)])
    if recommendation.as_little:
        yield texts("answer_as_little", layouts=_with_sizes(recommendation, texts))
    if recommendation.differing:
        differing = texts.scenarios(row.scenario for row in recommendation.differing)
        yield texts("answer_differing", scenarios=differing)
    if recommendation.has_other_tokens:
        yield texts("answer_other_tokens")
    elif least is not recommendation.without_reuse and not recommendation.outputs_compared:
        yield texts("answer_unchecked" if least.computes else "answer_unchecked_virtual")
    yield from filter(None, [patch_sentence(recommendation.without_reuse, texts)])
    # A shortage of memory makes no figure of NPU memory doubtful.
    if recommendation.memory == NPU:
        return
    if any(row.is_compared_with_short for row in recommendation.layouts):
        short = [row.scenario for row in recommendation.layouts if row.is_short]
        yield texts("opening_short", scenarios=texts.scenarios(short))


def _can_be_applied(groups: Sequence[Group]) -> bool:
    """Whether a program that nobody changes can have a part of a recommended layout."""
    runtimes = {entry.name for entry in RUNTIMES if entry.can_be_applied}
    for group in groups:
        recommendation = main_recommendation(group.rows)
        if recommendation and recommendation.saving and group.info.runtime in runtimes:
            contexts = recommendation.least.info.plan.contexts
            if any(one.source is not None or one.internal is not None for one in contexts):
                return True
    return False


def _with_sizes(recommendation: Recommendation, texts: Texts) -> str:
    """Return the layouts that take as little as the least one, each with its size."""
    layouts = []
    for row in recommendation.as_little:
        size = _mib(row, recommendation)
        layouts.append(texts("answer_layout", scenario=texts.scenario(row.scenario), size=size))
    return texts.joined(layouts)


def _meanings(groups: Sequence[Group], texts: Texts) -> list[tuple[str, Term]]:
    """Return the titles of the layouts that the figure shows, with their terms; plans have none."""
    names: dict[str, None] = {}
    for group in groups:
        for recommendation in answers_of(group.rows):
            names.update(dict.fromkeys(row.scenario for row in drawn_layouts(recommendation)))
    known = [name for name in names if f"about_{name}" in texts.words]
    return [(texts.scenario(name), Term(name, texts(f"about_{name}"))) for name in known]
