"""The figures of histories: a panel per metric of a configuration, run by run, with changes."""

from __future__ import annotations

import math
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
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.text_width import text_width
from reusebench.reports.base.texts import Texts
from reusebench.reports.history.series import History, LevelChange, MetricSeries
from reusebench.reports.results.colours import OTHER_COLOUR, PALETTE

_LINE, _CHANGE, _LEVEL = PALETTE[:3]
_FAILED = PALETTE[6]
_EVENT = OTHER_COLOUR
_OUTLIER = PALETTE[9]
_BAND_ALPHA = 0.25
_PANEL_PX = 185
_PANEL_WIDTH_PX = 300
#: Limit of the points of a line; more look the same, and make the page larger.
_MOST_POINTS = 200
#: Limit up to which each point gets a marker.
_FEW_POINTS = 60
#: Space above the line for the sizes of changes, as a share of the panel.
_HEADROOM = 0.22
#: Space below the line for failed runs, as a share of the panel.
_FLOOR = 0.06
#: Digits of a commit's id that fit below the axis.
_COMMIT = 7


@dataclass(frozen=True)
class _DrawnPoint:
    """A point of the line, which may stand for several runs, in the unit that is shown."""

    position: float
    lowest: float
    median: float
    highest: float


def history_figure(
    histories: Sequence[History],
    texts: Texts,
    paper: Paper = WIDE,
    names: Sequence[str] | None = None,
) -> str:
    """Draw histories, two in a row on wide paper, with their metrics and `names` as titles.

    Without names they are of one configuration, which the page names.
    """
    row_count = math.ceil(len(histories) / paper.columns)
    canvas = new_canvas(_PANEL_PX * row_count, paper)
    panels = list(canvas.subplots(row_count, paper.columns, squeeze=False).flat)
    for index, (axes, history) in enumerate(zip(panels, histories)):
        _panel(axes, history)
        metric = history.series.metric
        title = texts(
            "column_in_unit", name=texts(f"metric_{metric.name}"), unit=metric_unit(metric)
        )
        axes.set_title(f"{names[index]}{texts('colon')}{title}" if names else title)
    for axes in panels[len(histories) :]:
        axes.remove()
    return svg_of(canvas, _legend(histories, texts))


def _legend(histories: Sequence[History], texts: Texts) -> list[Artist]:
    """Return the entries for the marks in the panels."""
    points = [point for history in histories for point in history.series.points]
    marks = {"linestyle": "none", "markersize": 5}
    entries: dict[str, Artist] = {"line": line("", _LINE, linewidth=1.3, marker=".")}
    if any(len(set(point.values)) > 1 for point in points):
        entries["band"] = patch("", _LINE, alpha=_BAND_ALPHA)
    if any(history.changes or history.has_trend for history in histories):
        entries["level"] = line("", _LEVEL, linewidth=1)
    if any(history.changes for history in histories):
        entries["change"] = line("", _CHANGE, linewidth=1.4)
    if any(history.outliers for history in histories):
        entries["outlier"] = line("", _OUTLIER, marker="D", markerfacecolor="none", **marks)
    if any(history.series.events for history in histories):
        entries["event"] = line("", _EVENT, linewidth=1.2, linestyle=":")
    if any(not point.values for point in points):
        entries["failed"] = line("", _FAILED, marker="x", **marks)
    if any(point.is_disturbed and point.values for point in points):
        entries["disturbed"] = line("", _EVENT, marker="o", markerfacecolor="none", **marks)
    for name, entry in entries.items():
        entry.set_label(texts(f"history_legend_{name}"))
    return list(entries.values())


def _panel(axes: Axes, history: History) -> None:
    series = history.series
    _draw_values(axes, series)
    if history.changes or history.has_trend:
        _draw_levels(axes, history)
    outliers = list(history.outliers)
    medians = [in_metric_unit(series.point(place).median, series.metric) for place in outliers]
    axes.plot(
        outliers, medians, "D", markersize=5, markerfacecolor="none", markeredgecolor=_OUTLIER
    )

    low, high = axes.get_ylim()
    headroom = _HEADROOM if history.changes else 0.0
    axes.set_ylim(low - _FLOOR * (high - low), high + headroom * (high - low))
    # A common offset of all ticks would be written over the title.
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    last = max(1, len(series) - 1)
    axes.set_xlim(-0.03 * last, 1.03 * last)

    # One call for all events: single lines take half of the time if every run has another version.
    whole_height = axes.get_xaxis_transform()
    events = [event.position - 0.5 for event in series.events]
    axes.vlines(events, 0, 1, color=_EVENT, linewidth=1.2, linestyle=":", transform=whole_height)
    for change in history.changes:
        axes.axvline(change.position - 0.5, color=_CHANGE, linewidth=1.4)
    _label_changes(axes, history.changes, last)
    failed = [position for position, point in enumerate(series.points) if not point.values]
    floors = [_FLOOR / 2] * len(failed)
    axes.plot(failed, floors, "x", color=_FAILED, markersize=6, transform=whole_height)
    _label_runs(axes, series)


def _draw_values(axes: Axes, series: MetricSeries) -> None:
    points = list(_drawn_points(series))
    positions = [point.position for point in points]
    lowest = [point.lowest for point in points]
    highest = [point.highest for point in points]
    medians = [point.median for point in points]
    axes.fill_between(positions, lowest, highest, color=_LINE, alpha=_BAND_ALPHA, linewidth=0)
    marker = "." if len(points) <= _FEW_POINTS else ""
    axes.plot(positions, medians, color=_LINE, linewidth=1.3, marker=marker, markersize=5)

    all_points = series.points
    disturbed = [position for position in series.measured if all_points[position].is_disturbed]
    medians = [in_metric_unit(all_points[position].median, series.metric) for position in disturbed]
    axes.plot(disturbed, medians, "o", markersize=5, markerfacecolor="none", markeredgecolor=_EVENT)


def _draw_levels(axes: Axes, history: History) -> None:
    """Draw each level with its drift and wave."""
    levels = history.levels
    waves = history.waves
    firsts = [change.position for change in history.changes]
    ends = [*firsts, max(levels) + 1]
    for start, end in zip([min(levels), *firsts], ends):
        values = [levels[position] + waves[position] for position in range(start, end)]
        shown = [in_metric_unit(value, history.series.metric) for value in values]
        axes.plot(range(start, end), shown, color=_LEVEL, linewidth=1)


def _drawn_points(series: MetricSeries) -> Iterator[_DrawnPoint]:
    """Yield the points of the line; in a long series each stands for several consecutive runs."""
    all_points = series.points
    positions = series.measured
    metric = series.metric
    width = math.ceil(len(positions) / _MOST_POINTS)
    for start in range(0, len(positions), width):
        merged = positions[start : start + width]
        points = [all_points[position] for position in merged]
        values = [value for point in points for value in point.values]
        median = statistics.median(point.median for point in points)
        yield _DrawnPoint(
            position=statistics.fmean(merged),
            lowest=in_metric_unit(min(values), metric),
            median=in_metric_unit(median, metric),
            highest=in_metric_unit(max(values), metric),
        )


def _label_changes(axes: Axes, changes: Sequence[LevelChange], last: int) -> None:
    """Write the sizes of the changes that fit, the largest first; the table has all sizes."""
    taken: list[tuple[float, float]] = []
    largest_first = sorted(
        changes, key=lambda change: abs(change.point.difference.change), reverse=True
    )
    for change in largest_first:
        size = metric_number(change.point.difference.change, change.series.metric, sign=True)
        # The range of the label, as shares of the panel's width.
        at = change.position / last
        width = (text_width(size, SMALL_FONT_PX) + 6) / _PANEL_WIDTH_PX
        is_left = at < 0.5
        start, end = (at, at + width) if is_left else (at - width, at)
        if any(start <= other_end and other_start <= end for other_start, other_end in taken):
            continue
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


def _label_runs(axes: Axes, series: MetricSeries) -> None:
    """Label the first, the middle and the last run: by date, or time if all are of one day."""
    last = len(series) - 1
    positions = sorted({0, last // 2, last})
    runs = [series.run(position) for position in positions]
    is_one_day = runs[0].moment[:10] == runs[-1].moment[:10]
    labels = []
    for run in runs:
        moment = run.moment[11:16] if is_one_day else run.moment[:10]
        commit = (run.commit or "")[:_COMMIT]
        labels.append(f"{moment}\n{commit}".rstrip())
    axes.set_xticks(positions, labels)
