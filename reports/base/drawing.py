"""The drawing of figures: one width, and SVG that may stand inside a page or in a file of its own.

Text and lines of the axes take the page's own colour, so one figure serves light and dark. It is
scaled with the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reusebench.reports.base.figure_layout import BELOW_PAD_PX, LEFT_PAD_PX, WIDTH_PX, lay_out
from reusebench.reports.base.svg import element_of
from reusebench.reports.base.text_width import FONT_PX

#: A colour that is used nowhere else, and replaced by the page's text colour.
INK = "#010203"
#: Size of numbers at bars.
SMALL_FONT_PX = 11

# No other code of this program draws. A context for each figure would copy and check every
# parameter.
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "figure.dpi": 72,
        "font.size": FONT_PX,
        # A page has its own fonts.
        "font.sans-serif": ["DejaVu Sans"],
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": FONT_PX,
        "axes.titlelocation": "left",
        # Matplotlib looks for the place of a title unless it is fixed.
        "axes.titley": 1.0,
        "axes.grid": True,
        "axes.axisbelow": True,
        # The lines of the grid mark the ticks.
        "xtick.bottom": False,
        "ytick.left": False,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.major.pad": BELOW_PAD_PX,
        "ytick.major.pad": LEFT_PAD_PX,
        "text.color": INK,
        "text.parse_math": False,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": INK,
        "grid.alpha": 0.15,
        "lines.solid_capstyle": "butt",
        "path.simplify_threshold": 0.4,
        "legend.frameon": False,
    }
)

#: A function that draws a figure; it returns None if there is nothing to draw.
Draw = Callable[[], Optional[str]]


def new_canvas(height_px: float) -> Canvas:
    """Return an empty figure of this height, to which the legend adds its own."""
    return Canvas(figsize=(WIDTH_PX / 72, height_px / 72))


def svg_of(canvas: Canvas, legend: Sequence[Artist] = ()) -> str:
    """Return the figure as an SVG element, with the legend above its axes.

    The axes are in one grid; the entries of a legend come from patch() and line().
    """
    lay_out(canvas, legend)
    return element_of(canvas, INK)


def patch(label: str, colour: str, **look: Any) -> Artist:
    """Return an entry of a legend for areas of this colour."""
    return Patch(facecolor=colour, label=label, **look)


def line(label: str, color: str, **look: Any) -> Artist:
    """Return an entry of a legend for a line, or for marks."""
    return Line2D([], [], color=color, label=label, **look)


def frontier(axes: Axes, x: Sequence[float], y: Sequence[float], label: str) -> Artist:
    """Draw the line through the best layouts, and return its entry of the legend."""
    axes.plot(x, y, color=INK, linewidth=1.2)
    return line(label, INK, linewidth=1.2)


def mark(axes: Axes, x: float, y: float, marker: str, label: str) -> Artist:
    """Draw a mark around a point, and return its entry of the legend."""
    look: dict[str, Any] = {
        "marker": marker,
        "markersize": 9,
        "markerfacecolor": "none",
        "linestyle": "none",
    }
    axes.plot(x, y, color=INK, **look)
    return line(label, INK, **look)


def bars(
    axes: Axes,
    parts: Sequence[tuple[float, float, float]],
    height: float,
    **look: Any,
) -> None:
    """Draw horizontal bars, (start, length, middle of the row), as one artist.

    Each artist takes a millisecond.
    """
    corners = []
    for start, length, middle in parts:
        low = middle - height / 2
        high = middle + height / 2
        end = start + length
        corners.append([(start, low), (start, high), (end, high), (end, low)])
    axes.add_collection(PolyCollection(corners, **{"linewidth": 0, **look}))
    axes.autoscale_view()


def label(axes: Axes, text: str, end: float, middle: float, **look: Any) -> None:
    """Write a text after the end of a horizontal bar."""
    look = {"va": "center", "fontsize": SMALL_FONT_PX, **look}
    axes.annotate(text, (end, middle), (6, 0), textcoords="offset points", **look)


def whiskers(axes: Axes, ends: Sequence[tuple[float, float, float | None]]) -> None:
    """Draw the spread of repeats at the ends of horizontal bars: (end, middle, spread)."""
    known = [(end, middle, spread) for end, middle, spread in ends if spread]
    if known:
        positions, middles, spreads = zip(*known)
        axes.errorbar(
            positions,
            middles,
            xerr=spreads,
            fmt="none",
            ecolor=INK,
            capsize=3,
            elinewidth=1,
        )


def named_rows(axes: Axes, names: Sequence[str], middles: Sequence[float], end: float) -> None:
    """Name rows of bars at the left; the rows go from the top to `end`, in pixels."""
    axes.set_yticks(middles, names)
    axes.set_ylim(end, 0)
    axes.grid(axis="y", visible=False)
