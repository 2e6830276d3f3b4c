"""Programs that `reusebench record` measured: tables of phases and processes, and a figure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import INK, Draw, line, new_canvas, patch, svg_of
from reusebench.reports.base.formatting import MIB, doubted, mib, seconds
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import OTHER_COLOUR, PHASE_ALPHA, PROGRAM_PHASE_COLOURS
from reusebench.reports.results.programs import StoredProgram
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.shared.shortage import codes_of, outcome_in_words, short_row
from reusebench.storage.group_charge import charge_words
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.recorded_program import Phase, PhaseMedians, PhaseMemory
from reusebench.storage.run_file import CUT_OFF, NO_END, RUNNING, run_number
from reusebench.storage.trace import ProgramTrace, read_trace

#: Programs with a timeline on the page, and named processes of each.
_MOST_PROGRAMS = 6
_MOST_PROCESSES = 8
_PANEL_PX = 195
#: Figures that most programs lack; they are left out if they are zero.
_RARE = ("hugetlb_memory", "held_memory", "dmabuf_memory")
_SYSTEM = "system_memory_over_idle"
#: Figures of a phase on the page; the exported table has all.
_SHOWN = (
    "application_memory",
    "application_memory_median",
    "application_peak_rss",
    "process_peak_rss",
    _SYSTEM,
    "npu_memory",
    *_RARE,
)
#: Figures that are right even if memory was short, since their pages are never evicted.
_NEVER_SHORT = ("npu_memory", "hugetlb_memory", "dmabuf_memory")
_AT_MOST = "application_peak_rss_at_most_bytes"
_RARE_KEYS = tuple(f"{name}_bytes" for name in _RARE)
#: Figures whose columns came later.
_LATER = (
    _AT_MOST,
    "application_memory_at_least_bytes",
    "application_memory_at_most_bytes",
    *_RARE_KEYS,
)
_HIGHEST = "npu_highest_bytes"
_MEMORY = tuple(name for name in PhaseMemory.__struct_fields__ if name not in (*_LATER, _HIGHEST))
_MEDIANS = tuple(name for name in PhaseMedians.__struct_fields__ if name not in _RARE_KEYS)
_S = 10**9
_RSS_LOOK: dict[str, Any] = {"linewidth": 1.2}
_PSS_LOOK: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.4}
_NPU_LOOK: dict[str, Any] = {"linewidth": 1, "linestyle": ":"}


class ProgramsSection(Section):
    """Programs that `reusebench record` measured."""

    name = "programs"

    def applies(self, page: Page) -> bool:
        """Whether there is any recording."""
        return bool(page.material.programs)

    def summary(self, page: Page) -> str:
        """Return the most memory that each program took in any phase."""
        texts = page.texts
        parts = []
        for program in page.material.programs:
            sizes = [phase_figure(phase, "application_memory") for phase in program.info.phases]
            known = [size for size in sizes if size]
            if known:
                most = mib(max(known, key=lambda size: size.median))
                parts.append(texts("summary_program", program=program.name, most=most))
        return texts.joined(parts)

    def values(self, page: Page) -> Values:
        """Return the tables of phases and processes, and what their figures mean."""
        programs = page.material.programs
        texts = page.texts
        return {
            "warnings": program_warnings(programs, texts),
            "notes": [*program_charges(programs, texts), *program_remarks(programs, texts)],
            "table": programs_table(programs, texts),
            "processes": processes_table(programs, texts),
        }

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figure of memory over time."""
        return {"programs": partial(programs_figure, page.material.programs, page.texts)}


def _named(name: str, kind: str = "") -> tuple[str, str]:
    """Return the columns of a figure and its spread."""
    stem = f"{name.removesuffix('_bytes')}{kind}"
    return f"{stem}_bytes", f"{stem}_spread_bytes"


def _all_named(names: Iterable[str], kind: str = "") -> list[str]:
    """Return the columns of these figures, each before its spread."""
    columns: list[str] = []
    for name in names:
        columns += _named(name, kind)
    return columns


#: Columns of the exported table; new ones come at the end.
PROGRAM_COLUMNS = (
    "program",
    "phase",
    "repeats",
    "outcome",
    "duration_ns",
    "pss_readings",
    *_all_named(_MEMORY),
    "command",
    "file",
    "commit",
    "board",
    "recorded_at",
    "run_number",
    "reading_age_ns",
    "process_peaks_exact",
    *_named(_AT_MOST),
    *_all_named(_MEDIANS, "_median"),
    "memory_short",
    *(column for name in _LATER[1:] for column in _named(name, "")),
    *_all_named(_RARE_KEYS, "_median"),
    "memory_remarks",
    "oom_kills",
    *_named(_HIGHEST),
)


def phase_figure(phase: Phase, name: str) -> Figure | None:
    """Return a figure of a phase's memory in bytes."""
    part = phase.medians if name.endswith("_median") else phase.memory
    return Figure.of(getattr(part, f"{name.removesuffix('_median')}_bytes"))


def phase_text(phase: Phase, name: str, texts: Texts) -> str:
    """Return a figure in MiB.

    A peak is a range, or a lower bound, if readings do not tell it exactly. Memory at the end has
    its bounds behind it if the program went on at its mark, otherwise the age of its reading.
    """
    figure = phase_figure(phase, name)
    if figure is None:
        return mib(figure)
    if name == "application_memory":
        return _memory_text(phase, figure, texts)
    if name == "process_peak_rss":
        return mib(figure) if all(phase.process_peaks_exact) else f"≥ {mib(figure)}"
    if name == "application_peak_rss":
        return _sum_text(phase, figure)
    return mib(figure, npu=name.startswith("npu"))


def _memory_text(phase: Phase, figure: Figure, texts: Texts) -> str:
    if phase.memory_bounds:
        return f"{mib(figure)} ({_range(*phase.memory_bounds)})"
    if phase.memory_age_ns:
        age = f"{phase.memory_age_ns / _S:.2f}"
        return texts("program_memory_before", memory=mib(figure), seconds=age)
    return mib(figure)


def _sum_text(phase: Phase, figure: Figure) -> str:
    """Return the highest sum of RSS, with what it can have been at most."""
    at_most = phase.memory.application_peak_rss_at_most_bytes
    highest = Figure.of(at_most)
    if highest is None or None in at_most:
        return f"≥ {mib(figure)}"
    low = mib(Figure(figure.median))
    high = mib(Figure(highest.median))
    return mib(figure) if low == high else _range(figure, highest)


def _range(low: Figure, high: Figure) -> str:
    return f"{mib(Figure(low.median))} ... {mib(Figure(high.median))}"


def programs_table(programs: Sequence[StoredProgram], texts: Texts) -> Table | None:
    """Return a row for each phase of each program; None if there is none."""
    phases = []
    for program in programs:
        phases += [(program, phase) for phase in program.info.phases]
    if not phases:
        return None
    shown = [name for name in _SHOWN if any(_is_shown(*each, name) for each in phases)]
    has_boards = len({program.file.board for program in programs}) > 1
    lines = []
    for program, phase in phases:
        cells = [program.name]
        if has_boards:
            cells.append(program.file.board)
        duration = seconds(Figure.of(phase.durations_ns))
        cells += [phase.name, str(len(program.info.repeats)), doubted(duration, program.is_short)]
        for name in shown:
            is_short = program.is_short and name not in _NEVER_SHORT
            text = phase_text(phase, name, texts) if _is_told(program, name) else mib(None)
            cells.append(doubted(text, is_short))
        cells.append(_outcome(program, texts))
        lines.append((program.info.outcome, cells))
    names = ["program", "phase", "repeats", "duration", *shown, "outcome"]
    if has_boards:
        names.insert(1, "board")
    heads = heads_of((f"program_column_{name}" for name in names), texts)
    first_number = names.index("repeats")
    return Table(heads, lines, words=(*range(first_number), -1), exported="programs")


def _is_shown(program: StoredProgram, phase: Phase, name: str) -> bool:
    figure = phase_figure(phase, name)
    if figure is None or not _is_told(program, name):
        return False
    return name not in _RARE or figure.median > 0


def _is_told(program: StoredProgram, name: str) -> bool:
    """Whether the figure says something: noise may hide system memory."""
    return name != _SYSTEM or not program.info.hides_system_memory


def _outcome(program: StoredProgram, texts: Texts) -> str:
    """Return the end of the program, and the signs of short memory."""
    name = program.file.outcome_of(program.info.outcome)
    outcome = texts(f"outcome_{name}")
    # If its board or its recorder was lost, nobody knows how the program ended.
    if name not in ("ok", "connection_lost", CUT_OFF, RUNNING, NO_END) and program.info.repeats:
        last = program.info.repeats[-1]
        why = last.signal or texts("program_exit_code", code=last.exit_code)
        outcome = texts("program_outcome", outcome=outcome, why=why)
    if program.info.killed:
        outcome = texts.joined([outcome, texts.message(program.info.killed)])
    return outcome_in_words(outcome, program.info.shortage_signs, texts)


def program_warnings(programs: Sequence[StoredProgram], texts: Texts) -> list[str]:
    """Return a sentence with its remedy, if memory was short during any recording."""
    short = []
    for program in programs:
        if program.is_short:
            short.append(short_row(program.name, program.info.shortage_signs, texts))
    if not short:
        return []
    return [texts("programs_warning_short", mark=DOUBT, programs="; ".join(short))]


def program_charges(programs: Sequence[StoredProgram], texts: Texts) -> list[str]:
    """Return a sentence on the charge of each program's control group, if it has a limit."""
    sentences = []
    for program in programs:
        words = charge_words(repeat.charge for repeat in program.info.repeats)
        if words:
            charge = texts.message(words)
            sentences.append(texts("group_charge", name=program.name, charge=charge))
    return sentences


def program_remarks(programs: Sequence[StoredProgram], texts: Texts) -> list[str]:
    """Return sentences on memory of a program that no page shows, or that noise hides."""
    sentences = []
    for program in programs:
        if program.info.hides_system_memory:
            sentences.append(texts("program_system_hidden", name=program.name))
        for remark in program.info.memory_remarks:
            words = texts.message(remark)
            sentences.append(texts("program_remark", name=program.name, remark=words))
    return sentences


def processes_table(programs: Sequence[StoredProgram], texts: Texts) -> Table | None:
    """Return the processes with the highest peaks in the first repeat of each program.

    None if there are none.
    """
    lines = []
    for program in programs:
        if not program.info.repeats:
            continue
        for process in program.info.repeats[0].processes[:_MOST_PROCESSES]:
            peak = mib(Figure(process.peak_rss_bytes))
            cells = [
                program.name,
                f"{process.name} ({process.pid})",
                doubted(peak, program.is_short),
                seconds(Figure(process.first_seen_ns)),
                seconds(Figure(process.last_seen_ns)),
                texts("yes" if process.pss_readable else "no"),
            ]
            lines.append(("ok", cells))
    if not lines:
        return None
    names = ("program", "process", "peak", "first_seen", "last_seen", "pss")
    heads = heads_of((f"program_column_{name}" for name in names), texts)
    return Table(heads, lines, words=(0, 1, -1))


def program_records(programs: Iterable[StoredProgram]) -> Iterator[dict[str, Any]]:
    """Yield a record in PROGRAM_COLUMNS for each phase of every recording."""
    for program in programs:
        for phase in program.info.phases:
            yield {
                "program": program.name,
                "phase": phase.name,
                "repeats": len(program.info.repeats),
                "outcome": program.info.outcome,
                "duration_ns": rounded(Figure.of(phase.durations_ns)),
                "pss_readings": sum(phase.pss_readings),
                **_size_columns(phase.memory, ""),
                **_size_columns(phase.medians, "_median"),
                "command": shlex.join(program.info.command),
                "file": program.file.file_name,
                "commit": program.file.commit.id,
                "board": program.file.board,
                "recorded_at": program.file.recorded_at,
                "run_number": run_number(program.file.path),
                "reading_age_ns": rounded(Figure.of(phase.reading_ages_ns)),
                "process_peaks_exact": all(phase.process_peaks_exact),
                "memory_short": codes_of(program.info.shortage_signs),
                "memory_remarks": codes_of(program.info.memory_remarks),
                "oom_kills": program.oom_kills,
            }


def _size_columns(sizes: PhaseMemory | PhaseMedians, kind: str) -> dict[str, float | None]:
    """Return each size and its spread, by column."""
    columns: dict[str, float | None] = {}
    for name in sizes.__struct_fields__:
        figure = Figure.of(getattr(sizes, name) or ())
        size, spread = _named(name, kind)
        columns[size] = rounded(figure)
        columns[spread] = rounded_spread(figure)
    return columns


def programs_figure(
    programs: Sequence[StoredProgram], texts: Texts, paper: Paper = WIDE
) -> str | None:
    """Draw the sums of RSS and of PSS over time in the first repeat of each program.

    NPU memory is a thin line, if it was read. None if all traces are lost.
    """
    traces = []
    for program in programs[:_MOST_PROGRAMS]:
        trace = _first_trace(program)
        if trace and trace.timeline.times_ns:
            traces.append((program, trace))
    if not traces:
        return None
    # Phases of equal names have equal colours; those beyond the last colour share one.
    names: dict[str, None] = {}
    for program, _ in traces:
        names.update(dict.fromkeys(phase.name for phase in program.info.phases))
    colours = dict(zip(names, (*PROGRAM_PHASE_COLOURS, *[OTHER_COLOUR] * len(names))))
    # Each program has axes of its own: neither durations nor memory are alike.
    columns = min(len(traces), paper.columns)
    lines = -(-len(traces) // columns)
    canvas = new_canvas(_PANEL_PX * lines + 40, paper)
    for index, (program, trace) in enumerate(traces):
        axes = canvas.add_subplot(lines, columns, index + 1)
        _draw_program(axes, trace, colours)
        axes.set_title(program.name)
        if index % columns == 0:
            axes.set_ylabel(texts("axis_memory"))
        if index >= len(traces) - columns:
            axes.set_xlabel(texts("axis_time"))
    legend = [patch(name, colour, alpha=2 * PHASE_ALPHA) for name, colour in colours.items()]
    legend.append(line("RSS", INK, **_RSS_LOOK))
    legend.append(line("PSS", INK, **_PSS_LOOK))
    if any(trace.npu_held.times_ns for _, trace in traces):
        legend.append(line(texts("memory_npu"), INK, **_NPU_LOOK))
    return svg_of(canvas, legend)


def _draw_program(axes: Axes, trace: ProgramTrace, colours: Mapping[str, str]) -> None:
    """Draw the phases of a program as bars, and its memory as lines."""
    spans_s = []
    for phase in trace.phases:
        spans_s.append((phase.begin_ns / 1e9, (phase.end_ns - phase.begin_ns) / 1e9))
    axes.broken_barh(
        spans_s,
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolors=[colours.get(phase.name, OTHER_COLOUR) for phase in trace.phases],
        alpha=PHASE_ALPHA,
        linewidth=0,
    )
    for times_ns, sizes_bytes, look in (
        (trace.timeline.times_ns, trace.timeline.rss_bytes, _RSS_LOOK),
        (trace.pss.times_ns, trace.pss.pss_bytes, _PSS_LOOK),
        (trace.npu_held.times_ns, trace.npu_held.npu_memory_bytes, _NPU_LOOK),
    ):
        times_s = [time_ns / 1e9 for time_ns in times_ns]
        sizes_mib = [size_bytes / MIB for size_bytes in sizes_bytes]
        axes.plot(times_s, sizes_mib, color=INK, **look)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _first_trace(program: StoredProgram) -> ProgramTrace | None:
    """Return the trace of the first repeat; None if there is no repeat, or its trace is lost."""
    if not program.info.repeats:
        return None
    return read_trace(program.file.path.parent.parent, program.info.repeats[0].trace, ProgramTrace)
