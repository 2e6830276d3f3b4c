"""The figure of costs: CPU time of each command by the number of stored results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.report_scale.costs import FIRST, Cost

__all__ = ["draw"]

_COLUMNS = 3
_INCHES = (9.0, 7.0)
_COLOURS = ("#0072b2", "#d55e00", "#009e73")


def draw(costs: Sequence[Cost], path: Path) -> None:
    """Write the figure: a panel for each command, a line for each code, on logarithmic axes."""
    commands = list(dict.fromkeys(cost.command for cost in costs))
    rows = -(-len(commands) // _COLUMNS)
    # Equal costs give equal files.
    with mpl.rc_context({"svg.hashsalt": "reusebench", "svg.fonttype": "path"}):
        figure = Figure(_INCHES, layout="constrained")
        panels = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False)
        lines: dict[str, Line2D] = {}
        for panel, command in zip(panels.flat, commands):
            lines.update(_draw_panel(panel, costs, command))
            panel.set_title("first build of the index" if command == FIRST else command)
        for panel in panels.flat[max(0, len(commands) - _COLUMNS) :]:
            panel.tick_params(labelbottom=True)
        for panel in panels.flat[len(commands) :]:
            panel.set_axis_off()
        figure.supxlabel("stored results")
        figure.supylabel("CPU time, s")
        figure.legend(lines.values(), lines, loc="outside upper center", ncols=len(lines))
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_panel(panel: Axes, costs: Sequence[Cost], command: str) -> Iterator[tuple[str, Line2D]]:
    """Draw the medians of a command, and yield the line of each code that has it."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(alpha=0.3)
    for colour, code in zip(_COLOURS, dict.fromkeys(cost.code for cost in costs)):
        points: dict[int, list[float]] = {}
        for cost in costs:
            if cost.code == code and cost.command == command:
                points.setdefault(cost.results, []).append(cost.cpu_s)
        results = sorted(points)
        if results:
            medians = [median(points[count]) for count in results]
            (line,) = panel.plot(results, medians, marker="o", color=colour)
            yield code, line
