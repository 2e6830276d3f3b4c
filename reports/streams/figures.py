"""The figures of streams: memory and frames of each mode, memory over time, latency."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reusebench.reports.base.drawing import (
    INK,
    Labels,
    Rows,
    bars,
    end_with_room,
    line,
    new_canvas,
    patch,
    svg_of,
    whiskers,
    write_labels,
)
from reusebench.reports.base.formatting import MIB, mib, per_second
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import OTHER_COLOUR, PALETTE, scenario_colour
from reusebench.reports.results.rows import Row
from reusebench.reports.shared.panels import finish_panels, new_panels
from reusebench.reports.streams.growth import HEAP, growth, trends
from reusebench.reports.streams.sentences import growth_in_words
from reusebench.reports.streams.workload import (
    MemoryParts,
    Workload,
    all_frames,
    memory_parts,
)
from reusebench.storage.result import Series
from reusebench.storage.savings import APPLICATION

_PART_COLOURS = {"imported": OTHER_COLOUR, "decoding": PALETTE[1], "inference": PALETTE[0]}
_FRAMES_COLOUR = PALETTE[2]
#: The looks of markers on the latency of frames. Key: percentile.
_DOT: dict[str, Any] = {"markersize": 8, "markeredgecolor": INK, "markeredgewidth": 0.6}
_MARKERS: dict[str, dict[str, Any]] = {
    "p50": {"marker": "o", **_DOT},
    "p90": {"marker": "s", **_DOT},
    "p99": {"marker": "D", **_DOT},
    "max": {"marker": "|", **_DOT, "markersize": 12, "markeredgewidth": 2},
}
#: Pixels of a row, of the bar in it, and of the axis below all rows.
_ROW_PX = 26
_BAR_PX = 15
_AXIS_PX = 50
#: The shares of memory and of frames in the width, and the pixels between them.
_SHARES = (5, 3)
_BETWEEN_PX = 18
#: Pixels of a panel of memory over time, with its title.
_PANEL_PX = 150
#: The least range of a panel in MiB: noise below it would look like a mountain.
_LEAST_MIB = 2.0


def memory_figure(workload: Workload, texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the parts of each mode's memory, with its frames; None without measurements."""
    shown = {}
    for row in workload.rows:
        parts = memory_parts(row, workload.decode_only)
        if parts:
            shown[row] = parts
    if not shown or not workload.computes:
        return None

    rows, middles = _rows(list(shown), texts, paper)
    lines = 1 if paper.columns > 1 else 2
    canvas = new_canvas(lines * (rows.end_px + _AXIS_PX), paper)
    if paper.columns > 1:
        memory, frames = canvas.subplots(1, 2, sharey=True, width_ratios=_SHARES)
        frames.tick_params(labelleft=False)
    else:
        memory, frames = canvas.subplots(2, 1)
    part_names, sizes = _draw_memory(memory, shown, middles)
    rates = _draw_rates(frames, list(shown), middles)
    if workload.due_per_s:
        frames.axvline(workload.due_per_s, color=INK, linewidth=1, linestyle="--")
        rates.append(("", workload.due_per_s, 0.0))

    for axes, labels, share, name in (
        (memory, sizes, _SHARES[0], "streams_axis_memory"),
        (frames, rates, _SHARES[1], "streams_axis_rate"),
    ):
        panel_px = rows.panel_px
        if paper.columns > 1:
            panel_px = (panel_px - _BETWEEN_PX) * share / sum(_SHARES)
        write_labels(axes, labels)
        rows.draw_names(axes)
        axes.set_xlim(0, end_with_room(labels, panel_px))
        axes.set_xlabel(texts(name))
    legend = [patch(texts(f"streams_part_{name}"), _PART_COLOURS[name]) for name in part_names]
    return svg_of(canvas, [*legend, patch(texts("streams_part_frames"), _FRAMES_COLOUR)])


def _draw_memory(
    axes: Axes, shown: dict[Row, MemoryParts], middles: list[float]
) -> tuple[list[str], Labels]:
    """Draw a bar of parts for each row; return the names of the parts that occur, and labels."""
    sizes: dict[str, list[tuple[float, float, float]]] = {name: [] for name in _PART_COLOURS}
    ends = []
    labels = []
    for middle, (row, parts) in zip(middles, shown.items()):
        end_mib = 0.0
        for name in _PART_COLOURS:
            part = getattr(parts, name)
            if part:
                # Noise can make a small part negative.
                size_mib = max(0.0, part.median / MIB)
                sizes[name].append((end_mib, size_mib, middle))
                end_mib += size_mib
        whole = row.memory(APPLICATION)
        spread_mib = (whole.spread or 0) / MIB if whole else 0.0
        ends.append((end_mib, middle, spread_mib))
        labels.append((mib(whole, spread=False), end_mib + spread_mib, middle))

    names = [name for name in _PART_COLOURS if sizes[name]]
    for name in names:
        bars(axes, sizes[name], _BAR_PX, facecolors=_PART_COLOURS[name])
    whiskers(axes, ends)
    return names, labels


def _draw_rates(
    axes: Axes, rows: list[Row], middles: list[float]
) -> list[tuple[str, float, float]]:
    """Draw a bar of frames per second for each row that has frames; return the labels."""
    ends = []
    labels = []
    for middle, row in zip(middles, rows):
        frames = all_frames(row)
        if frames:
            rate = frames.per_s.median
            spread = frames.per_s.spread or 0
            ends.append((rate, middle, spread))
            labels.append((per_second(frames.per_s, spread=False), rate + spread, middle))
    rates = [(0.0, rate, middle) for rate, middle, _ in ends]
    bars(axes, rates, _BAR_PX, facecolors=_FRAMES_COLOUR)
    whiskers(axes, ends)
    return labels


def latency_figure(workload: Workload, texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the latency of each mode's frames, by percentile; None if no frame was done."""
    shown = {}
    for row in workload.rows:
        frames = all_frames(row)
        if frames and frames.latency:
            shown[row] = frames.latency
    if not shown:
        return None

    rows, middles = _rows(list(shown), texts, paper)
    canvas = new_canvas(rows.end_px + _AXIS_PX, paper)
    axes = canvas.add_subplot()
    axes.set_xscale("log")
    for middle, (row, latency) in zip(middles, shown.items()):
        colour = scenario_colour(row.scenario)
        times_ms = {name: max(figure.median / 1e6, 0.01) for name, figure in latency.items()}
        axes.plot((times_ms["p50"], times_ms["max"]), (middle, middle), color=colour, linewidth=2)
        for name, time_ms in times_ms.items():
            axes.plot(time_ms, middle, color=colour, **_MARKERS[name])
    if workload.schedule.fps:
        axes.axvline(1000 / workload.schedule.fps, color=INK, linewidth=1, linestyle="--")

    rows.draw_names(axes)
    _number_powers(axes)
    axes.set_xlabel(texts("streams_axis_latency"))
    legend = []
    for name, look in _MARKERS.items():
        title = texts(f"streams_percentile_{name}")
        legend.append(line(title, OTHER_COLOUR, linestyle="none", **look))
    return svg_of(canvas, legend)


def _number_powers(axes: Axes) -> None:
    """Put a few numbers below a logarithmic axis, whatever it spans."""
    low, high = axes.get_xlim()
    powers = math.log10(high / low)
    digits: tuple[int, ...] = (1,)
    if powers < 1:
        digits = (1, 2, 3, 5)
    elif powers < 3:
        digits = (1, 3)
    axes.xaxis.set_major_locator(LogLocator(subs=digits))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def over_time_figure(workload: Workload, texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw memory over the steady state of one repeat of each row, with its verdict.

    None if no run was long enough for a slope.
    """
    shown = []
    for row in workload.rows:
        series = _series(row)
        if series:
            shown.append((row, series))
    if not any(growth(row) for row, _ in shown):
        return None

    canvas, panels = new_panels(len(shown), _PANEL_PX, paper)
    has_heap = False
    for axes, (row, series) in zip(panels, shown):
        grown_mib = [(size - series.rss_bytes[0]) / MIB for size in series.rss_bytes]
        axes.plot(series.seconds, grown_mib, color=scenario_colour(row.scenario), linewidth=1.6)
        has_heap |= _draw_heap(axes, series)
        axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
        axes.set_title(_panel_title(row, texts))
    finish_panels(panels, len(shown), paper, texts("streams_axis_growth"), texts("axis_time"))
    low, high = panels[0].get_ylim()
    if high - low < _LEAST_MIB:
        panels[0].set_ylim((low + high - _LEAST_MIB) / 2, (low + high + _LEAST_MIB) / 2)

    legend = [line(texts("streams_what_memory"), OTHER_COLOUR, linewidth=1.6)]
    if has_heap:
        legend.append(line(texts("streams_what_heap"), INK, linewidth=0.8))
    return svg_of(canvas, legend)


def _draw_heap(axes: Axes, series: Series) -> bool:
    """Draw the growth of the heap; return whether there are readings."""
    times_s = []
    sizes = []
    for time_s, size in zip(series.seconds, series.heap_bytes or ()):
        if size is not None:
            times_s.append(time_s)
            sizes.append(size)
    if not sizes:
        return False
    grown_mib = [(size - sizes[0]) / MIB for size in sizes]
    axes.plot(times_s, grown_mib, color=INK, linewidth=0.8)
    return True


def _series(row: Row) -> Series | None:
    """Return the first repeat with the row's verdict; without a verdict the first repeat."""
    grown = growth(row)
    for series, trend in trends(row):
        if grown and trend.verdict == grown.verdict:
            return series
    for streams in row.frames:
        if streams.series and len(streams.series.seconds) > 1:
            return streams.series
    return None


def _panel_title(row: Row, texts: Texts) -> str:
    """Return the scenario with the verdict on its RSS, and on its heap if only that grows."""
    rss = growth(row)
    name = texts.scenario(row.scenario)
    if rss is None:
        return name
    title = texts("streams_panel", scenario=name, verdict=growth_in_words(rss, texts))
    heap = growth(row, HEAP)
    if heap and heap.verdict == "growing" and rss.verdict != "growing":
        return texts("streams_panel_heap", title=title, verdict=growth_in_words(heap, texts))
    return title


def _rows(shown: list[Row], texts: Texts, paper: Paper) -> tuple[Rows, list[float]]:
    """Return the rows of a figure, and the middle of each in pixels."""
    rows = Rows(paper)
    middles = []
    for row in shown:
        middles.append(rows.add(texts.scenario(row.scenario), _ROW_PX) + _ROW_PX / 2)
    return rows, middles
