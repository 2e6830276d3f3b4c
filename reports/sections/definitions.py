"""Definitions of the page's figures."""

from __future__ import annotations

from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.section import Page, Section, Values


class DefinitionsSection(Section):
    """Definitions of figures; streams and leaks are left out if the page has none."""

    name = "definitions"

    def values(self, page: Page) -> Values:
        """Return (term, definition)."""
        texts = page.texts
        shown = definitions("", texts)
        if any(row.schedule for row in page.rows):
            shown += definitions("stream_", texts)
        if any(row.info.cycles for row in page.rows):
            shown += definitions("leak_", texts)
        return {"definitions": shown}


def definitions(kind: str, texts: Texts) -> list[tuple[str, str]]:
    """Return (term, definition) of each figure of a kind."""
    pairs = []
    for key, definition in texts.starting_with(f"{kind}define_").items():
        pairs.append((texts(f"{kind}term_{key}"), definition))
    return pairs
