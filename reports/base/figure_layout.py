"""The layout of a figure: places for the axes and the legend, so that all texts have room.

Matplotlib's own layouts draw every text once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Canvas
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import MaxNLocator

from reusebench.reports.base.text_width import FONT_PX, text_width, wrapped

#: Padding between an axis and its numbers, which are to its left or below.
LEFT_PAD_PX = 6.0
BELOW_PAD_PX = 10.0
#: Padding around the figure and between panels, and the height of a line of text.
EDGE_PX = 6.0
_BETWEEN_PX = 18.0
LINE_PX = 17.0
#: An entry of the legend: its mark, the gap to its text, and the gap to the next entry.
_MARK_EM = 1.4
_MARK_PAD_EM = 0.5
_ENTRY_GAP_EM = 1.6
#: The height of a line of entries.
_ENTRY_LINE_PX = 20
#: The most intervals between ticks, each of which takes a millisecond.
_MOST_X_TICKS = 6
_MOST_Y_TICKS = 5


@dataclass(frozen=True)
class _Labels:
    """Space in pixels that the labels of one pair of axes take."""

    left: float
    below: float
    #: The parts of the first and the last number that reach beyond the ends of the x axis.
    first_half: float
    last_half: float


def lay_out(canvas: Canvas, legend: Sequence[Artist] = ()) -> None:
    """Place the axes, which are in one grid, and the legend above them."""
    width_px, height_px = canvas.get_size_inches() * 72
    legend_px = _add_legend(canvas, legend, width_px) if legend else 0.0
    canvas.patch.set_visible(False)

    cells: dict[Axes, SubplotSpec] = {}
    labels: dict[Axes, _Labels] = {}
    for axes in canvas.axes:
        cell = axes.get_subplotspec()
        if cell:
            cells[axes] = cell
            labels[axes] = _prepare(axes)
    left, below = _grid_margins(cells, labels)
    right_px = max(EDGE_PX, *(space.last_half for space in labels.values()))
    # The space between panels is a share of a panel, which is the remaining space.
    gap_x = max(left[1:], default=0) + max(right_px, _BETWEEN_PX)
    columns = len(left)
    rows = len(below)
    panel_x = (width_px - EDGE_PX - left[0] - right_px - gap_x * (columns - 1)) / columns
    title_lines = max(_wrap_title(axes, panel_x) for axes in labels)
    title_px = LINE_PX * title_lines

    # The caller has counted a line of titles, but no further ones.
    height_px += legend_px + LINE_PX * max(0, title_lines - 1) * rows
    canvas.set_size_inches(width_px / 72, height_px / 72)
    top_px = legend_px + EDGE_PX + title_px
    bottom_px = EDGE_PX + below[-1]
    gap_y = max(below[:-1], default=0) + title_px + _BETWEEN_PX / 2
    panel_y = (height_px - top_px - bottom_px - gap_y * (rows - 1)) / rows
    canvas.subplots_adjust(
        left=(EDGE_PX + left[0]) / width_px,
        right=1 - right_px / width_px,
        bottom=bottom_px / height_px,
        top=1 - top_px / height_px,
        wspace=gap_x / panel_x,
        hspace=gap_y / panel_y,
    )
    for axes, space in labels.items():
        # Without coordinates all tick labels are measured once more. Panels may be of different
        # heights.
        axes_height_px = axes.get_position().height * height_px
        axes.yaxis.set_label_coords((LINE_PX / 2 - space.left) / panel_x, 0.5)
        axes.xaxis.set_label_coords(0.5, (LINE_PX - space.below) / axes_height_px)


def _prepare(axes: Axes) -> _Labels:
    """Limit the ticks of the axes, and return the space that the labels take."""
    axes.patch.set_visible(False)
    for axis, most_ticks in ((axes.xaxis, _MOST_X_TICKS), (axes.yaxis, _MOST_Y_TICKS)):
        locator = axis.get_major_locator()
        if isinstance(locator, MaxNLocator):
            locator.set_params(nbins=most_ticks)
    # This makes the ticks.
    for gridline in (*axes.get_xgridlines(), *axes.get_ygridlines()):
        # None is outside: a clip would make the page longer.
        gridline.set_clip_on(False)

    x_labels = _tick_labels(axes.xaxis)
    left_px = LINE_PX * bool(axes.get_ylabel())
    if _has_labels(axes.yaxis):
        left_px += _widest(_tick_labels(axes.yaxis)) + LEFT_PAD_PX
    below_px = LINE_PX * bool(axes.get_xlabel())
    if x_labels and _has_labels(axes.xaxis):
        lines = max(text.count("\n") + 1 for text in x_labels)
        below_px += LINE_PX * lines + BELOW_PAD_PX
    return _Labels(
        left=left_px,
        below=below_px,
        first_half=_widest(x_labels[:1]) / 2,
        last_half=_widest(x_labels[-1:]) / 2,
    )


def _wrap_title(axes: Axes, width_px: float) -> int:
    """Wrap the title of a panel to its width, and return the number of lines."""
    title = axes.get_title(loc="left")
    if not title:
        return 0
    lines = wrapped(title, width_px)
    axes.set_title(lines)
    return lines.count("\n") + 1


def _grid_margins(
    cells: Mapping[Axes, SubplotSpec],
    labels: Mapping[Axes, _Labels],
) -> tuple[list[float], list[float]]:
    """Return the space left of each column of the grid, and below each row."""
    rows, columns = next(iter(cells.values())).get_gridspec().get_geometry()
    left = [0.0] * columns
    below = [0.0] * rows
    for axes, cell in cells.items():
        column = cell.colspan.start
        row = cell.rowspan.start
        left[column] = max(left[column], labels[axes].left, labels[axes].first_half)
        below[row] = max(below[row], labels[axes].below)
    return left, below


def _widest(texts: Sequence[str]) -> float:
    lines = [line for text in texts for line in text.split("\n")]
    return max(map(text_width, lines), default=0.0)


def _has_labels(axis: Axis) -> bool:
    """Whether an axis has tick labels; older matplotlib names it labelleft for both axes."""
    look = axis.get_tick_params()
    return bool(look.get("labelbottom", look.get("labelleft", True)))


def _tick_labels(axis: Axis) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    positions = [position for position in axis.get_majorticklocs() if low <= position <= high]
    labels: list[str] = axis.get_major_formatter().format_ticks(positions)
    return labels


def _add_legend(canvas: Canvas, entries: Sequence[Artist], width_px: float) -> float:
    """Add the legend at the top, in as many columns as fit, and return its height in pixels.

    An entry that is wider than the figure has several lines.
    """
    around_px = FONT_PX * (_MARK_EM + _MARK_PAD_EM + _ENTRY_GAP_EM)
    further_lines = 0
    widths = []
    for entry in entries:
        text = wrapped(str(entry.get_label()), width_px - around_px)
        entry.set_label(text)
        further_lines += text.count("\n")
        widths.append(_widest([text]) + around_px)
    columns = len(entries)
    while columns > 1 and _legend_width(widths, columns) > width_px:
        columns -= 1
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
    lines = -(-len(entries) // columns)
    return _ENTRY_LINE_PX * lines + LINE_PX * further_lines + EDGE_PX


def _legend_width(widths: Sequence[float], columns: int) -> float:
    """Return the width of a legend whose entries have these widths."""
    # Matplotlib fills column by column; the first ones have one entry more.
    lines, longer = divmod(len(widths), columns)
    width = 0.0
    start = 0
    for column in range(columns):
        size = lines + (column < longer)
        width += max(widths[start : start + size])
        start += size
    return width
