"""What to write in an application: the program of the layout that is recommended, for each runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.base.texts import Texts
from reports.results.labels import group_id
from reports.results.recommendation import main_recommendation
from reports.results.rows import Group, Row
from runtimes.base import NotSupported
from snippets import Snippet, snippet_of


def code_blocks(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[dict[str, Any]]:
    """Return the program of the layout that saves the most in each group, so labelled; or why there is none."""
    blocks = []
    for number, (group, label) in enumerate(zip(groups, labels)):
        recommendation = main_recommendation(group.rows)
        if recommendation and recommendation.least is not recommendation.without_reuse:
            blocks.append({"group": group_id(number), **_block(recommendation.least, label, texts)})
    return blocks


def _block(row: Row, label: str, texts: Texts) -> dict[str, Any]:
    values = {"group": label, "scenario": texts.scenario(row.scenario)}
    snippet = _snippet(row)
    if isinstance(snippet, NotSupported):
        return {"title": texts("code_refused", reason=texts.message(snippet.message), **values), "text": None}
    language = texts(f"code_language_{snippet.language}")
    return {"title": texts("code_of", language=language, **values), "text": snippet.text}


def _snippet(row: Row) -> Snippet | NotSupported:
    try:
        return snippet_of(row.info.plan, row.info.chip)
    except NotSupported as refusal:
        return refusal
