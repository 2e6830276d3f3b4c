"""The figure of the memory of recorded programs over time, with the phases that they marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.texts import Texts
from reports.results.colours import OTHER_COLOUR, PROGRAM_PHASE_COLOURS
from reports.sections.programs import MOST_PROGRAMS, RecordedProgram
from storage.trace import ProgramTrace, read_trace

_MIB, _S = 2**20, 1e9
#: Characters of a title for which there is room on narrow figures.
_TITLE = 40


def programs_figure(programs: Sequence[RecordedProgram], texts: Texts) -> Drawing | None:
    """Draw the sum of RSS and PSS over time in the first repeat of each program; None where all traces are lost.

    NPU memory is a thin line where it was read.
    """
    traces = [(program, trace) for program in programs[:MOST_PROGRAMS] if (trace := _trace(program))]
    if not traces:
        return None
    colours = phase_colours(programs)

    def draw(canvas: Canvas, narrow: bool) -> None:
        # Programs take as long as they take, and no two the same memory: each has axes of its own.
        columns = 1 if narrow or len(traces) == 1 else 2
        lines = -(-len(traces) // columns)
        for place, (program, trace) in enumerate(traces):
            axes = canvas.add_subplot(lines, columns, place + 1)
            _panel(axes, trace, colours)
            axes.set_title(_title(program.name), loc="left")
            if place % columns == 0:
                axes.set_ylabel(texts("axis_memory"))
            if place >= len(traces) - columns:
                axes.set_xlabel(texts("axis_time"))

    return drawing(draw, lambda narrow: 200 * (len(traces) if narrow else -(-len(traces) // 2)) + 40)


def phase_colours(programs: Sequence[RecordedProgram]) -> dict[str, str]:
    """Return a colour for each phase that is drawn: equal names have equal colours; those beyond the last, one."""
    drawn = programs[:MOST_PROGRAMS]
    names = dict.fromkeys(phase.name for program in drawn for phase in program.info.phases)
    further = [OTHER_COLOUR] * len(names)
    return dict(zip(names, (*PROGRAM_PHASE_COLOURS, *further)))


def _panel(axes: Axes, trace: ProgramTrace, colours: Mapping[str, str]) -> None:
    for phase in trace.phases:
        begin_s, end_s = phase.begin_ns / _S, phase.end_ns / _S
        axes.axvspan(begin_s, end_s, color=colours.get(phase.name, OTHER_COLOUR), alpha=0.22, linewidth=0)
    rss, pss, npu = trace.timeline, trace.pss, trace.npu_held
    axes.plot(*_points(rss.times_ns, rss.rss_bytes), color=INK, linewidth=1.2)
    axes.plot(*_points(pss.times_ns, pss.pss_bytes), linestyle="none", marker="o", markersize=2.4, color=INK)
    axes.plot(*_points(npu.times_ns, npu.npu_memory_bytes), color=INK, linewidth=1, linestyle=":")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _points(times_ns: Sequence[int], sizes: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return seconds since the start, and MiB."""
    return [time_ns / _S for time_ns in times_ns], [size / _MIB for size in sizes]


def _title(name: str) -> str:
    return name if len(name) <= _TITLE else f"{name[: _TITLE - 3]}..."


def _trace(program: RecordedProgram) -> ProgramTrace | None:
    storage = program.file.path.parent.parent
    trace = read_trace(storage, program.info.repeats[0].trace, ProgramTrace)
    return trace if trace and trace.timeline.times_ns else None
