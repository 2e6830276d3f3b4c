"""How a figure is drawn: as SVG to stand inside the page, once for wide screens and once for narrow ones.

Text and lines of the axes take the page's own colour, so one figure serves light and dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

__all__ = ["INK", "Canvas", "Drawing", "drawing", "unique_ids"]

#: Drawn in this colour, which stands nowhere else, and then replaced by the page's text colour.
INK = "#010203"
_WIDE_PX, _NARROW_PX = 860, 360
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
    "xtick.major.pad": 6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "lines.solid_capstyle": "butt",
    "path.simplify_threshold": 0.4,
    "axes.axisbelow": True,
}

#: What matplotlib says of each element and holds for all of them. The page has its own fonts.
_FOR_ALL = 'fill="currentColor" stroke-linejoin="round" font-size="12"'
_FOR_ALL_STYLES = ("font-size: 12px", "font-family: ", "fill: currentColor", "text-anchor: start")
#: Remarks, styles that would be those of the whole page, and what cannot be seen.
_NEEDLESS = re.compile(
    r'<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>|<path d="[^"]*" style="fill: none; opacity: 0"/>'
    r'|<g id="[^"]*"/>',
    re.DOTALL,
)
_TAG = re.compile(r"<(\w+)([^>]*?)(/?)>")
_BETWEEN_TAGS = re.compile(r">\s+<")
_ATTRIBUTE = re.compile(r'([\w:-]+)="([^"]*)"')
_LENGTHS = ("x", "y", "width", "height", "transform")
_DECIMALS = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r'(?:url\(|href=")#([^)"]+)')
_GROUP = re.compile(r"(<g(?: [^>/]*)?>|</g>)")
_SAME_STYLE = re.compile(r'<use [^>]*?( style="[^"]*")/>(?:<use [^>]*?\1/>)+')


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
    """Return the element with its ids prefixed, so that several may stand in one page."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)


def _svg(draw: Callable[[Canvas, bool], None], narrow: bool, height_px: int) -> str:
    width_px = _NARROW_PX if narrow else _WIDE_PX
    canvas = Canvas(figsize=(width_px / 72, height_px / 72), layout="constrained")
    canvas.patch.set_alpha(0)
    draw(canvas, narrow)
    for axes in canvas.axes:
        axes.patch.set_alpha(0)
    file = io.StringIO()
    _lay_out(canvas)
    # Not savefig, which would draw everything twice.
    FigureCanvasSVG(canvas).print_svg(file, metadata={"Date": None, "Creator": None})
    return _for_page(file.getvalue())


def _lay_out(canvas: Canvas) -> None:
    """Lay the axes out once: left in place, the engine would do it again when the figure is drawn."""
    for axes in canvas.axes:
        _measure_texts_alone(axes)
    engine = canvas.get_layout_engine()
    assert engine is not None
    engine.execute(canvas)
    canvas.set_layout_engine("none")


def _measure_texts_alone(axes: Axes) -> None:
    """Leave out of the layout, which takes half of the time, what makes no difference to it."""
    for artist in (*axes.spines.values(), *axes.patches, *axes.lines, *axes.collections):
        artist.set_in_layout(False)
    for axis in (axes.xaxis, axes.yaxis):
        if not axis.label.get_text():
            # No place is looked for.
            axis.set_label_coords(0, 0)


def _for_page(svg: str) -> str:
    """Return the svg element alone, in the page's colours, and without what makes no difference to the eye."""
    element = _NEEDLESS.sub("", svg[svg.index("<svg") :].replace(INK, "currentColor")).strip()
    used = list(dict.fromkeys(_REFERENCE.findall(element)))
    element = _TAG.sub(lambda tag: _short_tag(tag, used), _BETWEEN_TAGS.sub("><", element))
    for number, name in enumerate(used):
        element = element.replace(name, f"i{number}")
    element = _SAME_STYLE.sub(_style_once, _without_plain_groups(element.replace("<defs></defs>", "")))
    return element.replace("<svg ", f"<svg {_FOR_ALL} ", 1)


def _short_tag(tag: re.Match[str], used: Container[str]) -> str:
    """Return the tag with the attributes that say something, in few characters; of ids those that are used."""
    name, inside, end = tag.groups()
    attributes = {key: _short_value(key, value) for key, value in _ATTRIBUTE.findall(inside)}
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    return f"<{name}" + "".join(f' {key}="{value}"' for key, value in attributes.items() if value) + f"{end}>"


def _short_value(key: str, value: str) -> str:
    """Return an attribute's value; nothing where it says what stands without it."""
    if key == "style":
        return ";".join(part.replace(": ", ":") for part in value.split("; ") if not part.startswith(_FOR_ALL_STYLES))
    if key == "d":
        return _path(value)
    if value.startswith("rotate(-0 ") or key == "version":
        return ""
    return _rounded(value) if key in _LENGTHS else value


def _path(value: str) -> str:
    """Return a path's commands without the letters and spaces that are understood: after M and L a line goes on."""
    short = " ".join(value.split())
    curved = "C" in short or "Q" in short
    short = _rounded(short, 2) if curved else _rounded(short).replace(" L ", " ")
    return re.sub(r" ?([MLCQz]) ?", r"\1", short)


def _rounded(value: str, digits: int = 1) -> str:
    """Return coordinates in tenths of a pixel; the small shapes of markers are curved, and need hundredths."""
    return _DECIMALS.sub(lambda number: f"{float(number.group()):.{digits}f}".rstrip("0").rstrip("."), value)


def _without_plain_groups(svg: str) -> str:
    """Return the element without groups that are empty or say nothing of what is in them."""
    parts, opened = [], []
    for part in _GROUP.split(svg):
        if part.startswith("<g"):
            opened.append(part)
        if part != "<g>" and (part != "</g>" or opened.pop() != "<g>"):
            parts.append(part)
    return "".join(parts)


def _style_once(uses: re.Match[str]) -> str:
    """Return markers that look the same in a group that says how, once."""
    style = uses.group(1)
    return f"<g{style}>{uses.group().replace(style, '')}</g>"
