"""How a figure is drawn: as SVG to stand inside the page, once for wide screens and once for narrow ones.

Text and lines of the axes take the page's own colour, so one figure serves light and dark.
"""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from reports.base.svg import short_svg

#: Drawn in this colour, which stands nowhere else, and then replaced by the page's text colour.
INK = "#010203"
_WIDE_PX, _NARROW_PX = 860, 360
#: The most intervals between ticks, on wide figures and on narrow ones.
_TICKS = (6, 4)
#: In heights of the text: around the figure, and between its axes.
_PAD, _PAD_BETWEEN = 0.3, 0.8
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "reusebench",
    "figure.dpi": 72,
    "font.size": 12,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    # Set, a title's place is not looked for.
    "axes.titley": 1.0,
    # The lines of the grid say where a tick is.
    "xtick.bottom": False,
    "ytick.left": False,
    "xtick.major.pad": 6,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "lines.solid_capstyle": "butt",
    "path.simplify_threshold": 0.4,
    "axes.axisbelow": True,
}


@dataclass(frozen=True)
class Drawing:
    """One figure in its two widths, as SVG elements."""

    wide: str
    narrow: str


def drawing(draw: Callable[[Canvas, bool], None], height_px: Callable[[bool], int]) -> Drawing:
    """Return the figure that draw(canvas, narrow) draws, as high as height_px(narrow) says."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # The browser draws the text with its own fonts; matplotlib's need not have Chinese glyphs.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        return Drawing(*(_svg(draw, narrow, height_px(narrow)) for narrow in (False, True)))


def unique_ids(svg: str, prefix: str) -> str:
    """Return the element with its ids prefixed, in few characters, so that several may stand in one page."""
    short = f"f{zlib.crc32(prefix.encode()):x}"
    # Of safe markup a substitution would be escaped.
    svg = re.sub(r' id="([^"]+)"', rf' id="{short}-\1"', str(svg))
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{short}-", svg)


def _svg(draw: Callable[[Canvas, bool], None], narrow: bool, height_px: int) -> str:
    width_px = _NARROW_PX if narrow else _WIDE_PX
    canvas = Canvas(figsize=(width_px / 72, height_px / 72))
    canvas.patch.set_alpha(0)
    draw(canvas, narrow)
    for axes in canvas.axes:
        axes.patch.set_alpha(0)
        _thin_ticks(axes, narrow)
    file = io.StringIO()
    _lay_out(canvas)
    # Not savefig, which would draw everything twice.
    svg_canvas: Any = FigureCanvasSVG(canvas)
    svg_canvas.print_svg(file, metadata={"Date": None, "Creator": None})
    return short_svg(file.getvalue().replace(INK, "currentColor"))


def _thin_ticks(axes: Axes, narrow: bool) -> None:
    """Leave so many ticks where they are placed by themselves; each takes a millisecond."""
    for axis in (axes.xaxis, axes.yaxis):
        locator = axis.get_major_locator()
        if isinstance(locator, MaxNLocator):
            locator.set_params(nbins=_TICKS[narrow])


def _lay_out(canvas: Canvas) -> None:
    """Give the axes all the room that their texts leave."""
    for axes in canvas.axes:
        _measure_texts_alone(axes)
    # Once: the constrained layout measures every text twice.
    canvas.tight_layout(pad=_PAD, h_pad=_PAD_BETWEEN, w_pad=_PAD_BETWEEN)


def _measure_texts_alone(axes: Axes) -> None:
    """Leave out of the layout, which takes half of the time, what makes no difference to it."""
    for artist in (*axes.spines.values(), *axes.patches, *axes.lines, *axes.collections):
        artist.set_in_layout(False)
    for axis in (axes.xaxis, axes.yaxis):
        if not axis.label.get_text():
            # No place is looked for.
            axis.set_label_coords(0, 0)
