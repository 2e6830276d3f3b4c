"""The question of dup, whose comparison also shows what others have published."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.base.texts import Texts
from reusebench.reports.results.published import PublishedRow, comparable_rows
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import GroupView, Values


class DupSection(ComparisonSection):
    """Savings of contexts that are the dup of another."""

    template = "sections/dup.html.j2"

    def __init__(self) -> None:
        super().__init__("dup")

    def part(self, view: GroupView) -> Values:
        """Return the variables of a comparison, and the source of the published rows."""
        published = comparable_rows(view.group)
        note = published_note(published[0], view.texts) if published else ""
        return {**super().part(view), "published_note": note}

    def published(self, group: Group) -> Sequence[PublishedRow]:
        """Return the published rows that are comparable: they are about dup."""
        return comparable_rows(group)


def published_note(row: PublishedRow, texts: Texts) -> str:
    """Return under which conditions a published row was measured, and its source."""
    return texts(
        "published_note",
        target=row.target,
        streams=row.streams,
        contexts=row.contexts,
        source=row.source,
    )
