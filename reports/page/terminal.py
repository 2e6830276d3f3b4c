"""The comparison for the terminal: the main columns, in 80 characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table

from reusebench.reports.base.formatting import (
    EMPTY,
    doubted,
    mib,
    milliseconds,
    per_second,
    percent,
    seconds,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.programs import StoredProgram
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import APPLICATION, NPU
from reusebench.reports.sections.answer import Opening
from reusebench.reports.sections.leaks import leak_sentences, level_sentences
from reusebench.reports.sections.limit import limit_sentences
from reusebench.reports.sections.programs import (
    phase_figure,
    phase_text,
    program_warnings,
)
from reusebench.reports.shared.answers import (
    answers,
    equal_scenarios,
    group_warnings,
    not_supported,
    virtual_note,
)
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

#: What a cell shows, below a word of the texts and a unit.
_Columns = dict[tuple[str, str], Callable[[Row], str]]

_SPEED: _Columns = {
    ("latency", "ms"): lambda row: milliseconds(row.latency, spread=False),
    ("rate", "/s"): lambda row: per_second(row.throughput, spread=False),
}
_APPLICATION: _Columns = {
    ("application", "MiB"): lambda row: doubted(mib(row.memory(APPLICATION)), row.is_short),
    ("saved", "MiB"): lambda row: mib(row.saved()),
    ("saved", "%"): lambda row: percent(row.saved_percent()),
    ("system", "MiB"): lambda row: mib(row.memory("system_memory_bytes"), spread=False),
    **_SPEED,
}
_NPU: _Columns = {
    ("npu", "MiB"): lambda row: mib(row.memory(NPU), npu=True, spread=False),
    ("saved", "MiB"): lambda row: mib(row.saved(NPU), npu=True, spread=False),
    ("saved", "%"): lambda row: percent(row.saved_percent(NPU)),
    ("application", "MiB"): lambda row: doubted(
        mib(row.memory(APPLICATION), spread=False), row.is_short
    ),
    ("latency", "ms"): _SPEED[("latency", "ms")],
}
_STREAMS: _Columns = {
    ("application", "MiB"): lambda row: doubted(
        mib(row.memory(APPLICATION), spread=False), row.is_short
    ),
    ("saved", "MiB"): lambda row: mib(row.saved(), spread=False),
    ("saved", "%"): lambda row: percent(row.saved_percent()),
}
_FRAMES: _Columns = {
    ("frames", "/s"): lambda row: frame_rate(all_frames(row), spread=False),
    ("lost", "%"): lambda row: frames_lost(all_frames(row)),
    ("p99", "ms"): lambda row: frame_latency(all_frames(row), "p99"),
}
#: Characters of the names of programs and phases.
_NAME = 16
_PROGRAM_COLUMNS = (
    ("time", "s"),
    ("application", "MiB"),
    ("peak_of_sum", "MiB"),
    ("largest", "MiB"),
)


def print_group(group: Group, texts: Texts, console: Console) -> None:
    """Print one group: conditions, a table of what was measured, and in sentences the answers and
    what was not.

    Streams have a table of their own behind it.
    """
    info = group.info
    rows = [row for row in group.rows if row.is_compared]
    title = texts(
        "terminal_title_plans" if group.is_of_plans else "terminal_title",
        runtime=texts.runtime(info.runtime),
        version=group.short_version or EMPTY,
        target=info.target,
        streams=info.streams,
        contexts=info.contexts,
    )
    in_turn = [row.info.model_files for row in group.rows if row.models_in_turn]
    title += texts("terminal_in_turn", files=in_turn[0]) if in_turn else ""
    columns = _NPU if group.has_npu_memory else _APPLICATION
    if not group.computes:
        columns = {head: show for head, show in columns.items() if head not in _SPEED}
    if rows:
        console.print(_table((row for row in rows if row.measured), columns, texts, title))
    else:
        console.print(title, style="italic")
    if note := virtual_note(group, texts):
        console.print(note, highlight=False)
    _print_list(
        [*answers(rows, texts), equal_scenarios(group.rows, texts), not_supported(rows, texts)],
        console,
    )
    of_cycles = [row for row in group.rows if row.info.plan.cycles]
    _print_list([*level_sentences(of_cycles, texts), not_supported(of_cycles, texts)], console)
    _print_warnings(leak_sentences(of_cycles, texts), console)
    _print_limits(group.questions.get(LIMIT, []), texts, console)
    for workload in workloads(group.rows):
        _print_workload(group, workload, texts, console)
    _print_warnings(group_warnings(group, texts), console)


def print_programs(programs: Sequence[StoredProgram], texts: Texts, console: Console) -> None:
    """Print the phases of recorded programs; nothing if there are none."""
    if not programs:
        return
    table = Table(
        title=texts("section_programs"), title_justify="left", box=None, padding=(0, 1, 0, 0)
    )
    for name in ("program", "phase"):
        table.add_column(texts(f"terminal_{name}"), no_wrap=True, max_width=_NAME)
    _add_number_columns(table, _PROGRAM_COLUMNS, texts)
    table.add_column(texts("program_column_outcome"), overflow="fold")
    for program in programs:
        for index, phase in enumerate(program.info.phases):
            figures = [
                seconds(Figure.of(phase.durations_ns), spread=False),
                doubted(mib(phase_figure(phase, "application_memory")), program.is_short),
                doubted(phase_text(phase, "application_peak_rss"), program.is_short),
                doubted(phase_text(phase, "process_peak_rss"), program.is_short),
            ]
            name = "" if index else program.name
            table.add_row(name, phase.name, *figures, texts(f"outcome_{program.info.outcome}"))
    console.print(table)
    _print_warnings(program_warnings(programs, texts), console)


def print_opening(opening: Opening, texts: Texts, console: Console) -> None:
    """Print what opens the page, at the end, where a reader of a terminal begins."""
    console.print(f"\n{texts('section_answer')}", style="bold")
    for answer in opening.answers:
        console.print(answer.label, highlight=False)
        figures = [
            texts(
                "terminal_figure",
                head=one.head,
                value=f"{one.value} {one.unit}".strip(),
                remark=one.remark,
            )
            for one in answer.figures
        ]
        _print_list([answer.contexts, *figures, answer.advice, *answer.remarks], console)
    _print_list([*opening.ranking, *opening.others], console)
    console.print()


def _print_limits(rows: Sequence[Row], texts: Texts, console: Console) -> None:
    if rows:
        console.print(f"\n{texts('question_limit')}", highlight=False)
        _print_list([*limit_sentences(rows, texts), not_supported(rows, texts)], console)


def _print_workload(group: Group, workload: Workload, texts: Texts, console: Console) -> None:
    console.print(f"\n{workload_sentence(workload, texts)}", highlight=False)
    memory = _STREAMS
    if group.has_npu_memory:
        memory = {head: show for head, show in _NPU.items() if head not in _SPEED}
    columns = {**memory, **(_FRAMES if workload.computes else {})}
    # Of a run that was cut off there may be figures of frames alone.
    console.print(
        _table((row for row in workload.rows if row.measured or all_frames(row)), columns, texts)
    )
    sentences = (frame_sentences, memory_sentences, growth_sentences)
    _print_list([line for lines in sentences for line in lines(workload, texts)], console)
    _print_list([not_supported(workload.rows, texts)], console)
    _print_warnings(stream_warnings(workload, texts), console)


def _table(rows: Iterable[Row], columns: _Columns, texts: Texts, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column(texts("terminal_scenario"), no_wrap=True)
    _add_number_columns(table, columns, texts)
    for row in rows:
        table.add_row(row.scenario, *(show(row) for show in columns.values()))
    return table


def _add_number_columns(table: Table, heads: Iterable[tuple[str, str]], texts: Texts) -> None:
    for name, unit in heads:
        table.add_column(f"{texts(f'terminal_{name}')}\n{unit}", justify="right", no_wrap=True)


def _print_list(sentences: Iterable[str | None], console: Console) -> None:
    for sentence in filter(None, sentences):
        console.print(f"- {sentence}", highlight=False)


def _print_warnings(sentences: Iterable[str], console: Console) -> None:
    for sentence in sentences:
        console.print(f"! {sentence}", highlight=False, style="yellow")
