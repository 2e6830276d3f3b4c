"""Code to write in an application: the program of the recommended layout of each runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import NotSupported
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.recommendation import answers_of
from reusebench.reports.results.rows import Group, Row
from reusebench.snippets import snippet_of


@dataclass(frozen=True)
class CodeBlock:
    """A program that the page shows folded."""

    title: str
    #: None if there is no program; the title gives the reason.
    text: str | None = None
    #: Element id of the group.
    group: str = ""


def code_blocks(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[CodeBlock]:
    """Return the program of each group's recommended layout, if it saves memory."""
    blocks = []
    for number, (group, label) in enumerate(zip(groups, labels)):
        for layout in _layouts_to_write(group):
            subject = {"group": label, "scenario": texts.scenario(layout.info.scenario)}
            block = code_of(layout.info.plan, layout.info.chip, subject, texts)
            blocks.append(replace(block, group=group_id(number)))
    return blocks


def _layouts_to_write(group: Group) -> list[Row]:
    """Return the layout with the least memory of each answer, if it saves any."""
    return [
        answer.least
        for answer in answers_of(group.rows)
        if answer.least is not answer.without_reuse
    ]


def code_of(plan: Plan, chip: str | None, subject: dict[str, str], texts: Texts) -> CodeBlock:
    """Return the program of a plan, or the reason why there is none.

    `subject` has the words for its `group` and its `scenario`.
    """
    try:
        snippet = snippet_of(plan, chip)
    except NotSupported as refusal:
        return CodeBlock(texts("code_refused", reason=texts.message(refusal.message), **subject))
    language = texts(f"code_language_{snippet.language}")
    return CodeBlock(texts("code_of", language=language, **subject), snippet.text)
