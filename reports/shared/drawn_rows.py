"""The rows that the figures of a whole group show."""

from __future__ import annotations

from reusebench.reports.results.rows import Group, Row
from reusebench.scenarios.catalogue import LIMIT


def drawn_rows(group: Group) -> list[Row]:
    """Return the rows of the first question that was measured, without variants if it has others.

    More lines could not be told apart in one figure.
    """
    for question, rows in group.questions.items():
        if question != LIMIT and any(row.measured for row in rows):
            return [row for row in rows if not row.is_variant] or rows
    return []
