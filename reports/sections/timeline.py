"""The figure of memory over time, from the traces."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.texts import Texts
from reports.results.colours import OTHER_COLOUR, PHASE_COLOURS, SCENARIO_COLOURS
from reports.results.rows import Row
from storage.trace import Trace, read_trace
from targets.barriers import BarrierReading

MIB = 2**20


def timeline(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw RSS over time in the first repeat of each scenario, with its phases; None where all traces are lost.

    Where there is a ledger, the NPU memory is drawn as the line of steps that it is.
    """
    traces = [(row, trace) for row in rows if (trace := _first_trace(row))]
    if not traces:
        return None

    def draw(canvas: Canvas, narrow: bool) -> None:
        columns = 1 if narrow else 2
        lines = -(-len(traces) // columns)
        grid = list(canvas.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, (row, trace) in zip(grid, traces):
            _panel(axes, trace, SCENARIO_COLOURS.get(row.scenario, OTHER_COLOUR))
            axes.set_title(texts.scenario(row.scenario), loc="left")
        # One for all, and only now: a limit that is set ends the scaling to what is drawn.
        grid[0].set_xlim(left=0)
        grid[0].set_ylim(bottom=0)
        for place in range(len(traces), len(grid)):
            grid[place].remove()
            grid[place - columns].tick_params(labelbottom=True)
        for axes in grid[: len(traces) : columns]:
            axes.set_ylabel(texts("axis_memory"))
        for axes in grid[: len(traces)][-columns:]:
            axes.set_xlabel(texts("axis_time"))

    return drawing(draw, lambda narrow: 170 * (len(traces) if narrow else -(-len(traces) // 2)) + 40)


def _panel(axes: Axes, trace: Trace, line_colour: str) -> None:
    line = trace.timeline
    start = line.times_ns[0]
    begin = 0.0
    for phase, end_ns in _phase_ends(trace.barriers):
        end = (end_ns - start) / 1e9
        axes.axvspan(begin, end, color=PHASE_COLOURS.get(phase, OTHER_COLOUR), alpha=0.22, linewidth=0)
        begin = end
    axes.plot(*_points(line.times_ns, line.rss_bytes, start), color=line_colour, linewidth=1.4)
    at_ns = [barrier.at_ns for barrier in trace.barriers]
    pss_bytes = [barrier.process.pss_bytes for barrier in trace.barriers]
    axes.plot(*_points(at_ns, pss_bytes, start), linestyle="none", marker="o", markersize=2.4, color=INK)
    if trace.npu:
        # From nothing at the start to what was left at the end.
        times_ns = [start, *trace.npu.times_ns, line.times_ns[-1]]
        live_bytes = [0, *trace.npu.live_bytes]
        axes.step(*_points(times_ns, [*live_bytes, live_bytes[-1]], start), where="post", color=INK, linewidth=1)


def _points(times_ns: Sequence[int], sizes: Sequence[int], start: int) -> tuple[list[float], list[float]]:
    """Return seconds since the start, and MiB."""
    return [(time_ns - start) / 1e9 for time_ns in times_ns], [size / MIB for size in sizes]


def _phase_ends(barriers: Sequence[BarrierReading]) -> list[tuple[str, int]]:
    """Return each phase with the time of its last barrier, in order."""
    return list({barrier.phase: barrier.at_ns for barrier in barriers}.items())


def _first_trace(row: Row) -> Trace | None:
    if not row.measured:
        return None
    trace = read_trace(row.storage, row.info.repeats[0].trace, Trace)
    return trace if trace and trace.timeline.times_ns else None
