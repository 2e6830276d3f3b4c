"""The figure of memory against the number of resolutions of a network, with and without sharing its weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.ticker import MaxNLocator

from reports.base.drawing import Canvas, Drawing, drawing
from reports.base.statistics import Figure
from reports.base.texts import Texts
from reports.results.colours import SCENARIO_COLOURS
from reports.results.rows import Row

MIB = 2**20
#: Without and with sharing, by the scenario of all resolutions, whose colour the line has.
LINES = ("resolutions", "shared_weights")


def resolutions_figure(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw NPU memory, or where there is none application memory; None where one number alone was measured."""
    npu = any(row.memory("npu_memory_bytes") for row in rows)
    name = "npu_memory_bytes" if npu else "application_memory_over_baseline_bytes"
    of_line = {LINES[0]: _points(rows, name, shared=False), LINES[1]: _points(rows, name, shared=True)}
    counts = {count for points in of_line.values() for count in points}
    if len(counts) < 2:
        return None

    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        for line, points in of_line.items():
            medians = [figure.median / MIB for figure in points.values()]
            spreads = [(figure.spread or 0) / MIB for figure in points.values()]
            colour = SCENARIO_COLOURS[line]
            axes.errorbar(list(points), medians, spreads, color=colour, marker="o", linewidth=2, capsize=3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(min(counts) - 0.2, max(counts) + 0.2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(texts("axis_resolutions"))
        axes.set_ylabel(texts("axis_npu_memory" if npu else "axis_over_baseline"))

    return drawing(draw, lambda narrow: 240 if narrow else 280)


def _points(rows: Iterable[Row], name: str, *, shared: bool) -> dict[int, Figure]:
    """Return the memory by the number of models, which rises from row to row."""
    measured = ((len(row.info.models), row.memory(name)) for row in rows if bool(row.info.baseline) == shared)
    return dict(sorted((count, figure) for count, figure in measured if figure))
