"""What to write in an application: the program of the layout that is recommended, for each
runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import NotSupported
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.recommendation import main_recommendation
from reusebench.reports.results.rows import Group
from reusebench.snippets import snippet_of


@dataclass(frozen=True)
class CodeBlock:
    """A program that the page shows folded."""

    title: str
    #: None: the title says why there is none.
    text: str | None = None
    #: The id of the group that it is of.
    group: str = ""


def code_blocks(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[CodeBlock]:
    """Return the program of the layout that saves the most in each group, so labelled; or why there
    is none.
    """
    blocks = []
    for number, (group, label) in enumerate(zip(groups, labels)):
        recommendation = main_recommendation(group.rows)
        if recommendation and recommendation.least is not recommendation.without_reuse:
            info = recommendation.least.info
            subject = {"group": label, "scenario": texts.scenario(info.scenario)}
            blocks.append(
                replace(code_of(info.plan, info.chip, subject, texts), group=group_id(number))
            )
    return blocks


def code_of(plan: Plan, chip: str | None, subject: dict[str, str], texts: Texts) -> CodeBlock:
    """Return the program of a plan, or why there is none; `subject` is its `group` and `scenario`,
    in words.
    """
    try:
        snippet = snippet_of(plan, chip)
    except NotSupported as refusal:
        return CodeBlock(texts("code_refused", reason=texts.message(refusal.message), **subject))
    language = texts(f"code_language_{snippet.language}")
    return CodeBlock(texts("code_of", language=language, **subject), snippet.text)
