"""The comparison for the terminal: the main columns, in 80 characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reports.base.formatting import EMPTY, mib, milliseconds, npu_mib, per_second, percent
from reports.base.texts import Texts
from reports.results.rows import Group, Row
from reports.sections.answers import answers, not_supported, warnings
from reports.sections.programs import RecordedProgram, terminal_cells
from reports.streams.terminal import print_streams

#: What stands in a cell, below a word of the texts and a unit.
_Columns = dict[tuple[str, str], Callable[[Row], str]]

_APPLICATION: _Columns = {
    ("application", "MiB"): lambda row: mib(row.memory("application_memory_bytes")),
    ("saved", "MiB"): lambda row: mib(row.saved),
    ("saved", "%"): lambda row: percent(row.saved_percent),
    ("system", "MiB"): lambda row: mib(row.memory("system_memory_bytes"), spread=False),
    ("latency", "ms"): lambda row: milliseconds(row.latency, spread=False),
    ("rate", "/s"): lambda row: per_second(row.throughput, spread=False),
}
_NPU: _Columns = {
    ("npu", "MiB"): lambda row: npu_mib(row.memory("npu_memory_bytes"), spread=False),
    ("saved", "MiB"): lambda row: npu_mib(row.npu_saved, spread=False),
    ("saved", "%"): lambda row: percent(row.npu_saved_percent),
    ("application", "MiB"): lambda row: mib(row.memory("application_memory_bytes"), spread=False),
    ("latency", "ms"): lambda row: milliseconds(row.latency, spread=False),
}
#: Characters of the names of programs and phases.
_NAME = 16
_PROGRAM_HEADS = (("time", "s"), ("application", "MiB"), ("peak_of_sum", "MiB"), ("largest", "MiB"))


def print_group(group: Group, texts: Texts, console: Console) -> None:
    """Print one group: conditions, a table of what was measured, and in sentences the answers and what was not.

    Streams have a table of their own behind it.
    """
    rows = [row for row in group.rows if row.schedule is None]
    table = Table(title=_title(group, texts), title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column(texts("terminal_scenario"), no_wrap=True)
    columns = _columns(group)
    for name, unit in columns:
        table.add_column(f"{texts(f'terminal_{name}')}\n{unit}", justify="right", no_wrap=True)
    for row in rows:
        if row.measured:
            table.add_row(row.scenario, *(show(row) for show in columns.values()))
    console.print(table if rows else _title(group, texts), style="" if rows else "italic")
    if not group.computes:
        console.print(texts("note_virtual"), highlight=False)
    for answer in (*answers(rows, texts), not_supported(rows, texts)):
        if answer:
            console.print(f"- {answer}", highlight=False)
    print_streams(group, texts, console)
    for warning in warnings(group, texts):
        console.print(f"! {warning}", highlight=False, style="yellow")


def print_programs(programs: Sequence[RecordedProgram], texts: Texts, console: Console) -> None:
    """Print the phases of recorded programs; nothing where there are none."""
    if not programs:
        return
    table = Table(title=texts("section_programs"), title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in ("program", "phase"):
        table.add_column(texts(f"terminal_{name}"), no_wrap=True, max_width=_NAME)
    for name, unit in _PROGRAM_HEADS:
        table.add_column(f"{texts(f'terminal_{name}')}\n{unit}", justify="right", no_wrap=True)
    table.add_column(texts("program_column_outcome"), overflow="fold")
    for program in programs:
        outcome = texts(f"outcome_{program.info.outcome}")
        for place, phase in enumerate(program.info.phases):
            name = "" if place else escape(program.name)
            table.add_row(name, escape(phase.name), *terminal_cells(phase), outcome)
    console.print(table)


def print_opening(sentences: Sequence[str], texts: Texts, console: Console) -> None:
    """Print the sentences that open the page, at the end, where a reader of a terminal begins."""
    console.print(f"\n{texts('section_answer')}", style="bold")
    for sentence in sentences:
        console.print(f"- {sentence}", highlight=False)
    console.print()


def _title(group: Group, texts: Texts) -> str:
    info = group.info
    files = [row.info.model_files for row in group.rows if row.models_in_turn]
    title = texts(
        "terminal_title",
        runtime=texts.runtime(info.runtime),
        version=group.short_version or EMPTY,
        target=info.target,
        streams=info.streams,
        contexts=info.contexts,
    )
    return title + (texts("terminal_in_turn", files=files[0]) if files else "")


def _columns(group: Group) -> _Columns:
    """Return the columns that the group has figures for."""
    columns = _NPU if group.has_npu_memory else _APPLICATION
    return columns if group.computes else {key: show for key, show in columns.items() if key[1] not in ("ms", "/s")}
