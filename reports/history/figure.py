"""The figures of histories: of each configuration a panel for each metric, run by run, with its
change points.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from reusebench.reports.base.drawing import (
    INK,
    SMALL_FONT_PX,
    line,
    new_canvas,
    patch,
    svg_of,
)
from reusebench.reports.base.formatting import in_metric_unit, metric_number, metric_unit
from reusebench.reports.base.text_width import text_width
from reusebench.reports.base.texts import Texts
from reusebench.reports.history.series import History, LevelChange, MetricSeries

_LINE, _LEVEL, _CHANGE, _FAILED, _EVENT = "#0072b2", "#009e73", "#d55e00", "#cc3311", "#808080"
_BAND_ALPHA = 0.25
_PANEL_PX = 185
_PANEL_WIDTH_PX = 330
#: A line of more points looks the same; a point makes the page larger.
_MOST_POINTS = 200
#: With fewer points each is seen for itself.
_FEW_POINTS = 60
#: Shares of a panel: the space above the line for the sizes of changes, and below it for failed
#: runs.
_HEADROOM = 0.22
_FLOOR = 0.06
#: Digits of a commit's id that fit below the axis.
_COMMIT = 7


@dataclass(frozen=True)
class _Stretch:
    """One point of the line, or several that are drawn as one; values in the unit that is shown."""

    position: float
    lowest: float
    median: float
    highest: float


def history_figure(histories: Sequence[History], texts: Texts) -> str:
    """Draw the histories of one configuration's metrics beside each other."""
    lines = -(-len(histories) // 2)
    canvas = new_canvas(_PANEL_PX * lines)
    axes_of = list(canvas.subplots(lines, 2, squeeze=False).flat)
    for axes, history in zip(axes_of, histories):
        _panel(axes, history)
        metric = history.series.metric
        axes.set_title(
            texts("column_in_unit", name=texts(f"metric_{metric.name}"), unit=metric_unit(metric))
        )
    for axes in axes_of[len(histories) :]:
        axes.remove()
    return svg_of(canvas, _legend(histories, texts))


def _legend(histories: Sequence[History], texts: Texts) -> list[Artist]:
    """Return the entries for what is drawn in some panel."""
    points = [point for history in histories for point in history.series.points]
    has_changes = any(history.changes for history in histories)
    has_events = any(history.series.events for history in histories)
    marks = {"linestyle": "none", "markersize": 5}
    entries: dict[str, tuple[bool, Artist]] = {
        "line": (True, line("", _LINE, linewidth=1.3, marker=".")),
        "band": (
            any(len(set(point.values)) > 1 for point in points),
            patch("", _LINE, alpha=_BAND_ALPHA),
        ),
        "level": (has_changes, line("", _LEVEL, linewidth=1)),
        "change": (has_changes, line("", _CHANGE, linewidth=1.4)),
        "event": (has_events, line("", _EVENT, linewidth=1.2, linestyle=":")),
        "failed": (
            any(not point.values for point in points),
            line("", _FAILED, marker="x", **marks),
        ),
        "disturbed": (
            any(point.is_disturbed and point.values for point in points),
            line("", _EVENT, marker="o", markerfacecolor="none", **marks),
        ),
    }
    for name, (_, entry) in entries.items():
        entry.set_label(texts(f"history_legend_{name}"))
    return [entry for is_drawn, entry in entries.values() if is_drawn]


def _panel(axes: Axes, history: History) -> None:
    series = history.series
    _values(axes, series)
    # The level of a series without change is nothing new.
    for level in history.levels if history.changes else ():
        axes.hlines(
            in_metric_unit(level.value, series.metric),
            level.first,
            level.last,
            color=_LEVEL,
            linewidth=1,
        )
    low, high = axes.get_ylim()
    axes.set_ylim(
        low - _FLOOR * (high - low), high + _HEADROOM * (high - low) * bool(history.changes)
    )
    # A level that all ticks have in common would stand in the title's place.
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    last = max(1, len(series.points) - 1)
    axes.set_xlim(-0.03 * last, 1.03 * last)
    # All at once: where every run has another version, lines one by one take half of the time.
    whole_height = axes.get_xaxis_transform()
    events = [event.position - 0.5 for event in series.events]
    axes.vlines(events, 0, 1, color=_EVENT, linewidth=1.2, linestyle=":", transform=whole_height)
    for change in history.changes:
        axes.axvline(change.position - 0.5, color=_CHANGE, linewidth=1.4)
    _label_changes(axes, history.changes, last)
    failed = [position for position, point in enumerate(series.points) if not point.values]
    floors = [_FLOOR / 2] * len(failed)
    axes.plot(failed, floors, "x", color=_FAILED, markersize=6, transform=whole_height)
    # The first run, the middle one and the last by their days, those of one day by their times, and
    # commits.
    count = len(series.points)
    positions = sorted({0, (count - 1) // 2, count - 1})
    runs = [series.points[position].run for position in positions]
    part = slice(10) if runs[0].moment[:10] != runs[-1].moment[:10] else slice(11, 16)
    axes.set_xticks(
        positions, [f"{run.moment[part]}\n{(run.commit or '')[:_COMMIT]}".rstrip() for run in runs]
    )


def _values(axes: Axes, series: MetricSeries) -> None:
    stretches = list(_stretches(series))
    positions = [stretch.position for stretch in stretches]
    lowest = [stretch.lowest for stretch in stretches]
    highest = [stretch.highest for stretch in stretches]
    axes.fill_between(positions, lowest, highest, color=_LINE, alpha=_BAND_ALPHA, linewidth=0)
    marker = "." if len(stretches) <= _FEW_POINTS else ""
    medians = [stretch.median for stretch in stretches]
    axes.plot(positions, medians, color=_LINE, linewidth=1.3, marker=marker, markersize=5)
    disturbed = [position for position in series.measured if series.points[position].is_disturbed]
    medians = [
        in_metric_unit(series.points[position].median, series.metric) for position in disturbed
    ]
    axes.plot(disturbed, medians, "o", markersize=5, markerfacecolor="none", markeredgecolor=_EVENT)


def _stretches(series: MetricSeries) -> Iterator[_Stretch]:
    """Yield the points of the line; beyond so many, neighbours are drawn as one, with the range of
    all of them.
    """
    positions = series.measured
    metric = series.metric
    width = -(-len(positions) // _MOST_POINTS)
    for start in range(0, len(positions), width):
        stretch = positions[start : start + width]
        values = [
            in_metric_unit(value, metric)
            for position in stretch
            for value in series.points[position].values
        ]
        median = in_metric_unit(
            statistics.median(series.points[position].median for position in stretch), metric
        )
        yield _Stretch(statistics.fmean(stretch), min(values), median, max(values))


def _label_changes(axes: Axes, changes: Sequence[LevelChange], last: int) -> None:
    """Write the sizes of the changes that fit, the largest first; the table has all of them."""
    taken: list[tuple[float, float]] = []
    for change in sorted(
        changes, key=lambda change: abs(change.point.difference.change), reverse=True
    ):
        size = metric_number(change.point.difference.change, change.series.metric, sign=True)
        # From where to where it goes, as shares of the panel's width.
        at = change.position / last
        width = (text_width(size, SMALL_FONT_PX) + 6) / _PANEL_WIDTH_PX
        is_left = at < 0.5
        start, end = (at, at + width) if is_left else (at - width, at)
        if all(end < other_start or other_end < start for other_start, other_end in taken):
            taken.append((start, end))
            axes.annotate(
                size,
                (change.position - 0.5, 1),
                (3 if is_left else -3, -1),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="left" if is_left else "right",
                va="top",
                color=INK,
                fontsize=SMALL_FONT_PX,
            )
