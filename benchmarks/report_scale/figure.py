"""The figure of costs: time of each command by the number of stored results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
        for panel, command in zip(panels.flat, commands):
            _draw_panel(panel, [cost for cost in costs if cost.command == command])
            panel.set_title("first build of the index" if command == FIRST else command)
        for panel in panels.flat[len(commands) :]:
            panel.set_axis_off()
        figure.supxlabel("stored results")
        figure.supylabel("time, s")
        handles, names = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=len(names))
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_panel(panel: Axes, costs: Sequence[Cost]) -> None:
    for colour, code in zip(_COLOURS, _codes(costs)):
        points: dict[int, list[float]] = {}
        for cost in costs:
            if cost.code == code:
                points.setdefault(cost.results, []).append(cost.elapsed_s)
        results = sorted(points)
        panel.plot(
            results,
            [median(points[count]) for count in results],
            marker="o",
            color=colour,
            label=code,
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(alpha=0.3)


def _codes(costs: Iterable[Cost]) -> list[str]:
    return list(dict.fromkeys(cost.code for cost in costs))
