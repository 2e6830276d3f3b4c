"""Definitions of the page's figures."""

from __future__ import annotations

from reusebench.reports.sections.leaks import leak_definitions
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.sections.streams import stream_definitions


class DefinitionsSection(Section):
    """Definitions of figures; streams and leaks are left out if the page has none."""

    name = "definitions"

    def values(self, page: Page) -> Values:
        """Return (term, definition)."""
        texts = page.texts
        definitions = [
            (texts(f"term_{key}"), text) for key, text in texts.starting_with("define_").items()
        ]
        definitions += stream_definitions(page.groups, texts)
        definitions += leak_definitions(page.groups, texts)
        return {"definitions": definitions}
