"""The section of one question: for each group the answers, what was promised, predicted and measured, the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.base.texts import Texts
from reports.explanation.table import explanation_sentences, explanation_table
from reports.results.labels import group_id
from reports.results.published import PublishedRow
from reports.results.questions import QUESTIONS
from reports.results.rows import Group, Row
from reports.sections import tables as page_tables
from reports.sections.answers import answers, not_supported
from reports.sections.copies_table import by_size, copies_table
from reports.streams.frames import STREAMS
from reports.streams.section import streams_parts

#: The question that the published figures answer.
PUBLISHED_QUESTION = next(iter(QUESTIONS))
#: The question with a table of its own.
_COPIES = "io_copies"


def asked_questions(groups: Sequence[Group]) -> list[str]:
    """Return the questions that a group has rows for, in their order."""
    asked = [name for group in groups for name in group.questions]
    return sorted(set(asked), key=lambda name: list(QUESTIONS).index(name) if name in QUESTIONS else len(QUESTIONS))


def question_section(
    name: str, groups: Sequence[Group], labels: Sequence[str], published: Sequence[PublishedRow], texts: Texts
) -> dict[str, Any]:
    """Return what the page says of one question, group by group."""
    parts = [
        {"group": group_id(number), "label": label, **_part(name, group, published, texts)}
        for number, (group, label) in enumerate(zip(groups, labels))
        if name in group.questions
    ]
    return {"id": name, "title": texts(f"question_{name}"), "is_published": name == PUBLISHED_QUESTION, "parts": parts}


def _part(name: str, group: Group, published: Sequence[PublishedRow], texts: Texts) -> dict[str, Any]:
    rows = group.questions[name]
    if name == STREAMS:
        return {"workloads": streams_parts(group, published, texts), "not_supported": not_supported(rows, texts)}
    return {
        "answers": _answers(name, rows, texts),
        "not_supported": not_supported(rows, texts),
        "reasons": explanation_sentences(rows, texts),
        "explanation": explanation_table(rows, texts),
        "components": page_tables.components(rows, texts),
        "by_runtime": any(account.source == "runtime" for row in rows for account in row.accounts),
        "parts": None if group.has_npu_memory else page_tables.parts(rows, texts),
        "comparison": page_tables.comparison(group, rows, published if name == PUBLISHED_QUESTION else (), texts),
        "copies": copies_table(group, rows, texts) if name == _COPIES else None,
    }


def _answers(name: str, rows: Sequence[Row], texts: Texts) -> list[tuple[str, list[str]]]:
    """Return the answers by the size of the tensors where that is part of the question, else below no heading."""
    parts = by_size(rows, texts) if name == _COPIES else {"": list(rows)}
    return [(size, sentences) for size, of_size in parts.items() if (sentences := answers(of_size, texts))]
