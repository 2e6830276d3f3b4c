"""How a figure is drawn: in one width, as SVG to stand inside the page or in a file of its own.

Text and lines of the axes take the page's own colour, so one figure serves light and dark; it is
scaled with the page.
"""

from __future__ import annotations

import functools
import gc
import io
import multiprocessing
import os
import re
import signal
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, Optional

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from reusebench.system.files import replacing
from reusebench.system.processes import end_with

#: Drawn in this colour, which stands nowhere else, and then replaced by the page's text colour.
INK = "#010203"
WIDTH_PX = 760
#: Of texts at axes and in legends, and of numbers at bars.
FONT_PX = 12
SMALL_FONT_PX = 11
#: Between axes and the numbers left of them, and below them; around the figure, between panels, and
#: of a line of text.
_LEFT_PAD_PX = 6.0
_BELOW_PAD_PX = 10.0
_EDGE_PX = 6.0
_BETWEEN_PX = 18.0
_LINE_PX = 17.0
#: Of an entry of the legend: its mark, from there to its text, to the next entry; and of a line of
#: entries.
_MARK_EM = 1.4
_MARK_PAD_EM = 0.5
_ENTRY_GAP_EM = 1.6
_ENTRY_LINE_PX = 20
#: The most intervals between ticks, each of which takes a millisecond.
_MOST_X_TICKS = 6
_MOST_Y_TICKS = 5

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
        # Set, a title's place is not looked for.
        "axes.titley": 1.0,
        "axes.grid": True,
        "axes.axisbelow": True,
        # The lines of the grid say where a tick is.
        "xtick.bottom": False,
        "ytick.left": False,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.major.pad": _BELOW_PAD_PX,
        "ytick.major.pad": _LEFT_PAD_PX,
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

#: Of matplotlib's SVG what a page does not need: remarks and styles for the whole page; and of each
#: tag the names of parts, digits that no screen shows, and what holds anyway.
_NEEDLESS = re.compile(
    r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>|\s*\n", re.DOTALL
)
_NEEDLESS_IN_TAGS = re.compile(
    r' id="[\w.]+_\d+"|(?<=\.\d\d)\d+| transform="rotate\(-0 [^)]*\)"'
    r'|font-size: 12px; |font-family: [^;"]*; |text-anchor: start; |; fill: currentColor(?=")'
)
#: What draws a figure; nothing where there is nothing to draw.
Draw = Callable[[], Optional[str]]
#: A figure on the pages of one language: the language, and the figure's name.
FigureKey = tuple[str, str]
Figures = Mapping[FigureKey, "Future[Optional[str]]"]
#: Shared with the processes that draw: they are forked, so it need not be sent.
_jobs: dict[FigureKey, Draw] = {}


def new_canvas(height_px: float) -> Canvas:
    """Return an empty figure of this height, to which that of its legend is added."""
    return Canvas(figsize=(WIDTH_PX / 72, height_px / 72))


def svg_of(canvas: Canvas, legend: Sequence[Artist] = ()) -> str:
    """Return the figure as an SVG element, with the legend above its axes.

    Its axes stand in one grid; a legend is made of what patch() and line() give.
    """
    lay_out(canvas, legend)
    file = io.StringIO()
    width_px, height_px = canvas.get_size_inches() * 72
    renderer: Any = _Renderer(width_px, height_px, file, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    canvas.draw(renderer)
    renderer.finalize()
    return _element(file.getvalue().replace(INK, "currentColor"))


def lay_out(canvas: Canvas, legend: Sequence[Artist] = ()) -> None:
    """Give axes and legend the places that their texts leave; matplotlib's own layouts draw every
    text once more.
    """
    legend_px = _add_legend(canvas, legend) if legend else 0.0
    width_px, plots_px = canvas.get_size_inches() * 72
    height_px = plots_px + legend_px
    canvas.set_size_inches(width_px / 72, height_px / 72)
    canvas.patch.set_visible(False)
    cells = [(axes, cell) for axes in canvas.axes if (cell := axes.get_subplotspec())]
    rows, columns = cells[0][1].get_gridspec().get_geometry()
    left = [0.0] * columns
    below = [0.0] * rows
    right = _EDGE_PX
    beside: dict[Axes, tuple[float, float]] = {}
    for axes, cell in cells:
        axes.patch.set_visible(False)
        for axis, most_ticks in ((axes.xaxis, _MOST_X_TICKS), (axes.yaxis, _MOST_Y_TICKS)):
            locator = axis.get_major_locator()
            if isinstance(locator, MaxNLocator):
                locator.set_params(nbins=most_ticks)
        x_labels = _tick_labels(axes.xaxis)
        y_labels = _tick_labels(axes.yaxis)
        left_px = _LINE_PX * bool(axes.get_ylabel())
        if _has_labels(axes.yaxis):
            left_px += _text_width(y_labels) + _LEFT_PAD_PX
        below_px = _LINE_PX * bool(axes.get_xlabel())
        if x_labels and _has_labels(axes.xaxis):
            below_px += _LINE_PX * max(text.count("\n") + 1 for text in x_labels) + _BELOW_PAD_PX
        beside[axes] = left_px, below_px
        # The first and the last number reach beyond the ends of the axis.
        left[cell.colspan.start] = max(
            left[cell.colspan.start], left_px, _text_width(x_labels[:1]) / 2
        )
        below[cell.rowspan.start] = max(below[cell.rowspan.start], below_px)
        right = max(right, _text_width(x_labels[-1:]) / 2)
    title_px = _LINE_PX * any(axes.get_title(loc="left") for axes in canvas.axes)
    top = legend_px + _EDGE_PX + title_px
    bottom = _EDGE_PX + below[-1]
    # The space between panels is a share of a panel, which is what remains.
    gap_x = max(left[1:], default=0) + max(right, _BETWEEN_PX)
    gap_y = max(below[:-1], default=0) + title_px + _BETWEEN_PX / 2
    panel_x = (width_px - _EDGE_PX - left[0] - right - gap_x * (columns - 1)) / columns
    panel_y = (height_px - top - bottom - gap_y * (rows - 1)) / rows
    canvas.subplots_adjust(
        left=(_EDGE_PX + left[0]) / width_px,
        right=1 - right / width_px,
        bottom=bottom / height_px,
        top=1 - top / height_px,
        wspace=gap_x / panel_x,
        hspace=gap_y / panel_y,
    )
    for axes, (left_px, below_px) in beside.items():
        # Else all tick labels are measured once more. Panels may be of different heights.
        axes.yaxis.set_label_coords((_LINE_PX / 2 - left_px) / panel_x, 0.5)
        axes.xaxis.set_label_coords(
            0.5, (_LINE_PX - below_px) / (axes.get_position().height * height_px)
        )


def patch(label: str, colour: str, **look: Any) -> Artist:
    """Return an entry of a legend for what is filled with this colour."""
    return Patch(facecolor=colour, label=label, **look)


def line(label: str, colour: str, **look: Any) -> Artist:
    """Return an entry of a legend for a line, or for marks."""
    return Line2D([], [], color=colour, label=label, **look)


def frontier(axes: Axes, x: Sequence[float], y: Sequence[float], label: str) -> Artist:
    """Draw the line through the layouts that none is better than, and return its entry of the
    legend.
    """
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
    axes: Axes, parts: Sequence[tuple[float, float, float]], height: float, **look: Any
) -> None:
    """Draw horizontal bars, (start, length, middle of the row), as one artist: an artist takes a
    millisecond.
    """
    corners = []
    for start, length, middle in parts:
        low = middle - height / 2
        high = middle + height / 2
        corners.append([(start, low), (start, high), (start + length, high), (start + length, low)])
    axes.add_collection(PolyCollection(corners, **{"linewidth": 0, **look}))
    axes.autoscale_view()


def label(axes: Axes, text: str, end: float, middle: float, **look: Any) -> None:
    """Write what a horizontal bar comes to behind its end."""
    look = {"va": "center", "fontsize": SMALL_FONT_PX, **look}
    axes.annotate(text, (end, middle), (6, 0), textcoords="offset points", **look)


def whiskers(axes: Axes, ends: Sequence[tuple[float, float, float | None]]) -> None:
    """Draw half the range between repeats at the ends of horizontal bars: end, middle and spread of
    each.
    """
    known = [(end, middle, spread) for end, middle, spread in ends if spread]
    if known:
        positions, middles, spreads = zip(*known)
        axes.errorbar(
            positions, middles, xerr=spreads, fmt="none", ecolor=INK, capsize=3, elinewidth=1
        )


def named_rows(axes: Axes, names: Sequence[str], middles: Sequence[float], end: float) -> None:
    """Name rows of bars at the left, from the top to the end in pixels."""
    axes.set_yticks(middles, names)
    axes.set_ylim(end, 0)
    axes.grid(axis="y", visible=False)


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size_px: float = FONT_PX) -> float:
    """Return the pixels of a line of text, at most; matplotlib's font has no Chinese characters,
    which are square.
    """
    return size_px * sum(map(_character_width, text))


def shortened(text: str, width_px: float) -> str:
    """Return a line of text that is no wider than this, without its end where it is."""
    if text_width(text) <= width_px:
        return text
    while text and text_width(f"{text}…") > width_px:
        text = text[:-1]
    return f"{text}…"


def start_drawing(jobs: Mapping[FigureKey, Draw]) -> Figures:
    """Have the machine's CPUs draw, and return what will be each figure; without /dev/shm this
    process draws.
    """
    if not jobs:
        return {}
    _jobs.clear()
    _jobs.update(jobs)
    workers = min(len(_jobs), os.cpu_count() or 1)
    try:
        context = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(
            workers, context, initializer=_begin_worker, initargs=(os.getpid(),)
        )
    except (
        OSError
    ):  # the locks between processes are files in /dev/shm, which small systems and containers lack
        return {key: _drawn_here(key) for key in _jobs}
    # A collection would write into every object that the processes share, and takes a quarter of
    # the time of drawing.
    gc.disable()
    figures = {key: pool.submit(_draw, key) for key in _jobs}
    pool.shutdown(wait=False)
    return figures


def finished(figures: Figures, language: str) -> dict[str, str]:
    """Return the figures of a language that there was something to draw for, by their names."""
    results = {
        name: future.result()
        for (of_language, name), future in figures.items()
        if of_language == language
    }
    return {name: svg for name, svg in results.items() if svg is not None}


def write_figures(figures: Mapping[str, str], folder: Path) -> Path:
    """Write each figure as NAME.svg into the folder, to be opened by itself, and return the
    folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in figures.items():
        file_name = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.")
        with replacing(folder / f"{file_name}.svg") as unfinished:
            unfinished.write_text(_as_file(svg), encoding="utf-8")
    return folder


def _begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the process that the figures are for, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    end_with(parent)


def _drawn_here(key: FigureKey) -> Future[Optional[str]]:
    figure: Future[Optional[str]] = Future()
    figure.set_result(_draw(key))
    return figure


def _draw(key: FigureKey) -> str | None:
    # Ids are digests of what they are of, and of this: so figures that stand in one page share
    # none.
    mpl.rcParams["svg.hashsalt"] = key[1]
    return _jobs[key]()


class _Renderer(RendererSVG):
    """Matplotlib's, which knows how wide Chinese characters are, and looks up no glyphs to know how
    wide others are.
    """

    def get_text_width_height_descent(
        self,
        s: str,
        prop: FontProperties,
        ismath: object = None,  # noqa: ARG002
    ) -> tuple[float, float, float]:
        """Return the size of a line of text in pixels."""
        size_px = prop.get_size_in_points()
        return text_width(s, size_px), size_px, 0.22 * size_px


@functools.cache
def _character_width(character: str) -> float:
    """Return the width of a character of DejaVu Sans, which is wider than most fonts, as a share of
    its size.
    """
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    font = get_font(findfont(FontProperties()))
    font.set_size(FONT_PX, 72)
    advance: float = font.load_char(ord(character)).linearHoriAdvance / 65536 / FONT_PX
    return advance


def _text_width(texts: Sequence[str]) -> float:
    lines = [part for text in texts for part in text.split("\n")]
    return max(map(text_width, lines), default=0.0)


def _has_labels(axis: Axis) -> bool:
    """Whether there are tick labels left of the axis or below it; older matplotlib calls both
    labelleft.
    """
    look = axis.get_tick_params()
    return bool(look.get("labelbottom", look.get("labelleft", True)))


def _tick_labels(axis: Axis) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    positions = [position for position in axis.get_majorticklocs() if low <= position <= high]
    labels: list[str] = axis.get_major_formatter().format_ticks(positions)
    return labels


def _add_legend(canvas: Canvas, entries: Sequence[Artist]) -> float:
    """Add the legend at the top, in as many columns as fit, and return its height in pixels."""
    around = FONT_PX * (_MARK_EM + _MARK_PAD_EM + _ENTRY_GAP_EM)
    widths = [text_width(str(entry.get_label())) + around for entry in entries]
    count = len(entries)
    for columns in range(count, 0, -1):
        # Matplotlib fills column by column; the first ones have one entry more.
        lines, longer = divmod(count, columns)
        sizes = [lines + (position < longer) for position in range(columns)]
        starts = [sum(sizes[:position]) for position in range(columns)]
        width = sum(max(widths[start : start + size]) for start, size in zip(starts, sizes))
        if width <= WIDTH_PX or columns == 1:
            break
    canvas.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        borderpad=0,
        ncols=columns,
        handlelength=_MARK_EM,
        handletextpad=_MARK_PAD_EM,
        columnspacing=_ENTRY_GAP_EM,
        labelspacing=(_ENTRY_LINE_PX - FONT_PX) / FONT_PX,
    )
    return _ENTRY_LINE_PX * -(-count // columns) + _EDGE_PX


def _element(svg: str) -> str:
    """Return the svg element of matplotlib's file without what makes no difference to the eye, half
    of it.
    """
    element = re.sub(">\\s+<", "><", _NEEDLESS.sub(" ", svg[svg.index("<svg") :])).strip()
    element = re.sub("<[^>]*>", lambda tag: _NEEDLESS_IN_TAGS.sub("", tag.group()), element)
    return element.replace(
        "<svg ", f'<svg font-size="{FONT_PX}" fill="currentColor" stroke-linejoin="round" ', 1
    )


def _as_file(svg: str) -> str:
    """Return an element of a page as a file, with the colours and the fonts that a page has and a
    file needs.
    """
    fonts = (
        "'DejaVu Sans', Verdana, Arial, 'Noto Sans CJK SC', 'Source Han Sans SC', 'Microsoft"
        " YaHei', sans-serif"
    )
    start, end, rest = svg.partition(">")
    start = re.sub(r'width="([\d.]+)pt" height="([\d.]+)pt"', r'width="\1" height="\2"', start)
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>'
    file = f'{start} font-family="{fonts}"{end}{paper}{rest}\n'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{file.replace("currentColor", "#1a1a1a")}'
