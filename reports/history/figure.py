"""The figures of histories: of each configuration a panel for each metric, run by run, with its change points."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.texts import Texts
from reports.base.units import number, scaled, shown_unit
from reports.history.levels import Change, History
from reports.history.series import Series
from storage.metrics import Metric

_LINE, _LEVEL, _CHANGE, _FAILED, _EVENT = "#0072b2", "#009e73", "#d55e00", "#cc3311", "#808080"
_PANEL_PX = 185
#: A line of more points looks the same; each point takes room in the page.
_MOST_POINTS = 200
#: With fewer points each is seen for itself.
_FEW_POINTS = 60
#: Shares of a panel: the room above the line for the sizes of changes, and where failed runs stand.
_HEADROOM, _FLOOR = 0.22, 0.06
#: Digits of a commit's id for which there is room.
_COMMIT = 7
#: Of a panel's width, at most: a letter of a label.
_LETTER = 0.024


@dataclass(frozen=True)
class _Stretch:
    """One point of the line, or several that are drawn as one; values in the unit that is shown."""

    place: float
    lowest: float
    median: float
    highest: float


def history_figure(histories: Sequence[History], texts: Texts) -> Drawing:
    """Draw the histories of one configuration's metrics beside each other, on narrow screens below each other."""

    def draw(canvas: Canvas, narrow: bool) -> None:
        columns = 1 if narrow else 2
        lines = _lines(histories, narrow)
        grid = list(canvas.subplots(lines, columns, squeeze=False).flat)
        for axes, history in zip(grid, histories):
            _panel(axes, history)
            axes.set_title(_title(history.series.metric, texts), loc="left")
        for axes in grid[len(histories) :]:
            axes.remove()

    return drawing(draw, lambda narrow: _PANEL_PX * _lines(histories, narrow))


def history_legend(texts: Texts) -> list[tuple[str, str, str]]:
    """Return what is drawn: the name, the colour and the mark of each."""
    entries = (
        ("line", _LINE, "\N{HORIZONTAL BAR}"),
        ("band", f"{_LINE}60", "\N{BLACK SQUARE}"),
        ("level", _LEVEL, "\N{HORIZONTAL BAR}"),
        ("change", _CHANGE, "\N{BOX DRAWINGS HEAVY VERTICAL}"),
        ("event", _EVENT, "\N{VERTICAL FOUR DOTS}"),
        ("failed", _FAILED, "\N{MULTIPLICATION SIGN}"),
        ("disturbed", _EVENT, "\N{WHITE CIRCLE}"),
    )
    return [(texts(f"history_legend_{name}"), colour, mark) for name, colour, mark in entries]


def _lines(histories: Sequence[History], narrow: bool) -> int:
    return len(histories) if narrow else -(-len(histories) // 2)


def _title(metric: Metric, texts: Texts) -> str:
    return texts("column_in_unit", name=texts(f"metric_{metric.name}"), unit=shown_unit(metric))


def _panel(axes: Axes, history: History) -> None:
    series = history.series
    _values(axes, series)
    _levels(axes, history)
    low, high = axes.get_ylim()
    axes.set_ylim(low - _FLOOR * (high - low), high + _HEADROOM * (high - low) * bool(history.changes))
    # A level that all ticks have in common would stand in the title's place.
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    last = max(1, len(series.points) - 1)
    axes.set_xlim(-0.03 * last, 1.03 * last)
    # All at once: where every run has another version, lines one by one take half of the time.
    events = [each.place - 0.5 for each in series.events]
    axes.vlines(events, 0, 1, color=_EVENT, linewidth=1.2, linestyle=":", transform=axes.get_xaxis_transform())
    for change in history.changes:
        axes.axvline(change.place - 0.5, color=_CHANGE, linewidth=1.4)
    for change in _labelled(history.changes, last):
        _label(axes, change, last)
    _failures(axes, series)
    _dates(axes, series)


def _values(axes: Axes, series: Series) -> None:
    drawn = list(_stretches(series))
    places = [each.place for each in drawn]
    axes.fill_between(
        places,
        [each.lowest for each in drawn],
        [each.highest for each in drawn],
        color=_LINE,
        alpha=0.25,
        linewidth=0,
    )
    marker = "." if len(drawn) <= _FEW_POINTS else ""
    axes.plot(places, [each.median for each in drawn], color=_LINE, linewidth=1.3, marker=marker, markersize=5)
    disturbed = [place for place in series.measured if series.points[place].is_disturbed]
    if disturbed:
        medians = [scaled(series.points[place].median, series.metric) for place in disturbed]
        axes.plot(disturbed, medians, "o", markersize=5, markerfacecolor="none", markeredgecolor=_EVENT)


def _stretches(series: Series) -> Iterator[_Stretch]:
    """Yield the points of the line; beyond so many, neighbours are drawn as one, with the range of all of them."""
    places, metric = series.measured, series.metric
    width = -(-len(places) // _MOST_POINTS)
    for start in range(0, len(places), width):
        taken = places[start : start + width]
        values = [scaled(value, metric) for place in taken for value in series.points[place].values]
        median = scaled(statistics.median(series.points[place].median for place in taken), metric)
        yield _Stretch(statistics.fmean(taken), min(values), median, max(values))


def _levels(axes: Axes, history: History) -> None:
    """Draw the levels where there are several: that of a series without change says nothing new."""
    if history.changes:
        for level in history.levels:
            axes.hlines(scaled(level.value, history.series.metric), level.first, level.last, color=_LEVEL, linewidth=1)


def _labelled(changes: Sequence[Change], last: int) -> Iterator[Change]:
    """Yield the changes that there is room to label, the largest first; the table has all of them."""
    taken: list[tuple[float, float]] = []
    for change in sorted(changes, key=lambda change: abs(change.point.difference.change), reverse=True):
        start, end = _room(change, last)
        if all(end < other_start or other_end < start for other_start, other_end in taken):
            taken.append((start, end))
            yield change


def _room(change: Change, last: int) -> tuple[float, float]:
    """Return from where to where the label of a change goes, as shares of the panel's width."""
    at, width = change.place / last, _LETTER * len(_size(change))
    return (at, at + width) if at < 0.5 else (at - width, at)


def _label(axes: Axes, change: Change, last: int) -> None:
    is_left = change.place / last < 0.5
    axes.annotate(
        _size(change),
        (change.place - 0.5, 1),
        (3 if is_left else -3, -1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="left" if is_left else "right",
        va="top",
        color=INK,
    )


def _size(change: Change) -> str:
    return number(change.point.difference.change, change.series.metric, sign=True)


def _failures(axes: Axes, series: Series) -> None:
    failed = [place for place, point in enumerate(series.points) if not point.values]
    if failed:
        places = [_FLOOR / 2] * len(failed)
        axes.plot(failed, places, "x", color=_FAILED, markersize=6, transform=axes.get_xaxis_transform())


def _dates(axes: Axes, series: Series) -> None:
    """Label the first run, the middle one and the last by their days, those of one day by their times, and commits."""
    count = len(series.points)
    places = sorted({0, (count - 1) // 2, count - 1})
    runs = [series.points[place].run for place in places]
    part = slice(10) if runs[0].moment[:10] != runs[-1].moment[:10] else slice(11, 16)
    axes.set_xticks(places, [f"{run.moment[part]}\n{(run.commit or '')[:_COMMIT]}".rstrip() for run in runs])
