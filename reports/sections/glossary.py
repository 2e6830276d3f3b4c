"""The project's words that the page uses."""

from __future__ import annotations

from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.section import Page, Section, Values

__all__ = ["GlossarySection", "glossary"]

#: Words that the page explains. The definitions of its figures have the others.
_ON_PAGE = (
    "context",
    "scenario",
    "baseline",
    "plan",
    "layout",
    "dup",
    "lean",
    "in_turn",
    "chain",
    "phase",
    "barrier",
    "ledger",
)


class GlossarySection(Section):
    """Words of the project, each with its meaning."""

    name = "glossary"

    def values(self, page: Page) -> Values:
        """Return (word, meaning), in the order of the texts."""
        meanings = glossary(page.texts)
        return {"meanings": [meanings[name] for name in _ON_PAGE]}


def glossary(texts: Texts) -> dict[str, tuple[str, str]]:
    """Return (word, meaning) of every word; docs/reference/glossary.md has more. Key: its name."""
    meanings = {}
    for name, meaning in texts.starting_with("meaning_of_").items():
        meanings[name] = (texts(f"word_{name}"), meaning)
    return meanings
