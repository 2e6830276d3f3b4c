"""The widths that figures are drawn for: a page shows the one that fits its window."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NARROW", "PAPERS", "WIDE", "Paper"]


@dataclass(frozen=True)
class Paper:
    """A width for figures, and what stands beside each other in it."""

    name: str
    width_px: float
    #: The most panels in a row.
    columns: int
    #: Whether a row has its name at the left of its bars; otherwise it stands above them.
    has_names_at_left: bool


WIDE = Paper("wide", 760, columns=2, has_names_at_left=True)
#: The width of a phone's window of 400 pixels, less the page's margins and a scroll bar.
NARROW = Paper("narrow", 360, columns=1, has_names_at_left=False)
PAPERS = (WIDE, NARROW)
