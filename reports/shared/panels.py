"""Figures of several panels with common axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from reusebench.reports.base.drawing import new_canvas
from reusebench.reports.base.paper import Paper


def new_panels(count: int, height_px: float, paper: Paper) -> tuple[Canvas, list[Axes]]:
    """Return a figure with `count` panels of this height, or more, in rows with common axes."""
    lines = math.ceil(count / paper.columns)
    canvas = new_canvas(height_px * lines + 40, paper)
    grid = canvas.subplots(lines, paper.columns, sharex=True, sharey=True, squeeze=False)
    return canvas, list(grid.flat)


def finish_panels(
    panels: Sequence[Axes], count: int, paper: Paper, ylabel: str, xlabel: str
) -> None:
    """Remove the panels after the first `count`, and name the outer axes of the others."""
    for index in range(count, len(panels)):
        panels[index].remove()
        # The panel above has become the lowest of its column.
        panels[index - paper.columns].tick_params(labelbottom=True)
    for axes in panels[: count : paper.columns]:
        axes.set_ylabel(ylabel)
    for axes in panels[:count][-paper.columns :]:
        axes.set_xlabel(xlabel)
