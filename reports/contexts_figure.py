"""The figures of memory against the number of contexts."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from reports.colours import OTHER_COLOUR, SCENARIO_COLOURS
from reports.comparison import Row
from reports.contexts import context_costs, npu_totals
from reports.drawing import Canvas, Drawing, drawing
from reports.summary import Figure
from reports.texts import Texts

__all__ = ["contexts", "npu_contexts"]

MIB = 2**20


def contexts(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the memory over the do-nothing baseline against the number of contexts, measured at each context."""
    totals = {row: [cost.total for cost in context_costs(row)] for row in rows}
    return _against_contexts(totals, texts, "axis_over_baseline")


def npu_contexts(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the NPU memory against the number of contexts, by the account."""
    return _against_contexts({row: npu_totals(row) for row in rows}, texts, "axis_npu_memory")


def _against_contexts(totals: dict[Row, list[Figure]], texts: Texts, axis: str) -> Drawing | None:
    """Draw a line for each scenario that has figures."""
    if not any(totals.values()):
        return None

    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        for position, (row, figures) in enumerate(totals.items()):
            medians = [figure.median / MIB for figure in figures]
            spreads = [(figure.spread or 0) / MIB for figure in figures]
            # The first is a baseline, which another one may cover: it is wider, so that both are seen.
            width = 1.5 if position else 4.5
            axes.errorbar(
                range(1, len(figures) + 1),
                medians,
                spreads,
                color=SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR),
                marker="o",
                markersize=3 + width,
                linewidth=width,
                elinewidth=1.5,
                capsize=2,
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(texts("axis_contexts"))
        axes.set_ylabel(texts(axis))

    return drawing(draw, lambda narrow: 280 if narrow else 340)
