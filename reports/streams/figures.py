"""The figures of streams: memory beside frames kept, memory over time, and how late frames are."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reusebench.reports.base.drawing import (
    INK,
    bars,
    label,
    line,
    named_rows,
    new_canvas,
    patch,
    svg_of,
    whiskers,
)
from reusebench.reports.base.formatting import MIB, mib, per_second
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import OTHER_COLOUR, scenario_colour
from reusebench.reports.results.rows import Row
from reusebench.reports.results.savings import APPLICATION
from reusebench.reports.sections.timeline import finish_panels
from reusebench.reports.streams.sentences import growth_in_words
from reusebench.reports.streams.workload import (
    HEAP,
    PERCENTILES,
    Workload,
    all_frames,
    growth,
    memory_parts,
    trends,
)
from reusebench.storage.result import Series

_PART_COLOURS = {"imported": "#999999", "decoding": "#e69f00", "inference": "#0072b2"}
_FRAMES_COLOUR = "#009e73"
#: Of each percentile of latency.
_MARKERS = dict(zip(PERCENTILES, ("o", "s", "D", "|")))
#: Pixels of a row, of the bar in it, of the axis below all; of a panel of memory over time, with
#: its title.
_ROW_PX = 26
_BAR_PX = 15
_AXIS_PX = 50
_PANEL_PX = 150
#: MiB that a panel shows at least: less is noise, and would look like a mountain.
_LEAST_MIB = 2.0


def memory_figure(workload: Workload, texts: Texts) -> str | None:
    """Draw what the memory of each mode is for, and beside it the frames that it kept; None without
    measurements.
    """
    shown = {
        row: parts for row in workload.rows if (parts := memory_parts(row, workload.decode_only))
    }
    if not shown or not workload.computes:
        return None
    canvas = new_canvas(_ROW_PX * len(shown) + _AXIS_PX)
    memory, frames = canvas.subplots(1, 2, sharey=True, width_ratios=(5, 3))
    middles = [(index + 0.5) * _ROW_PX for index in range(len(shown))]
    sizes: dict[str, list[tuple[float, float, float]]] = {}
    memory_ends = []
    frames_ends = []
    for middle, (row, parts) in zip(middles, shown.items()):
        end_mib = 0.0
        for name in _PART_COLOURS:
            part = getattr(parts, name)
            if part:
                # Of a run that decodes alone inference is nothing, give or take.
                size_mib = max(0.0, part.median / MIB)
                sizes.setdefault(name, []).append((end_mib, size_mib, middle))
                end_mib += size_mib
        whole = row.memory(APPLICATION)
        kept = all_frames(row)
        spread_mib = (whole.spread or 0) / MIB if whole else 0.0
        memory_ends.append((end_mib, middle, spread_mib))
        label(memory, mib(whole, spread=False), end_mib + spread_mib, middle)
        if kept:
            rate = kept.per_s.median
            spread = kept.per_s.spread or 0
            frames_ends.append((rate, middle, spread))
            label(frames, per_second(kept.per_s, spread=False), rate + spread, middle)
    for name, of_name in sizes.items():
        bars(memory, of_name, _BAR_PX, facecolors=_PART_COLOURS[name])
    bars(
        frames,
        [(0, rate, middle) for rate, middle, _ in frames_ends],
        _BAR_PX,
        facecolors=_FRAMES_COLOUR,
    )
    whiskers(memory, memory_ends)
    whiskers(frames, frames_ends)
    named_rows(
        memory, [texts.scenario(row.scenario) for row in shown], middles, len(shown) * _ROW_PX
    )
    frames.grid(axis="y", visible=False)
    frames.tick_params(labelleft=False)
    if workload.due_per_s:
        frames.axvline(workload.due_per_s, color=INK, linewidth=1, linestyle="--")
    for axes, margin, name in (
        (memory, 0.2, "streams_axis_memory"),
        (frames, 0.3, "streams_axis_rate"),
    ):
        axes.margins(x=margin)
        # Where no frame was done at all there is an axis too.
        axes.set_xlim(0, max(axes.get_xlim()[1], 1))
        axes.set_xlabel(texts(name))
    legend = [
        patch(texts(f"streams_part_{name}"), colour)
        for name, colour in _PART_COLOURS.items()
        if name in sizes
    ]
    return svg_of(canvas, [*legend, patch(texts("streams_part_frames"), _FRAMES_COLOUR)])


def latency_figure(workload: Workload, texts: Texts) -> str | None:
    """Draw how late the frames of each mode are, by percentile, on a scale of powers; None where
    none was done.
    """
    shown = {
        row: frames.latency
        for row in workload.rows
        if (frames := all_frames(row)) and frames.latency
    }
    if not shown:
        return None
    canvas = new_canvas(_ROW_PX * len(shown) + _AXIS_PX)
    axes = canvas.add_subplot()
    axes.set_xscale("log")
    middles = [(index + 0.5) * _ROW_PX for index in range(len(shown))]
    looks: dict[str, dict[str, Any]] = {
        name: {
            "marker": marker,
            "markersize": 12 if name == "max" else 8,
            "markeredgecolor": INK,
            "markeredgewidth": 2 if name == "max" else 0.6,
        }
        for name, marker in _MARKERS.items()
    }
    for middle, (row, latency) in zip(middles, shown.items()):
        colour = scenario_colour(row.scenario)
        times_ms = {name: max(figure.median / 1e6, 0.01) for name, figure in latency.items()}
        axes.plot((times_ms["p50"], times_ms["max"]), (middle, middle), color=colour, linewidth=2)
        for name, time_ms in times_ms.items():
            axes.plot(time_ms, middle, color=colour, **looks[name])
    if workload.schedule.fps:
        axes.axvline(1000 / workload.schedule.fps, color=INK, linewidth=1, linestyle="--")
    named_rows(axes, [texts.scenario(row.scenario) for row in shown], middles, len(shown) * _ROW_PX)
    # So many of each power of ten that a few numbers stand below the figure, whatever it spans.
    low, high = axes.get_xlim()
    powers = math.log10(high / low)
    axes.xaxis.set_major_locator(
        LogLocator(subs=(1, 2, 3, 5) if powers < 1 else (1, 3) if powers < 3 else (1,))
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(texts("streams_axis_latency"))
    entries = [(texts(f"streams_percentile_{name}"), look) for name, look in looks.items()]
    return svg_of(
        canvas, [line(name, OTHER_COLOUR, linestyle="none", **look) for name, look in entries]
    )


def over_time_figure(workload: Workload, texts: Texts) -> str | None:
    """Draw RSS over the steady state of one repeat of each row, from its start, with the verdict on
    its growth.

    None if no run was long enough for a slope.
    """
    shown = [(row, series) for row in workload.rows if (series := _series(row))]
    if not shown or not any(growth(row) for row in workload.rows):
        return None
    lines = -(-len(shown) // 2)
    canvas = new_canvas(_PANEL_PX * lines + 40)
    axes_of = list(canvas.subplots(lines, 2, sharex=True, sharey=True, squeeze=False).flat)
    has_heap = False
    for axes, (row, series) in zip(axes_of, shown):
        grown_mib = [(size - series.rss_bytes[0]) / MIB for size in series.rss_bytes]
        axes.plot(series.seconds, grown_mib, color=scenario_colour(row.scenario), linewidth=1.6)
        heap = [
            (time, size)
            for time, size in zip(series.seconds, series.heap_bytes or ())
            if size is not None
        ]
        if heap:
            heap_mib = [(size - heap[0][1]) / MIB for _, size in heap]
            axes.plot([time for time, _ in heap], heap_mib, color=INK, linewidth=0.8)
            has_heap = True
        axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
        axes.set_title(_panel_title(row, texts))
    finish_panels(axes_of, len(shown), texts("streams_axis_growth"), texts("axis_time"))
    low, high = axes_of[0].get_ylim()
    if high - low < _LEAST_MIB:
        axes_of[0].set_ylim((low + high - _LEAST_MIB) / 2, (low + high + _LEAST_MIB) / 2)
    legend = [line(texts("streams_what_memory"), OTHER_COLOUR, linewidth=1.6)]
    return svg_of(
        canvas,
        [*legend, *([line(texts("streams_what_heap"), INK, linewidth=0.8)] if has_heap else [])],
    )


def _series(row: Row) -> Series | None:
    """Return the readings of the first repeat that the verdict is of; of a short one of the
    first.
    """
    grown = growth(row)
    judged = [series for series, trend in trends(row) if grown and trend.verdict == grown.verdict]
    drawable = [
        streams.series
        for streams in row.frames
        if streams.series and len(streams.series.seconds) > 1
    ]
    return next(iter((*judged, *drawable)), None)


def _panel_title(row: Row, texts: Texts) -> str:
    """Return the scenario with the verdict on its RSS, and on its heap where that grows and RSS
    does not.
    """
    rss = growth(row)
    heap = growth(row, HEAP)
    name = texts.scenario(row.scenario)
    if rss is None:
        return name
    title = texts("streams_panel", scenario=name, verdict=growth_in_words(rss, texts))
    if heap and heap.verdict == "growing" and rss.verdict != "growing":
        return texts("streams_panel_heap", title=title, verdict=growth_in_words(heap, texts))
    return title
