"""The question of dup, whose comparison also shows what others have published."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.results.published import PublishedRow
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import Page, Values


class DupSection(ComparisonSection):
    """Savings of contexts that are the dup of another."""

    template = "sections/dup.html.j2"

    def __init__(self) -> None:
        super().__init__("dup")

    def values(self, page: Page) -> Values:
        """Return the parts, and under which conditions the published figures were measured."""
        first = page.material.published[0]
        note = page.texts(
            "published_note",
            target=first.target,
            streams=first.streams,
            contexts=first.contexts,
            source=first.source,
        )
        return {**super().values(page), "published_note": note}

    def published(self, page: Page) -> Sequence[PublishedRow]:
        """Return all published rows: they are about dup."""
        return page.material.published
