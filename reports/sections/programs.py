"""Programs that `python -m samplers record` measured: what each of their phases took, and which process how much."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from reports.base.formatting import EMPTY, mib
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from storage.program import Phase, PhaseMemory, Process, Program
from storage.run_file import StoredRun

#: Programs that the page has a timeline of.
MOST_PROGRAMS = 6
#: Processes of a program that the page names.
_MOST_PROCESSES = 8
#: The figures of a phase on the page; the exported table has all.
_SHOWN = (
    "application_memory",
    "application_peak_rss",
    "process_peak_rss",
    "system_memory_over_idle",
    "npu_memory",
)
_MEMORY = PhaseMemory.__struct_fields__
#: Of the exported table; new columns come at the end.
PROGRAM_COLUMNS = (
    "program",
    "phase",
    "repeats",
    "outcome",
    "duration_ns",
    "pss_readings",
    *(f"{name.removesuffix('_bytes')}_{part}" for name in _MEMORY for part in ("bytes", "spread_bytes")),
    "command",
    "file",
    "commit",
    "board",
    "recorded_at",
    "run_number",
)


@dataclass(frozen=True)
class RecordedProgram:
    """One recording of a program."""

    info: Program
    file: StoredRun

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.info.name

    @property
    def board(self) -> str:
        """Where it ran."""
        return self.file.board


def programs_in(files: Iterable[StoredRun]) -> list[RecordedProgram]:
    """Return every recording, newest first."""
    newest_first = sorted(files, key=lambda file: file.recorded_at, reverse=True)
    return [RecordedProgram(info, file) for file in newest_first for info in file.programs]


def newest_programs(programs: Sequence[RecordedProgram]) -> list[RecordedProgram]:
    """Return the newest recording of each program on each board, newest first."""
    return list({(program.board, program.name): program for program in reversed(programs)}.values())[::-1]


def programs_table(programs: Sequence[RecordedProgram], texts: Texts) -> Table | None:
    """Return a row for each phase of each program; None where there is none."""
    if not programs:
        return None
    shown = [name for name in _SHOWN if any(_known(program, name) for program in programs)]
    several = len({program.board for program in programs}) > 1
    columns = ["program", *(["board"] if several else []), "phase", "repeats", "duration", *shown, "outcome"]
    rows = [
        (program.info.outcome, _cells(program, phase, shown, several, texts))
        for program in programs
        for phase in program.info.phases
    ]
    return Table([texts(f"program_column_{name}") for name in columns], rows)


def processes_table(programs: Sequence[RecordedProgram], texts: Texts) -> Table | None:
    """Return the processes with the highest peaks in the first repeat of each program; None where there are none."""
    rows = [
        ("ok", _process_cells(program, process, texts))
        for program in programs
        for process in program.info.repeats[0].processes[:_MOST_PROCESSES]
    ]
    heads = [
        texts(f"program_column_{name}") for name in ("program", "process", "peak", "first_seen", "last_seen", "pss")
    ]
    return Table(heads, rows) if rows else None


def terminal_cells(phase: Phase) -> list[str]:
    """Return time, application memory, highest sum of RSS and the largest process of a phase; of one the spread."""
    application, *peaks = (_figure(phase, name) for name in _SHOWN[:3])
    time = _seconds(Figure.of(phase.durations_ns), spread=False)
    return [time, mib(application), *(mib(peak, spread=False) for peak in peaks)]


def program_rows(programs: Sequence[RecordedProgram]) -> list[dict[str, Any]]:
    """Return a row in PROGRAM_COLUMNS for each phase of every recording, oldest first."""
    return [_row(program, phase) for program in reversed(programs) for phase in program.info.phases]


def _known(program: RecordedProgram, name: str) -> bool:
    return any(_figure(phase, name) for phase in program.info.phases)


def _figure(phase: Phase, name: str) -> Figure | None:
    return Figure.of(getattr(phase.memory, f"{name}_bytes"))


def _cells(program: RecordedProgram, phase: Phase, shown: Sequence[str], several: bool, texts: Texts) -> list[Cell]:
    return [
        Cell(program.name, False),
        *([Cell(program.board, False)] if several else []),
        Cell(phase.name, False),
        Cell(str(len(program.info.repeats))),
        Cell(_seconds(Figure.of(phase.durations_ns))),
        *(Cell(mib(_figure(phase, name))) for name in shown),
        Cell(_outcome(program, texts), False),
    ]


def _outcome(program: RecordedProgram, texts: Texts) -> str:
    """Return what became of it, with the exit code or the signal of the last repeat where it failed."""
    outcome, last = program.info.outcome, program.info.repeats[-1]
    name = texts(f"outcome_{outcome}")
    if outcome == "ok":
        return name
    why = last.signal or texts("program_exit_code", code=last.exit_code)
    return texts("program_outcome", outcome=name, why=why)


def _process_cells(program: RecordedProgram, process: Process, texts: Texts) -> list[Cell]:
    return [
        Cell(program.name, False),
        Cell(f"{process.name} ({process.pid})", False),
        Cell(mib(Figure(process.peak_rss_bytes, None))),
        *(Cell(_seconds(Figure(time_ns, None))) for time_ns in (process.first_seen_ns, process.last_seen_ns)),
        Cell(texts("yes" if process.pss_readable else "no"), False),
    ]


def _seconds(figure: Figure | None, spread: bool = True) -> str:
    if figure is None:
        return EMPTY
    shown = f" ±{figure.spread / 1e9:,.2f}" if spread and figure.spread is not None else ""
    return f"{figure.median / 1e9:,.2f}{shown}"


def _row(program: RecordedProgram, phase: Phase) -> dict[str, Any]:
    number = program.file.path.name.partition("_")[0]
    duration = Figure.of(phase.durations_ns)
    sizes: dict[str, int | None] = {}
    for name in _MEMORY:
        figure = Figure.of(getattr(phase.memory, name))
        sizes[name] = round(figure.median) if figure else None
        sizes[f"{name.removesuffix('_bytes')}_spread_bytes"] = _spread(figure)
    return {
        "program": program.name,
        "phase": phase.name,
        "repeats": len(program.info.repeats),
        "outcome": program.info.outcome,
        "duration_ns": round(duration.median) if duration else None,
        "pss_readings": sum(phase.pss_readings),
        **sizes,
        "command": shlex.join(program.info.command),
        "file": program.file.path.name,
        "commit": program.file.commit.id,
        "board": program.board,
        "recorded_at": program.file.recorded_at,
        "run_number": int(number) if number.isdigit() else None,
    }


def _spread(figure: Figure | None) -> int | None:
    return round(figure.spread) if figure and figure.spread is not None else None
