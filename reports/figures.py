"""The figures, as SVG to stand inside the page: each drawn once for wide screens and once for narrow ones.

Text and lines of the axes take the page's own colour, so one figure serves light and dark. The colours of series are
those of Okabe and Ito, which colour-blind readers tell apart, in shades that read on white and on black.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from reports.comparison import Group, Row
from reports.contexts import context_costs
from reports.texts import Texts
from storage.trace import read_trace

__all__ = ["PHASE_COLOURS", "SCENARIO_COLOURS", "Drawing", "bars", "contexts", "timeline"]

MIB = 2**20

SCENARIO_COLOURS = {
    "no_reuse": "#d55e00",
    "partial_dup": "#009e73",
    "no_reuse_one_model": "#cc79a7",
    "full_dup": "#0072b2",
    "shared_context": "#b8860b",
}
_OTHER_COLOUR = "#808080"
PHASE_COLOURS = {
    "imported": "#999999",
    "context": "#56b4e9",
    "first_inference": "#e69f00",
    "steady": "#009e73",
    "trimmed": "#f0e442",
    "destroy": "#cc79a7",
}
#: Drawn in this colour, which stands nowhere else, and then replaced by the page's text colour.
_INK = "#010203"
_WIDE_PX, _NARROW_PX = 860, 360
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "reusebench",
    "figure.dpi": 72,
    "font.size": 12,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "xtick.major.pad": 6,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.axisbelow": True,
}


@dataclass(frozen=True)
class Drawing:
    """One figure in its two widths, as SVG elements."""

    wide: str
    narrow: str


def bars(group: Group, texts: Texts) -> Drawing:
    """Draw the application memory of each scenario: the do-nothing baseline, and what stands over it."""
    rows = [row for row in group.rows if row.measured]

    def draw(canvas: Canvas, narrow: bool) -> None:
        axes = canvas.add_subplot()
        names = [texts.scenario(row.scenario) for row in rows]
        for position, row in enumerate(rows):
            _bar(axes, position, row, names[position] if narrow else "")
        axes.set_yticks(range(len(rows)), [""] * len(rows) if narrow else names)
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.16 if not narrow else 0.22)
        axes.set_xlim(left=0)
        axes.set_xlabel(texts("axis_application_memory"))

    return _drawing(draw, lambda narrow: (60 if narrow else 46) * len(rows) + 60)


def contexts(group: Group, texts: Texts) -> Drawing:
    """Draw the memory over the do-nothing baseline against the number of contexts, measured at each context."""

    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        for row in group.rows:
            costs = context_costs(row)
            numbers = [cost.number for cost in costs]
            totals = [cost.total.median / MIB for cost in costs]
            spreads = [(cost.total.spread or 0) / MIB for cost in costs]
            axes.errorbar(
                numbers, totals, spreads, color=colour(row.scenario), marker="o", markersize=4, linewidth=1.5, capsize=2
            )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        axes.set_xlabel(texts("axis_contexts"))
        axes.set_ylabel(texts("axis_over_baseline"))

    return _drawing(draw, lambda narrow: 280 if narrow else 340)


def timeline(group: Group, texts: Texts) -> Drawing | None:
    """Draw RSS over time in the first repeat of each scenario, with its phases; None where all traces are lost."""
    traces = [(row, trace) for row in group.rows if (trace := _first_trace(row, group.storage))]
    if not traces:
        return None

    def draw(canvas: Canvas, narrow: bool) -> None:
        columns = 1 if narrow else 2
        lines = -(-len(traces) // columns)
        grid = list(canvas.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, (row, trace) in zip(grid, traces):
            _timeline_panel(axes, trace, colour(row.scenario))
            axes.set_title(texts.scenario(row.scenario), loc="left")
        for place in range(len(traces), len(grid)):
            grid[place].remove()
            grid[place - columns].tick_params(labelbottom=True)
        canvas.supxlabel(texts("axis_time"), fontsize=12)
        canvas.supylabel(texts("axis_rss"), fontsize=12)

    return _drawing(draw, lambda narrow: 170 * (len(traces) if narrow else -(-len(traces) // 2)) + 40)


def colour(scenario: str) -> str:
    """Return the colour of a scenario, the same in every figure."""
    return SCENARIO_COLOURS.get(scenario, _OTHER_COLOUR)


def _bar(axes: Axes, position: int, row: Row, name: str) -> None:
    whole, baseline = row.memory("application_memory_bytes"), row.memory("baseline_memory_bytes")
    assert whole is not None
    assert baseline is not None
    over = (whole.median - baseline.median) / MIB
    error = whole.spread / MIB if whole.spread is not None else None
    height = 0.44 if name else 0.6
    axes.barh(position, baseline.median / MIB, height, color=_INK, alpha=0.3)
    axes.barh(position, over, height, left=baseline.median / MIB, color=colour(row.scenario))
    if error is not None:
        axes.errorbar(whole.median / MIB, position, xerr=error, color=_INK, capsize=3, linewidth=1)
    label = (whole.median + (whole.spread or 0)) / MIB
    axes.annotate(f"{whole.median / MIB:,.1f}", (label, position), (6, 0), textcoords="offset points", va="center")
    if name:
        axes.annotate(name, (0, position - height / 2), (0, 3), textcoords="offset points", va="bottom")


def _timeline_panel(axes: Axes, trace: dict[str, Any], line_colour: str) -> None:
    line = trace["timeline"]
    start = line["times_ns"][0]
    seconds = [(time_ns - start) / 1e9 for time_ns in line["times_ns"]]
    begin = 0.0
    for phase, end_ns in _phase_ends(trace["barriers"]):
        end = (end_ns - start) / 1e9
        axes.axvspan(begin, end, color=PHASE_COLOURS.get(phase, _OTHER_COLOUR), alpha=0.22, linewidth=0)
        begin = end
    axes.plot(seconds, [value / MIB for value in line["rss_bytes"]], color=line_colour, linewidth=1.4)
    barriers = [((record["at_ns"] - start) / 1e9, record["process"]["pss_bytes"] / MIB) for record in trace["barriers"]]
    axes.plot(*zip(*barriers), linestyle="none", marker="o", markersize=2.4, color=_INK)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)


def _phase_ends(barriers: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return each phase with the time of its last barrier, in order."""
    ends: dict[str, int] = {}
    for record in barriers:
        ends[record["phase"]] = record["at_ns"]
    return list(ends.items())


def _first_trace(row: Row, storage: Path) -> dict[str, Any] | None:
    if not row.measured:
        return None
    trace = read_trace(storage, row.info["repeats"][0]["trace"])
    return trace if trace and trace["timeline"]["times_ns"] else None


def _drawing(draw: Callable[[Canvas, bool], None], height_px: Callable[[bool], int]) -> Drawing:
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # The browser draws the text with its own fonts; matplotlib's need not have Chinese glyphs.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        return Drawing(*(_svg(draw, narrow, height_px(narrow)) for narrow in (False, True)))


def _svg(draw: Callable[[Canvas, bool], None], narrow: bool, height_px: int) -> str:
    width_px = _NARROW_PX if narrow else _WIDE_PX
    canvas = Canvas(figsize=(width_px / 72, height_px / 72), layout="constrained")
    canvas.patch.set_alpha(0)
    draw(canvas, narrow)
    for axes in canvas.axes:
        axes.patch.set_alpha(0)
    file = io.StringIO()
    FigureCanvasSVG(canvas)
    canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return _for_page(file.getvalue())


def _for_page(svg: str) -> str:
    """Return the svg element alone, in the page's colours."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    return element.replace(_INK, "currentColor").strip()


def unique_ids(svg: str, prefix: str) -> str:
    """Return the element with its ids prefixed, so that several may stand in one page."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)
