"""The project's words that the page uses."""

from __future__ import annotations

from reusebench.reports.sections.section import Page, Section, Values


class GlossarySection(Section):
    """Twelve words of the project, each with its meaning; docs/reference/glossary.md has all."""

    name = "glossary"

    def values(self, page: Page) -> Values:
        """Return (word, meaning), in the order of the texts."""
        texts = page.texts
        meanings = texts.starting_with("meaning_of_")
        return {"meanings": [(texts(f"word_{word}"), text) for word, text in meanings.items()]}
