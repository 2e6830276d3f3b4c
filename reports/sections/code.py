"""What to write in an application: the program of the layout that is recommended, for each runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.base.texts import Texts
from reports.results.labels import group_id
from reports.results.rows import Group, Row
from reports.results.savings import best_percent
from runtimes.base import NotSupported
from snippets import Snippet, snippet_of


def code_blocks(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[dict[str, Any]]:
    """Return the program of each group, so labelled, whose memory some layout saves; or why there is none."""
    blocks = []
    for number, (group, label) in enumerate(zip(groups, labels)):
        row = _least(group)
        if row is not None:
            blocks.append({"group": group_id(number), **_block(row, label, texts)})
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


def _least(group: Group) -> Row | None:
    """Return the layout that saves the most memory with equal outputs; None where none saves."""
    rows = [row for row in group.rows if row.is_compared and row.measured]
    best = max(rows, key=lambda row: best_percent(row.main_saving), default=None)
    return best if best and best_percent(best.main_saving) else None
