"""The figures of memory against the number of contexts, with the lines fitted through it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.base.drawing import Canvas, Drawing, drawing
from reports.base.statistics import Figure
from reports.base.texts import Texts
from reports.results.colours import OTHER_COLOUR, SCENARIO_COLOURS
from reports.results.rows import Row
from reports.sections.contexts import LineFit, context_costs, fit, npu_totals

MIB = 2**20
#: Points, of the markers.
_LARGEST, _SMALLEST = 10, 3


def contexts(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the memory over the do-nothing baseline against the number of contexts, measured at each context."""
    totals = {row: [cost.total for cost in context_costs(row)] for row in rows}
    return _against_contexts(totals, {row: fit(row, npu=False) for row in rows}, texts, "axis_over_baseline")


def npu_contexts(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the NPU memory against the number of contexts, by the account."""
    totals = {row: npu_totals(row) for row in rows}
    return _against_contexts(totals, {row: fit(row, npu=True) for row in rows}, texts, "axis_npu_memory")


def _against_contexts(
    totals: dict[Row, list[Figure]], lines: dict[Row, LineFit | None], texts: Texts, axis: str
) -> Drawing | None:
    """Draw the points of each scenario that has figures, and the line fitted through them."""
    if not any(totals.values()):
        return None

    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        for position, (row, figures) in enumerate(totals.items()):
            colour, line = SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR), lines[row]
            # Equal figures cover each other: points are smaller than those before them, so that all are seen.
            _points(axes, figures, colour, max(_LARGEST - position, _SMALLEST), joined=line is None)
            if line:
                _line(axes, line, len(figures), colour)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(texts("axis_contexts"))
        axes.set_ylabel(texts(axis))

    return drawing(draw, lambda narrow: 280 if narrow else 340)


def _points(axes: Axes, figures: Sequence[Figure], colour: str, size: int, *, joined: bool) -> None:
    """Draw a point for each number of contexts; they are joined where no line is fitted through them."""
    axes.errorbar(
        range(1, len(figures) + 1),
        [figure.median / MIB for figure in figures],
        [(figure.spread or 0) / MIB for figure in figures],
        color=colour,
        marker="o",
        markersize=size,
        linewidth=size / 3,
        linestyle="-" if joined else "none",
        elinewidth=1.5,
        capsize=2,
    )


def _line(axes: Axes, line: LineFit, count: int, colour: str) -> None:
    """Draw the fitted line from no context on, so that its intercept is seen."""
    ends = [(line.intercept.median + line.slope.median * number) / MIB for number in (0, count)]
    axes.plot((0, count), ends, color=colour, linewidth=1, linestyle="--")
