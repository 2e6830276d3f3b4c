"""Figures of several panels with common axes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

#: Panels in a row.
PANEL_COLUMNS = 2


def finish_panels(panels: Sequence[Axes], count: int, ylabel: str, xlabel: str) -> None:
    """Remove the panels after the first `count`, and name the outer axes of the others."""
    for index in range(count, len(panels)):
        panels[index].remove()
        # The panel above has become the lowest of its column.
        panels[index - PANEL_COLUMNS].tick_params(labelbottom=True)
    for axes in panels[:count:PANEL_COLUMNS]:
        axes.set_ylabel(ylabel)
    for axes in panels[:count][-PANEL_COLUMNS:]:
        axes.set_xlabel(xlabel)
