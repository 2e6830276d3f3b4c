"""The drawing of figures on a paper, wide or narrow, as SVG that may stand inside a page or a file.

Text and lines of the axes take the page's own colour, so one figure serves light and dark. It is
scaled with the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reusebench.reports.base.figure_layout import (
    BELOW_PAD_PX,
    EDGE_PX,
    LEFT_PAD_PX,
    LINE_PX,
    lay_out,
)
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.svg import element_of
from reusebench.reports.base.text_width import FONT_PX, text_width, wrapped

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

#: A function that draws a figure on a paper; it returns None if there is nothing to draw.
Draw = Callable[[Paper], Optional[str]]
#: Pixels between the end of a bar and its number.
_LABEL_GAP_PX = 6


def new_canvas(height_px: float, paper: Paper = WIDE) -> Canvas:
    """Return an empty figure of this height, to which the legend adds its own."""
    return Canvas(figsize=(paper.width_px / 72, height_px / 72))


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


#: The texts after the ends of horizontal bars: (text, end, middle of the row).
Labels = Sequence[tuple[str, float, float]]


def write_labels(axes: Axes, labels: Labels) -> None:
    """Write texts after the ends of horizontal bars."""
    look: dict[str, Any] = {"va": "center", "fontsize": SMALL_FONT_PX}
    for text, end, middle in labels:
        place = (_LABEL_GAP_PX, 0)
        axes.annotate(text, (end, middle), place, textcoords="offset points", **look)


def end_with_room(labels: Labels, panel_px: float) -> float:
    """Return the end of an axis from 0, `panel_px` wide, on which the texts have room."""
    ends = []
    for text, end, _ in labels:
        text_px = text_width(text, SMALL_FONT_PX) + 2 * _LABEL_GAP_PX
        ends.append(end / max(1 - text_px / panel_px, 0.25))
    return max(ends, default=0.0) or 1.0


def whiskers(
    axes: Axes, ends: Sequence[tuple[float, float, float | None]], cap_px: float = 3
) -> None:
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
            capsize=cap_px,
            elinewidth=1,
        )


@dataclass
class Rows:
    """Rows of bars below each other, in pixels from the top; a name is at the left, or above."""

    paper: Paper
    #: The height of all rows so far.
    end_px: float = 0.0
    _names: list[str] = field(default_factory=list)
    #: The middle of each name.
    _middles: list[float] = field(default_factory=list)

    def add(self, name: str, height_px: float) -> float:
        """Add a row whose bars have this height, and return the top of the bars."""
        top_px = self.end_px
        if self.paper.has_names_at_left:
            self._middles.append(top_px + height_px / 2)
        else:
            name = wrapped(name, self.paper.width_px - 4 * EDGE_PX)
            name_px = LINE_PX * (name.count("\n") + 1)
            self._middles.append(top_px + name_px / 2)
            top_px += name_px
        self._names.append(name)
        self.end_px = top_px + height_px
        return top_px

    @property
    def panel_px(self) -> float:
        """The width that is left for bars, about."""
        names_px = 0.0
        if self.paper.has_names_at_left:
            names_px = max(map(text_width, self._names), default=0.0) + LEFT_PAD_PX
        return self.paper.width_px - names_px - 3 * EDGE_PX

    def draw_names(self, axes: Axes) -> None:
        """Write the names, and limit the axes to the rows."""
        axes.set_ylim(self.end_px, 0)
        axes.grid(axis="y", visible=False)
        if self.paper.has_names_at_left:
            axes.set_yticks(self._middles, self._names)
            return
        axes.set_yticks([])
        for name, middle in zip(self._names, self._middles):
            axes.annotate(
                name,
                (0, middle),
                (3, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
            )
