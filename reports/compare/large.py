"""The rows of a large comparison that are shown: those that changed."""

from __future__ import annotations

from reusebench.reports.compare.changes import Change, Changes, Subject
from reusebench.reports.compare.difference import HIGHER, LOWER
from reusebench.reports.compare.names import short_names

__all__ = ["changed_rows", "is_large", "row_names"]

#: Rows of a comparison that is shown as a whole.
_MOST_ROWS = 20


def is_large(changes: Changes) -> bool:
    """Whether rows without a change are counted, and not shown."""
    return len(changes.rows) > _MOST_ROWS


def changed_rows(changes: Changes) -> tuple[Change, ...]:
    """Return the rows that got worse, those that got better, and changes without a verdict.

    The largest change of each comes first. A change has no verdict if the machine was busy or
    memory was short.
    """
    changed = []
    for change in changes.rows:
        if change.difference.verdict in (HIGHER, LOWER):
            changed.append(change)
    return tuple(sorted(changed, key=_rank))


def row_names(changes: Changes) -> dict[Subject, str]:
    """Return the shortest names that tell the rows apart, with the board if rows differ in it."""
    subjects = list(dict.fromkeys(change.subject for change in changes.rows))
    names = short_names([subject.configuration for subject in subjects])
    return {subject: subject.named(names[subject.configuration]) for subject in subjects}


def _rank(change: Change) -> tuple[int, float]:
    place = 0 if change.is_worse else 1 if change.is_better else 2
    return place, -abs(change.worsening / (change.difference.base_mean or 1))
