"""The figures of streams: memory beside frames kept, memory over time, and how late frames are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.formatting import mib
from reports.base.statistics import Figure
from reports.base.texts import Texts
from reports.results.colours import OTHER_COLOUR, SCENARIO_COLOURS
from reports.results.rows import Row
from reports.streams.frames import (
    HEAP,
    PERCENTILES,
    MemoryParts,
    Workload,
    all_frames,
    growth,
    memory_parts,
    trends,
)
from reports.streams.text import growth_words
from storage.result import Series

MIB = 2**20
_PARTS = ("imported", "decoding", "inference")
_COLOURS = dict(zip(_PARTS, ("#999999", "#e69f00", "#0072b2")))
#: Of frames kept.
_FRAMES_COLOUR = "#009e73"
#: As matplotlib names the mark of each percentile, and as text.
_MARKS = dict(zip(PERCENTILES, ("o", "s", "D", "|")))
_MARK_TEXTS = dict(zip(PERCENTILES, "●■◆|"))
#: Pixels of a row, of the bar in it, of a name above it, of the axis below all.
_ROW, _BAR, _NAME, _AXIS = 26, 15, 17, 52
#: Pixels of a panel of memory over time, with its title.
_PANEL = 150
#: MiB that a panel shows at least: less is noise, and would look like a mountain.
_LEAST_MIB = 2.0


def memory_figure(workload: Workload, texts: Texts) -> Drawing | None:
    """Draw what the memory of each mode is for, and beside it the frames that it kept; None without measurements."""
    shown = {row: parts for row in workload.rows if (parts := memory_parts(row, workload.decode_only))}
    if not shown or not workload.computes:
        return None
    names = [texts.scenario(row.scenario) for row in shown]

    def draw(canvas: Canvas, narrow: bool) -> None:
        if narrow:
            memory, frames = canvas.subplots(2, 1, sharey=True)
        else:
            memory, frames = canvas.subplots(1, 2, sharey=True, width_ratios=(5, 3))
        places = _rows_of(memory, names, narrow)
        for place, (row, parts) in zip(places, shown.items()):
            _parts_bar(memory, place, row, parts)
            _rate_bar(frames, place, row)
        memory.margins(x=0.2)
        frames.margins(x=0.25)
        if narrow:
            _rows_of(frames, names, narrow)
        if workload.due_per_s:
            frames.axvline(workload.due_per_s, color=INK, linewidth=1, linestyle="--")
        memory.set_xlabel(texts("streams_axis_memory"))
        frames.set_xlabel(texts("streams_axis_rate"))
        for axes in (memory, frames):
            # Where no frame was done at all there is an axis too.
            axes.set_xlim(0, max(axes.get_xlim()[1], 1))

    return drawing(draw, lambda narrow: _height(len(shown), narrow) * (2 if narrow else 1))


def part_colours(workload: Workload, texts: Texts) -> dict[str, str]:
    """Return what the bars of the figure of memory are made of, with their colours."""
    parts = [split for row in workload.rows if (split := memory_parts(row, workload.decode_only))]
    colours = {name: _COLOURS[name] for name in _PARTS if any(getattr(split, name) for split in parts)}
    return {texts(f"streams_part_{name}"): colour for name, colour in {**colours, "frames": _FRAMES_COLOUR}.items()}


def latency_figure(workload: Workload, texts: Texts) -> Drawing | None:
    """Draw how late the frames of each mode are, by percentile, on a scale of powers; None where none was done."""
    shown = {row: frames.latency for row in workload.rows if (frames := all_frames(row)) and frames.latency}
    if not shown:
        return None
    names = [texts.scenario(row.scenario) for row in shown]

    def draw(canvas: Canvas, narrow: bool) -> None:
        axes = canvas.add_subplot()
        axes.set_xscale("log")
        for place, (row, latency) in zip(_rows_of(axes, names, narrow), shown.items()):
            _latencies(axes, place, latency, SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR))
        if workload.schedule.fps:
            axes.axvline(1000 / workload.schedule.fps, color=INK, linewidth=1, linestyle="--")
        _powers(axes)
        axes.set_xlabel(texts("streams_axis_latency"))

    return drawing(draw, lambda narrow: _height(len(shown), narrow))


def latency_marks(texts: Texts) -> list[tuple[str, str, str]]:
    """Return what each mark of the figure of latency is: name, colour and mark."""
    return [(texts(f"streams_percentile_{name}"), "currentColor", _MARK_TEXTS[name]) for name in PERCENTILES]


def over_time_figure(workload: Workload, texts: Texts) -> Drawing | None:
    """Draw RSS over the steady state of one repeat of each row, from its start, with what is said of its growth.

    None where no run was long enough for a slope.
    """
    shown = [(row, series) for row in workload.rows if (series := _series(row))]
    if not shown or not any(growth(row) for row in workload.rows):
        return None

    def draw(canvas: Canvas, narrow: bool) -> None:
        columns = 1 if narrow else 2
        grid = list(canvas.subplots(-(-len(shown) // columns), columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, (row, series) in zip(grid, shown):
            _over_time(axes, series, SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR))
            axes.set_title(_panel_title(row, texts), loc="left")
        low, high = grid[0].get_ylim()
        if high - low < _LEAST_MIB:
            grid[0].set_ylim((low + high - _LEAST_MIB) / 2, (low + high + _LEAST_MIB) / 2)
        for place in range(len(shown), len(grid)):
            grid[place].remove()
            grid[place - columns].tick_params(labelbottom=True)
        for axes in grid[: len(shown) : columns]:
            axes.set_ylabel(texts("streams_axis_growth"))
        for axes in grid[: len(shown)][-columns:]:
            axes.set_xlabel(texts("axis_time"))

    return drawing(draw, lambda narrow: _PANEL * (len(shown) if narrow else -(-len(shown) // 2)) + 40)


def _height(count: int, narrow: bool) -> int:
    return (_ROW + (_NAME if narrow else 0)) * count + _AXIS


def _rows_of(axes: Axes, names: Sequence[str], narrow: bool) -> list[float]:
    """Name the rows, above them where there is no room beside, and return the pixel of the middle of each."""
    height = _ROW + (_NAME if narrow else 0)
    places = [number * height + height - _ROW / 2 for number in range(len(names))]
    axes.set_yticks(places, [""] * len(names) if narrow else names)
    axes.tick_params(axis="y", length=0)
    for place, name in zip(places, names) if narrow else ():
        at = (0, place - _ROW / 2)
        axes.annotate(name, at, (3, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points", va="bottom")
    axes.set_ylim(len(names) * height, -3)
    axes.grid(axis="y", visible=False)
    return places


def _parts_bar(axes: Axes, place: float, row: Row, parts: MemoryParts) -> None:
    """Draw what memory is for, and say how much it is in all."""
    end = 0.0
    for name in _PARTS:
        part = getattr(parts, name)
        # Of a run that decodes alone inference is nothing, give or take.
        size = max(0.0, part.median / MIB) if part else 0.0
        axes.barh(place, size, _BAR, left=end, color=_COLOURS[name])
        end += size
    whole = row.memory("application_memory_bytes")
    spread = (whole.spread or 0) / MIB if whole else 0
    if spread:
        axes.errorbar(end, place, xerr=spread, color=INK, capsize=3, linewidth=1)
    _label(axes, mib(whole, spread=False), end + spread, place)


def _rate_bar(axes: Axes, place: float, row: Row) -> None:
    """Draw the frames per second that were done."""
    frames = all_frames(row)
    if frames is None:
        return
    rate = frames.per_s.median
    axes.barh(place, rate, _BAR, color=_FRAMES_COLOUR)
    spread = frames.per_s.spread or 0
    if spread:
        axes.errorbar(rate, place, xerr=spread, color=INK, capsize=3, linewidth=1)
    _label(axes, f"{rate:,.1f}", rate + spread, place)


def _label(axes: Axes, text: str, end: float, place: float) -> None:
    axes.annotate(text, (end, place), (6, 0), textcoords="offset points", va="center", fontsize=11)


def _latencies(axes: Axes, place: float, latency: dict[str, Figure], colour: str) -> None:
    times = {name: max(figure.median / 1e6, 0.01) for name, figure in latency.items()}
    axes.plot((times["p50"], times["max"]), (place, place), color=colour, linewidth=2)
    for name, time in times.items():
        axes.plot(
            time,
            place,
            color=colour,
            marker=_MARKS[name],
            markersize=12 if name == "max" else 8,
            markeredgecolor=INK,
            markeredgewidth=2 if name == "max" else 0.6,
        )


def _powers(axes: Axes) -> None:
    """Number so many of each power of ten that a few numbers stand below the figure, whatever it spans."""
    low, high = axes.get_xlim()
    powers = math.log10(high / low)
    subs = (1, 2, 3, 5) if powers < 1 else (1, 3) if powers < 3 else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _series(row: Row) -> Series | None:
    """Return the readings of the first repeat that the verdict is of; of a short one of the first."""
    grown = growth(row)
    own = [series for series, trend in trends(row) if grown and trend.verdict == grown.verdict]
    drawn = [streams.series for streams in row.frames if streams.series and len(streams.series.seconds) > 1]
    return next(iter((*own, *drawn)), None)


def _over_time(axes: Axes, series: Series, colour: str) -> None:
    first = series.rss_bytes[0]
    grown = [(size - first) / MIB for size in series.rss_bytes]
    axes.plot(series.seconds, grown, color=colour, linewidth=1.6)
    heap = [(time, size) for time, size in zip(series.seconds, series.heap_bytes or ()) if size is not None]
    if heap:
        axes.plot([time for time, _ in heap], [(size - heap[0][1]) / MIB for _, size in heap], color=INK, linewidth=0.8)
    axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)


def _panel_title(row: Row, texts: Texts) -> str:
    """Return the scenario with what is said of its RSS, and of its heap where that grows and RSS does not."""
    rss, heap = growth(row), growth(row, HEAP)
    name = texts.scenario(row.scenario)
    if rss is None:
        return name
    title = texts("streams_panel", scenario=name, verdict=growth_words(rss, texts))
    if heap and heap.verdict == "growing" and rss.verdict != "growing":
        return texts("streams_panel_heap", said=title, verdict=growth_words(heap, texts))
    return title
