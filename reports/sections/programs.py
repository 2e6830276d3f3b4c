"""Programs that `reusebench record` measured: what each of their phases took, which process how
much, and a figure.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, patch, svg_of
from reusebench.reports.base.formatting import MIB, doubted, mib, seconds
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import OTHER_COLOUR, PHASE_ALPHA, PROGRAM_PHASE_COLOURS
from reusebench.reports.results.programs import StoredProgram
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.shared.shortage import outcome_in_words, short_row
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.recorded_program import Phase, PhaseMedians, PhaseMemory
from reusebench.storage.run_file import run_number
from reusebench.storage.trace import ProgramTrace, read_trace

#: Programs that the page has a timeline of, and processes of each that it names.
_MOST_PROGRAMS = 6
_MOST_PROCESSES = 8
_PANEL_PX = 195
#: Characters of a panel's title that fit.
_TITLE = 40
#: The figures of a phase on the page; the exported table has all.
_SHOWN = (
    "application_memory",
    "application_memory_median",
    "application_peak_rss",
    "process_peak_rss",
    "system_memory_over_idle",
    "npu_memory",
)
_PEAKS = ("application_peak_rss", "process_peak_rss")
#: Its buffers are never evicted.
_NEVER_SHORT = "npu_memory"
_AT_MOST = "application_peak_rss_at_most_bytes"
_MEMORY = tuple(name for name in PhaseMemory.__struct_fields__ if name != _AT_MOST)
_MEDIANS = PhaseMedians.__struct_fields__


class ProgramsSection(Section):
    """Programs that `reusebench record` measured."""

    name = "programs"

    def applies(self, page: Page) -> bool:
        """Whether there is any recording."""
        return bool(page.material.programs)

    def values(self, page: Page) -> Values:
        """Return the tables of phases and processes, and what their figures mean."""
        programs = page.material.programs
        texts = page.texts
        return {
            "warnings": program_warnings(programs, texts),
            "table": programs_table(programs, texts),
            "processes": processes_table(programs, texts),
            "definitions": [
                (texts(f"program_term_{key}"), text)
                for key, text in texts.starting_with("program_define_").items()
            ],
        }

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figure of memory over time."""
        return {"programs": partial(programs_figure, page.material.programs, page.texts)}


def _named(name: str, kind: str) -> tuple[str, str]:
    """Return the columns of a figure and its spread."""
    stem = f"{name.removesuffix('_bytes')}{kind}"
    return f"{stem}_bytes", f"{stem}_spread_bytes"


#: Of the exported table; new columns come at the end.
PROGRAM_COLUMNS = (
    "program",
    "phase",
    "repeats",
    "outcome",
    "duration_ns",
    "pss_readings",
    *(column for name in _MEMORY for column in _named(name, "")),
    "command",
    "file",
    "commit",
    "board",
    "recorded_at",
    "run_number",
    "reading_age_ns",
    "process_peaks_exact",
    *_named(_AT_MOST, ""),
    *(column for name in _MEDIANS for column in _named(name, "_median")),
    "memory_short",
)


def phase_figure(phase: Phase, name: str) -> Figure | None:
    """Return a figure of a phase's memory in bytes."""
    part = phase.medians if name.endswith("_median") else phase.memory
    return Figure.of(getattr(part, f"{name.removesuffix('_median')}_bytes"))


def phase_text(phase: Phase, name: str) -> str:
    """Return a figure in MiB; of a peak what is known of it: that it was no less, or between what
    it was.
    """
    figure = phase_figure(phase, name)
    if figure is None or name not in _PEAKS:
        return mib(figure)
    at_most = getattr(phase.memory, _AT_MOST if name == "application_peak_rss" else f"{name}_bytes")
    highest = Figure.of(at_most)
    if highest is None or None in at_most or not all(phase.process_peaks_exact):
        return f"≥ {mib(figure)}"
    if mib(Figure(highest.median)) != mib(Figure(figure.median)):
        return f"{mib(Figure(figure.median))} ... {mib(Figure(highest.median))}"
    return mib(figure)


def programs_table(programs: Sequence[StoredProgram], texts: Texts) -> Table | None:
    """Return a row for each phase of each program; None if there is none."""
    phases = [(program, phase) for program in programs for phase in program.info.phases]
    shown = [name for name in _SHOWN if any(phase_figure(phase, name) for _, phase in phases)]
    several_boards = len({program.file.board for program in programs}) > 1
    lines = []
    for program, phase in phases:
        outcome = program.info.outcome
        last = program.info.repeats[-1] if program.info.repeats else None
        result = texts(f"outcome_{outcome}")
        # Where its board was lost, or its recorder, nobody knows how it ended.
        if last and outcome not in ("ok", "connection_lost", "cut_off"):
            why = last.signal or texts("program_exit_code", code=last.exit_code)
            result = texts("program_outcome", outcome=result, why=why)
        result = outcome_in_words(result, program.info.shortage_signs, texts)
        names = [program.name, *([program.file.board] if several_boards else []), phase.name]
        memory = (
            doubted(phase_text(phase, name), program.is_short and name != _NEVER_SHORT)
            for name in shown
        )
        figures = [doubted(seconds(Figure.of(phase.durations_ns)), program.is_short), *memory]
        lines.append((outcome, [*names, str(len(program.info.repeats)), *figures, result]))
    board = ["board"] if several_boards else []
    heads = [
        f"program_column_{name}"
        for name in ("program", *board, "phase", "repeats", "duration", *shown, "outcome")
    ]
    return (
        Table(heads_of(heads, texts), lines, words=(*range(2 + len(board)), -1)) if lines else None
    )


def program_warnings(programs: Sequence[StoredProgram], texts: Texts) -> list[str]:
    """Return a sentence where memory was short, which says what to do."""
    short = [
        short_row(program.name, program.info.shortage_signs, texts)
        for program in programs
        if program.is_short
    ]
    return [texts("programs_warning_short", mark=DOUBT, programs="; ".join(short))] if short else []


def processes_table(programs: Sequence[StoredProgram], texts: Texts) -> Table | None:
    """Return the processes with the highest peaks in the first repeat of each program; None where
    there are none.
    """
    lines = []
    for program in programs:
        first = program.info.repeats[0] if program.info.repeats else None
        for process in first.processes[:_MOST_PROCESSES] if first else ():
            times = [
                seconds(Figure(time_ns))
                for time_ns in (process.first_seen_ns, process.last_seen_ns)
            ]
            peak = doubted(mib(Figure(process.peak_rss_bytes)), program.is_short)
            cells = [program.name, f"{process.name} ({process.pid})", peak, *times]
            lines.append(("ok", [*cells, texts("yes" if process.pss_readable else "no")]))
    names = ("program", "process", "peak", "first_seen", "last_seen", "pss")
    heads = heads_of((f"program_column_{name}" for name in names), texts)
    return Table(heads, lines, words=(0, 1, -1)) if lines else None


def program_records(programs: Sequence[StoredProgram]) -> list[dict[str, Any]]:
    """Return a row in PROGRAM_COLUMNS for each phase of every recording, oldest first."""
    records = []
    for program in reversed(programs):
        for phase in program.info.phases:
            sizes: dict[str, float | None] = {}
            for part, kind in ((phase.memory, ""), (phase.medians, "_median")):
                for name in part.__struct_fields__:
                    figure = Figure.of(getattr(part, name))
                    sizes.update(zip(_named(name, kind), (rounded(figure), rounded_spread(figure))))
            records.append(
                {
                    "program": program.name,
                    "phase": phase.name,
                    "repeats": len(program.info.repeats),
                    "outcome": program.info.outcome,
                    "duration_ns": rounded(Figure.of(phase.durations_ns)),
                    "pss_readings": sum(phase.pss_readings),
                    **sizes,
                    "command": shlex.join(program.info.command),
                    "file": program.file.file_name,
                    "commit": program.file.commit.id,
                    "board": program.file.board,
                    "recorded_at": program.file.recorded_at,
                    "run_number": run_number(program.file.path),
                    "reading_age_ns": rounded(Figure.of(phase.reading_ages_ns)),
                    "process_peaks_exact": all(phase.process_peaks_exact),
                    "memory_short": " ".join(sign.code for sign in program.info.shortage_signs)
                    or None,
                }
            )
    return records


def programs_figure(programs: Sequence[StoredProgram], texts: Texts) -> str | None:
    """Draw the sum of RSS and PSS over time in the first repeat of each program; None if all
    traces are lost.

    NPU memory is a thin line where it was read.
    """
    traces = []
    for program in programs[:_MOST_PROGRAMS]:
        trace = _first_trace(program)
        if trace and trace.timeline.times_ns:
            traces.append((program, trace))
    if not traces:
        return None
    # Equal names have equal colours; those beyond the last share one.
    names = dict.fromkeys(phase.name for program, _ in traces for phase in program.info.phases)
    colours = dict(zip(names, (*PROGRAM_PHASE_COLOURS, *[OTHER_COLOUR] * len(names))))
    # Programs take as long as they take, and no two the same memory: each has axes of its own.
    columns = min(len(traces), 2)
    lines = -(-len(traces) // columns)
    canvas = new_canvas(_PANEL_PX * lines + 40)
    for index, (program, trace) in enumerate(traces):
        axes = canvas.add_subplot(lines, columns, index + 1)
        spans = [
            (phase.begin_ns / 1e9, (phase.end_ns - phase.begin_ns) / 1e9) for phase in trace.phases
        ]
        axes.broken_barh(
            spans,
            (0, 1),
            transform=axes.get_xaxis_transform(),
            facecolors=[colours.get(phase.name, OTHER_COLOUR) for phase in trace.phases],
            alpha=PHASE_ALPHA,
            linewidth=0,
        )
        for series, sizes, look in (
            (trace.timeline, trace.timeline.rss_bytes, {"linewidth": 1.2}),
            (
                trace.pss,
                trace.pss.pss_bytes,
                {"linestyle": "none", "marker": "o", "markersize": 2.4},
            ),
            (trace.npu_held, trace.npu_held.npu_memory_bytes, {"linewidth": 1, "linestyle": ":"}),
        ):
            times_s = [time_ns / 1e9 for time_ns in series.times_ns]
            axes.plot(times_s, [size / MIB for size in sizes], color=INK, **look)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        name = program.name
        axes.set_title(name if len(name) <= _TITLE else f"{name[: _TITLE - 3]}...")
        if index % columns == 0:
            axes.set_ylabel(texts("axis_memory"))
        if index >= len(traces) - columns:
            axes.set_xlabel(texts("axis_time"))
    legend = [patch(name, colour, alpha=2 * PHASE_ALPHA) for name, colour in colours.items()]
    legend += [
        line("RSS", INK, linewidth=1.2),
        line("PSS", INK, linestyle="none", marker="o", markersize=2.4),
    ]
    if any(trace.npu_held.times_ns for _, trace in traces):
        legend.append(line(texts("memory_npu"), INK, linewidth=1, linestyle=":"))
    return svg_of(canvas, legend)


def _first_trace(program: StoredProgram) -> ProgramTrace | None:
    """Return the trace of the first repeat; None if there is no repeat, or its trace is lost."""
    if not program.info.repeats:
        return None
    return read_trace(program.file.path.parent.parent, program.info.repeats[0].trace, ProgramTrace)
