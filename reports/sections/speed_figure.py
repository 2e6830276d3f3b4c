"""The figure of memory against speed: a saving that costs frames stands above the one line and left of the other."""

from __future__ import annotations

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.texts import Texts
from reports.results.colours import OTHER_COLOUR, SCENARIO_COLOURS
from reports.results.questions import OTHER, QUESTIONS
from reports.results.rows import Group, Row
from reports.sections.speed import Weighed, weighed

#: Of each question, as matplotlib names it and as text; a scenario has a colour within its question.
_MARKERS = dict(zip((*QUESTIONS, OTHER), zip("os^Dv*hP", "●■▲◆▼★⬢✚")))
#: Percent of the baseline's throughput. What lies farther out is drawn here: one disturbed measurement would else leave
#: no room for the others.
_LOWEST, _HIGHEST = 50.0, 150.0
#: Percent, beside a point that is drawn at an end.
_ROOM = 3.0
#: Of the star, whose arms are thin, and of the others.
_STAR_SIZE, _SIZE = 13, 9


def speed_figure(group: Group, texts: Texts) -> Drawing | None:
    """Draw the memory that each scenario saves against its throughput; None where no speed was compared."""
    found = weighed(group)
    if not found:
        return None

    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        axes.axvline(100, color=INK, linewidth=0.8)
        axes.axhline(0, color=INK, linewidth=0.8)
        for each in found:
            _point(axes, each)
        axes.margins(0.08)
        left, right = axes.get_xlim()
        axes.set_xlim(max(left, _LOWEST - _ROOM), min(right, _HIGHEST + _ROOM))
        axes.set_xlabel(texts("axis_throughput_percent"))
        axes.set_ylabel(texts("axis_memory_saved_percent"))

    return drawing(draw, lambda narrow: 300 if narrow else 380)


def speed_legend(group: Group, texts: Texts) -> list[tuple[str, str, str]]:
    """Return name, colour and marker of each point of the figure."""
    rows = [each.row for each in weighed(group)]
    return [(texts.scenario(row.scenario), _colour(row), _MARKERS[row.question][1]) for row in rows]


def _point(axes: Axes, each: Weighed) -> None:
    """Draw a point with a whisker for each spread; at an end, where it does not belong, without that of speed."""
    marker = _MARKERS[each.row.question][0]
    throughput = 100 + each.throughput_change_percent.median
    shown = min(max(throughput, _LOWEST), _HIGHEST)
    axes.errorbar(
        shown,
        each.saved_percent.median,
        xerr=each.throughput_change_percent.spread if shown == throughput else None,
        yerr=each.saved_percent.spread,
        color=_colour(each.row),
        marker=marker,
        markersize=_STAR_SIZE if marker == "*" else _SIZE,
        markeredgecolor=INK,
        markeredgewidth=0.6,
        elinewidth=1,
        capsize=2,
    )


def _colour(row: Row) -> str:
    return SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR)
