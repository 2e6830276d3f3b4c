"""The comparison for the terminal: the main columns, in 80 characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table

from reusebench.reports.base.formatting import (
    EMPTY,
    doubted,
    mib,
    per_second,
    percent,
    seconds,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.programs import StoredProgram
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.answer import Opening
from reusebench.reports.sections.leaks import leak_sentences, level_sentences
from reusebench.reports.sections.limit import limit_sentences
from reusebench.reports.sections.programs import (
    phase_text,
    program_remarks,
    program_warnings,
)
from reusebench.reports.shared.answers import (
    answers,
    equal_scenarios,
    group_warnings,
    not_supported,
    virtual_note,
)
from reusebench.reports.shared.comparison import latency_text
from reusebench.reports.streams.sentences import (
    frame_sentences,
    growth_sentences,
    memory_sentences,
    stream_warnings,
    workload_sentence,
)
from reusebench.reports.streams.tables import frame_latency, frame_rate, frames_lost
from reusebench.reports.streams.workload import Workload, all_frames, workloads
from reusebench.scenarios.catalogue import LIMIT
from reusebench.storage.savings import APPLICATION, NPU

#: Functions that make the cells of a column, by the column's key in the texts and its unit.
_Columns = dict[tuple[str, str], Callable[[Row], str]]

_SPEED: _Columns = {
    ("latency", "ms"): lambda row: latency_text(row, spread=False),
    ("rate", "/s"): lambda row: per_second(row.throughput, spread=False),
}
_APPLICATION: _Columns = {
    ("application", "MiB"): lambda row: _application_memory(row, spread=True),
    ("saved", "MiB"): lambda row: mib(row.saved()),
    ("saved", "%"): lambda row: percent(row.saved_percent()),
    ("system", "MiB"): lambda row: mib(row.memory("system_memory_bytes"), spread=False),
    **_SPEED,
}
_NPU: _Columns = {
    ("npu", "MiB"): lambda row: mib(row.memory(NPU), npu=True, spread=False),
    ("saved", "MiB"): lambda row: mib(row.saved(NPU), npu=True, spread=False),
    ("saved", "%"): lambda row: percent(row.saved_percent(NPU)),
    ("application", "MiB"): lambda row: _application_memory(row, spread=False),
    ("latency", "ms"): _SPEED[("latency", "ms")],
}
_STREAMS: _Columns = {
    ("application", "MiB"): lambda row: _application_memory(row, spread=False),
    ("saved", "MiB"): lambda row: mib(row.saved(), spread=False),
    ("saved", "%"): lambda row: percent(row.saved_percent()),
}
_FRAMES: _Columns = {
    ("frames", "/s"): lambda row: frame_rate(all_frames(row), spread=False),
    ("lost", "%"): lambda row: frames_lost(all_frames(row)),
    ("p99", "ms"): lambda row: frame_latency(all_frames(row), "p99"),
}
#: Longest name of a program or phase, in characters.
_NAME = 16
_PROGRAM_COLUMNS = (
    ("time", "s"),
    ("application", "MiB"),
    ("peak_of_sum", "MiB"),
    ("largest", "MiB"),
)


def print_group(group: Group, texts: Texts, console: Console) -> None:
    """Print the table of a group, answers, and warnings; streams have tables of their own."""
    compared = [row for row in group.rows if row.is_compared]
    _print_comparison(group, compared, texts, console)
    note = virtual_note(group, texts)
    if note:
        console.print(note, highlight=False)
    equal = equal_scenarios(group.rows, texts)
    _print_list([*answers(compared, texts), equal, not_supported(compared, texts)], console)
    cycles = [row for row in group.rows if row.info.plan.cycles]
    _print_list([*level_sentences(cycles, texts), not_supported(cycles, texts)], console)
    _print_warnings(leak_sentences(cycles, texts), console)
    limits = group.questions.get(LIMIT, [])
    if limits:
        console.print(f"\n{texts('question_limit')}", highlight=False)
        _print_list([*limit_sentences(limits, texts), not_supported(limits, texts)], console)
    for workload in workloads(group.rows):
        _print_workload(group, workload, texts, console)
    _print_warnings(group_warnings(group, texts), console)


def print_programs(programs: Sequence[StoredProgram], texts: Texts, console: Console) -> None:
    """Print the phases of recorded programs; nothing if there are none."""
    if not programs:
        return
    table = _new_table(texts("section_programs"))
    for name in ("program", "phase"):
        table.add_column(texts(f"terminal_{name}"), no_wrap=True, max_width=_NAME)
    _add_number_columns(table, _PROGRAM_COLUMNS, texts)
    table.add_column(texts("program_column_outcome"), overflow="fold")
    for program in programs:
        outcome = texts(f"outcome_{program.file.outcome_of(program.info.outcome)}")
        for index, phase in enumerate(program.info.phases):
            name = "" if index else program.name
            figures = [
                seconds(Figure.of(phase.durations_ns), spread=False),
                doubted(phase_text(phase, "application_memory", texts), program.is_short),
                doubted(phase_text(phase, "application_peak_rss", texts), program.is_short),
                doubted(phase_text(phase, "process_peak_rss", texts), program.is_short),
            ]
            table.add_row(name, phase.name, *figures, outcome)
    console.print(table)
    _print_list(program_remarks(programs, texts), console)
    _print_warnings(program_warnings(programs, texts), console)


def print_opening(opening: Opening, texts: Texts, console: Console) -> None:
    """Print the answers that open the page; last, since readers of a terminal begin at its end."""
    console.print(f"\n{texts('section_answer')}", style="bold")
    for answer in opening.answers:
        console.print(texts("of_group", group=answer.label, words=answer.sentence), highlight=False)
        _print_list(answer.remarks, console)
    _print_list(opening.ranking, console)
    console.print()


def _print_comparison(group: Group, rows: Sequence[Row], texts: Texts, console: Console) -> None:
    """Print the conditions of a group, and a table of its rows if there are any."""
    info = group.info
    title = texts(
        "terminal_title_plans" if group.is_of_plans else "terminal_title",
        runtime=texts.runtime(info.runtime),
        version=group.short_version or EMPTY,
        target=info.target,
        streams=info.streams,
        contexts=info.contexts,
    )
    in_turn = next((row for row in group.rows if row.models_in_turn), None)
    if in_turn:
        title += texts("terminal_in_turn", files=in_turn.info.model_files)
    if not rows:
        console.print(title, style="italic")
        return
    columns = _NPU if group.has_npu_memory else _APPLICATION
    if not group.computes:
        columns = _without_speed(columns)
    measured = [row for row in rows if row.measured]
    console.print(_table(measured, columns, texts, title))


def _print_workload(group: Group, workload: Workload, texts: Texts, console: Console) -> None:
    console.print(f"\n{workload_sentence(workload, texts)}", highlight=False)
    columns = _without_speed(_NPU) if group.has_npu_memory else _STREAMS
    if workload.computes:
        columns = {**columns, **_FRAMES}
    # A run that was cut off may have figures of frames alone.
    rows = [row for row in workload.rows if row.measured or all_frames(row)]
    console.print(_table(rows, columns, texts))
    for sentences in (frame_sentences, memory_sentences, growth_sentences):
        _print_list(sentences(workload, texts), console)
    _print_list([not_supported(workload.rows, texts)], console)
    _print_warnings(stream_warnings(workload, texts), console)


def _table(rows: Iterable[Row], columns: _Columns, texts: Texts, title: str | None = None) -> Table:
    table = _new_table(title)
    table.add_column(texts("terminal_scenario"), no_wrap=True)
    _add_number_columns(table, columns, texts)
    for row in rows:
        table.add_row(row.scenario, *(cell(row) for cell in columns.values()))
    return table


def _new_table(title: str | None) -> Table:
    return Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))


def _add_number_columns(table: Table, heads: Iterable[tuple[str, str]], texts: Texts) -> None:
    for name, unit in heads:
        table.add_column(f"{texts(f'terminal_{name}')}\n{unit}", justify="right", no_wrap=True)


def _without_speed(columns: _Columns) -> _Columns:
    return {head: cell for head, cell in columns.items() if head not in _SPEED}


def _application_memory(row: Row, spread: bool) -> str:
    return doubted(mib(row.memory(APPLICATION), spread=spread), row.is_short)


def _print_list(sentences: Iterable[str | None], console: Console) -> None:
    for sentence in filter(None, sentences):
        console.print(f"- {sentence}", highlight=False)


def _print_warnings(sentences: Iterable[str], console: Console) -> None:
    for sentence in sentences:
        console.print(f"! {sentence}", highlight=False, style="yellow")
