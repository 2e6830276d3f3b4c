"""The figure of memory over time, from the traces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, patch, svg_of
from reusebench.reports.base.formatting import MIB
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
from reusebench.reports.sections.section import GroupSection, GroupView, Values
from reusebench.reports.shared.comparison import comparison_columns, figure_cells
from reusebench.reports.shared.drawn_rows import drawn_rows
from reusebench.reports.shared.panels import PANEL_COLUMNS, finish_panels
from reusebench.storage.trace import Trace, read_trace

_PANEL_PX = 165


class TimelineSection(GroupSection):
    """Memory over time, and the figures that no other section shows."""

    name = "timeline"

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the rows whose panels are drawn."""
        return drawn_rows(group)

    def part(self, view: GroupView) -> Values | None:
        """Return the note on the figure, and the table of details; None if nothing was measured."""
        if not any(row.measured for row in view.rows):
            return None
        texts = view.texts
        has_ledger = any(npu_source(row) == "ledger" for row in view.group.rows)
        ledger_note = texts("timeline_npu_note") if has_ledger else None
        return {
            "note": texts.sentences([texts("timeline_note"), ledger_note]),
            "details": details_table(view.group, texts),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of memory over time."""
        return {"timeline": partial(timeline_figure, view.rows, view.texts)}


def timeline_figure(rows: Sequence[Row], texts: Texts) -> str | None:
    """Draw RSS over time in the first repeat of each scenario, with its phases; None if all
    traces are lost.

    Where there is a ledger, the NPU memory is drawn as the line of steps that it is.
    """
    traces = [(row, trace) for row in rows if (trace := _first_trace(row))]
    if not traces:
        return None
    lines = -(-len(traces) // PANEL_COLUMNS)
    canvas = new_canvas(_PANEL_PX * lines + 40)
    axes_of = list(
        canvas.subplots(lines, PANEL_COLUMNS, sharex=True, sharey=True, squeeze=False).flat
    )
    for axes, (row, trace) in zip(axes_of, traces):
        _panel(axes, trace, scenario_colour(row.scenario))
        axes.set_title(texts.scenario(row.scenario))
    finish_panels(axes_of, len(traces), texts("axis_memory"), texts("axis_time"))
    # One for all, and only now: a limit that is set ends the scaling to what is drawn.
    axes_of[0].set_xlim(left=0)
    axes_of[0].set_ylim(bottom=0)
    phases = {barrier.phase for _, trace in traces for barrier in trace.barriers}
    legend = [
        patch(texts(f"phase_{name}"), colour, alpha=2 * PHASE_ALPHA)
        for name, colour in PHASE_COLOURS.items()
        if name in phases
    ]
    legend += [
        line("RSS", OTHER_COLOUR, linewidth=1.4),
        line("PSS", INK, linestyle="none", marker="o", markersize=2.4),
    ]
    if any(trace.npu for _, trace in traces):
        legend.append(line(texts("memory_npu"), INK, linewidth=1))
    return svg_of(canvas, legend)


def _panel(axes: Axes, trace: Trace, colour: str) -> None:
    start_ns = trace.timeline.times_ns[0]

    def seconds(times_ns: Sequence[int]) -> list[float]:
        return [(time_ns - start_ns) / 1e9 for time_ns in times_ns]

    def in_mib(sizes: Sequence[int]) -> list[float]:
        return [size / MIB for size in sizes]

    # A phase ends at its last barrier.
    ends_s = dict(
        zip(
            (barrier.phase for barrier in trace.barriers),
            seconds([one.at_ns for one in trace.barriers]),
        )
    )
    begins_s = [0.0, *ends_s.values()]
    axes.broken_barh(
        [(begin_s, end_s - begin_s) for begin_s, end_s in zip(begins_s, ends_s.values())],
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolors=[PHASE_COLOURS.get(phase, OTHER_COLOUR) for phase in ends_s],
        alpha=PHASE_ALPHA,
        linewidth=0,
    )
    axes.plot(
        seconds(trace.timeline.times_ns),
        in_mib(trace.timeline.rss_bytes),
        color=colour,
        linewidth=1.4,
    )
    at_s = seconds([barrier.at_ns for barrier in trace.barriers])
    pss_mib = in_mib([barrier.process.pss_bytes for barrier in trace.barriers])
    axes.plot(at_s, pss_mib, linestyle="none", marker="o", markersize=2.4, color=INK)
    if trace.npu:
        # From nothing at the start to what was left at the end.
        times_s = seconds([start_ns, *trace.npu.times_ns, trace.timeline.times_ns[-1]])
        live_mib = in_mib(
            [0, *trace.npu.live_bytes, trace.npu.live_bytes[-1] if trace.npu.live_bytes else 0]
        )
        axes.step(times_s, live_mib, where="post", color=INK, linewidth=1)


def _first_trace(row: Row) -> Trace | None:
    if not row.measured or not row.info.repeats:
        return None
    trace = read_trace(row.storage, row.info.repeats[0].trace, Trace)
    return trace if trace and trace.timeline.times_ns else None


_DETAILS = (
    "column_repeats",
    "column_baseline_memory",
    "column_trimmed",
    "column_saved_over",
    "column_system",
    "column_rss",
    "column_peak",
    "column_residue",
    "column_load",
)


def details_table(group: Group, texts: Texts) -> Table:
    """Return the figures that are not in the comparison."""
    left_out = {*comparison_columns(group), *(() if group.computes else ("column_load",))}
    columns = [column for column in _DETAILS if column not in left_out]
    lines = []
    for row in group.rows:
        if row.measured and row.info.plan.cycles is None and not row.info.limit:
            lines.append((row.outcome, [texts.scenario(row.scenario), *figure_cells(row, columns)]))
    return Table(heads_of(("column_scenario", *columns), texts), lines)
