"""The figure of memory over time, from the traces."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import INK, line, new_canvas, patch, svg_of
from reusebench.reports.base.formatting import MIB
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import (
    OTHER_COLOUR,
    PHASE_ALPHA,
    PHASE_COLOURS,
    scenario_colour,
)
from reusebench.reports.results.rows import Row
from reusebench.storage.trace import Trace, read_trace

_COLUMNS = 2
_PANEL_PX = 165


def timeline_figure(rows: Sequence[Row], texts: Texts) -> str | None:
    """Draw RSS over time in the first repeat of each scenario, with its phases; None if all
    traces are lost.

    Where there is a ledger, the NPU memory is drawn as the line of steps that it is.
    """
    traces = [(row, trace) for row in rows if (trace := _first_trace(row))]
    if not traces:
        return None
    lines = -(-len(traces) // _COLUMNS)
    canvas = new_canvas(_PANEL_PX * lines + 40)
    axes_of = list(canvas.subplots(lines, _COLUMNS, sharex=True, sharey=True, squeeze=False).flat)
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


def finish_panels(axes_of: Sequence[Axes], count: int, ylabel: str, xlabel: str) -> None:
    """Take away the panels behind the last one, and name the axes of the outer ones, which have the
    numbers of all.
    """
    for index in range(count, len(axes_of)):
        axes_of[index].remove()
        axes_of[index - _COLUMNS].tick_params(labelbottom=True)
    for axes in axes_of[:count:_COLUMNS]:
        axes.set_ylabel(ylabel)
    for axes in axes_of[:count][-_COLUMNS:]:
        axes.set_xlabel(xlabel)


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
