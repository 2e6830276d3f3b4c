"""Memory over time, from traces, and the figures that no comparison shows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from reusebench.reports.base.drawing import INK, Draw, line, patch, svg_of
from reusebench.reports.base.formatting import MIB, mib
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import (
    OTHER_COLOUR,
    PHASE_ALPHA,
    PHASE_COLOURS,
    scenario_colour,
)
from reusebench.reports.results.memory_use import npu_source
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.system_memory import hidden_system_memory
from reusebench.reports.sections.section import GroupSection, GroupView, Values
from reusebench.reports.shared.comparison import comparison_columns, figure_cells
from reusebench.reports.shared.drawn_rows import drawn_rows
from reusebench.reports.shared.panels import finish_panels, new_panels
from reusebench.storage.trace import Trace, read_trace

_PANEL_PX = 165
_PSS_LOOK: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.4}
_DETAILS = (
    "column_repeats",
    "column_trimmed",
    "column_system",
    "column_pss",
    "column_rss",
    "column_peak",
    "column_residue",
    "column_load",
)


class TimelineSection(GroupSection):
    """Memory over time, and the figures that no other section shows."""

    name = "timeline"

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the rows whose panels are drawn."""
        return drawn_rows(group)

    def part(self, view: GroupView) -> Values | None:
        """Return the note on the figure, and the table of details; None if there is neither."""
        is_drawn = view.group in view.page.material.drawn
        has_either = is_drawn or not view.page.is_folded
        if not has_either or not any(row.measured for row in view.rows):
            return None
        texts = view.texts
        has_ledger = any(npu_source(row) == "ledger" for row in view.group.rows)
        ledger_note = texts("timeline_npu_note") if has_ledger else None
        return {
            "note": texts.sentences([texts("timeline_note"), ledger_note]),
            "details": None if view.page.is_folded else details_table(view.group, texts),
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the highest peak of RSS."""
        peaks = {}
        for row in view.rows:
            peak = row.memory("application_peak_rss_bytes")
            if peak:
                peaks[row] = peak
        if not peaks:
            return None
        highest = max(peaks, key=lambda row: peaks[row].median)
        name = view.texts.scenario(highest.scenario)
        return view.texts("summary_timeline", scenario=name, peak=mib(peaks[highest]))

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of memory over time."""
        return {"timeline": partial(timeline_figure, view.rows, view.texts)}


def timeline_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw RSS over time in the first repeat of each scenario, with its phases.

    NPU memory is a line of steps, if there is a ledger. None if all traces are lost.
    """
    traces = []
    for row in rows:
        trace = _first_trace(row)
        if trace:
            traces.append((row, trace))
    if not traces:
        return None
    canvas, panels = new_panels(len(traces), _PANEL_PX, paper)
    for axes, (row, trace) in zip(panels, traces):
        _draw_panel(axes, trace, scenario_colour(row.scenario))
        axes.set_title(texts.scenario(row.scenario))
    finish_panels(panels, len(traces), paper, texts("axis_memory"), texts("axis_time"))
    # The panels share these limits. They are set last: setting one ends automatic scaling.
    panels[0].set_xlim(left=0)
    panels[0].set_ylim(bottom=0)
    return svg_of(canvas, _legend([trace for _, trace in traces], texts))


def _legend(traces: Sequence[Trace], texts: Texts) -> list[Artist]:
    barriers = itertools.chain(*(trace.barriers for trace in traces))
    phases = {barrier.phase for barrier in barriers}
    legend = []
    for name, colour in PHASE_COLOURS.items():
        if name in phases:
            legend.append(patch(texts(f"phase_{name}"), colour, alpha=2 * PHASE_ALPHA))
    legend.append(line("RSS", OTHER_COLOUR, linewidth=1.4))
    legend.append(line("PSS", INK, **_PSS_LOOK))
    if any(trace.npu for trace in traces):
        legend.append(line(texts("memory_npu"), INK, linewidth=1))
    return legend


def _draw_panel(axes: Axes, trace: Trace, colour: str) -> None:
    """Draw the phases of a trace as bars, RSS and NPU memory as lines, PSS as points."""
    start_ns = trace.timeline.times_ns[0]

    def seconds(times_ns: Sequence[int]) -> list[float]:
        return [(time_ns - start_ns) / 1e9 for time_ns in times_ns]

    def in_mib(sizes_bytes: Sequence[int]) -> list[float]:
        return [size_bytes / MIB for size_bytes in sizes_bytes]

    barriers_s = seconds([barrier.at_ns for barrier in trace.barriers])
    # A phase ends at its last barrier.
    ends_s = dict(zip((barrier.phase for barrier in trace.barriers), barriers_s))
    begins_s = [0.0, *ends_s.values()]
    axes.broken_barh(
        [(begin_s, end_s - begin_s) for begin_s, end_s in zip(begins_s, ends_s.values())],
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolors=[PHASE_COLOURS.get(phase, OTHER_COLOUR) for phase in ends_s],
        alpha=PHASE_ALPHA,
        linewidth=0,
    )
    rss_mib = in_mib(trace.timeline.rss_bytes)
    axes.plot(seconds(trace.timeline.times_ns), rss_mib, color=colour, linewidth=1.4)
    pss_mib = in_mib([barrier.process.pss_bytes for barrier in trace.barriers])
    axes.plot(barriers_s, pss_mib, color=INK, **_PSS_LOOK)
    if trace.npu:
        # The line goes from zero at the start to the bytes that are left at the end.
        left_bytes = trace.npu.live_bytes[-1] if trace.npu.live_bytes else 0
        times_s = seconds([start_ns, *trace.npu.times_ns, trace.timeline.times_ns[-1]])
        live_mib = in_mib([0, *trace.npu.live_bytes, left_bytes])
        axes.step(times_s, live_mib, where="post", color=INK, linewidth=1)


def _first_trace(row: Row) -> Trace | None:
    """Return the trace of the first repeat; None if it is lost or empty."""
    if not row.measured or not row.info.repeats:
        return None
    trace = read_trace(row.storage, row.info.repeats[0].trace, Trace)
    return trace if trace and trace.timeline.times_ns else None


def details_table(group: Group, texts: Texts) -> Table:
    """Return the figures that the comparison does not have."""
    left_out = set(comparison_columns(group))
    if not group.computes:
        left_out.add("column_load")
    if hidden_system_memory(group):
        left_out.add("column_system")
    columns = [column for column in _DETAILS if column not in left_out]
    lines = []
    for row in group.rows:
        if row.measured and row.info.plan.cycles is None and not row.info.limit:
            lines.append((row.outcome, [texts.scenario(row.scenario), *figure_cells(row, columns)]))
    return Table(heads_of(("column_scenario", *columns), texts), lines, exported="comparison")
