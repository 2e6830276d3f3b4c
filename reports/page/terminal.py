"""The report in the terminal: the answer in ten lines, and on demand every table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from reusebench.reports.base.formatting import (
    doubted,
    mib,
    milliseconds,
    per_second,
    percent,
    seconds,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.page.index import SECTIONS
from reusebench.reports.results.programs import StoredProgram
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.runtime_comparison import runtime_comparison
from reusebench.reports.results.sessions import (
    ALL_GENERATED,
    FIRST_TOKEN,
    further_conversation,
    has_conversations,
    speed_figure,
)
from reusebench.reports.results.system_memory import hidden_system_memory
from reusebench.reports.sections.answer import opening, warnings_of
from reusebench.reports.sections.leaks import leak_sentences, level_sentences
from reusebench.reports.sections.limit import limit_sentences
from reusebench.reports.sections.programs import (
    phase_text,
    program_remarks,
    program_warnings,
)
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.runtimes import best_runtimes
from reusebench.reports.sections.section import Page
from reusebench.reports.shared.answers import (
    answers,
    group_warnings,
    memory_note,
    not_supported,
    system_memory_note,
    virtual_note,
)
from reusebench.reports.shared.comparison import latency_sentences, name_in_words
from reusebench.reports.side_by_side.sentences import summary_of
from reusebench.reports.side_by_side.stacks import side_by_side
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
    ("latency", "ms"): lambda row: milliseconds(row.latency, spread=False),
    ("rate", "/s"): lambda row: per_second(row.throughput, spread=False),
}
_APPLICATION: _Columns = {
    ("application", "MiB"): lambda row: _application_memory(row, spread=True),
    ("saved", "%"): lambda row: _saved(row, percent(row.saved_percent())),
    **_SPEED,
    ("saved", "MiB"): lambda row: _saved(row, mib(row.saved())),
    ("system", "MiB"): lambda row: mib(row.memory("system_memory_bytes"), spread=False),
}
_NPU: _Columns = {
    ("npu", "MiB"): lambda row: mib(row.memory(NPU), npu=True, spread=False),
    ("saved", "MiB"): lambda row: mib(row.saved(NPU), npu=True, spread=False),
    ("saved", "%"): lambda row: percent(row.saved_percent(NPU)),
    ("application", "MiB"): lambda row: _application_memory(row, spread=False),
    ("latency", "ms"): _SPEED[("latency", "ms")],
}
_TOKENS: _Columns = {
    ("first_token", "ms"): lambda row: milliseconds(speed_figure(row, FIRST_TOKEN), spread=False),
    ("tokens", "/s"): lambda row: per_second(speed_figure(row, ALL_GENERATED), spread=False),
}
_STREAMS: _Columns = {
    ("application", "MiB"): lambda row: _application_memory(row, spread=False),
    ("saved", "MiB"): lambda row: _saved(row, mib(row.saved(), spread=False)),
    ("saved", "%"): lambda row: _saved(row, percent(row.saved_percent())),
}
_FRAMES: _Columns = {
    ("frames", "/s"): lambda row: frame_rate(all_frames(row), spread=False),
    ("lost", "%"): lambda row: frames_lost(all_frames(row)),
    ("p99", "ms"): lambda row: frame_latency(all_frames(row), "p99"),
}
#: Lines of the answer, without the paths of what was written, and their width in characters.
MOST_LINES = 10
_WIDTH = 80
#: More characters than any table is wide.
_MOST = 1000
#: Questions that the sentence of the answer covers, and sections that answer one besides.
_IN_THE_ANSWER = ("dup", "lean", "sessions", "plans")
_OTHER_ANSWERS = ("what_fits", "programs")
#: Longest name of a program or phase, in characters; the shortest column of scenarios.
_NAME = 16
_PROGRAM_COLUMNS = (
    ("time", "s"),
    ("application", "MiB"),
    ("peak_of_sum", "MiB"),
    ("largest", "MiB"),
)


def print_group(group: Group, label: str, texts: Texts, console: Console) -> None:
    """Print the table of a group, notes, and warnings; streams have tables of their own."""
    compared = [row for row in group.rows if row.is_compared]
    _print_comparison(group, label, compared, texts, console)
    _print_list(latency_sentences(compared, texts), console)
    for note in (
        virtual_note(group, texts),
        memory_note(group, texts),
        system_memory_note(group, texts),
    ):
        if note:
            console.print(note, highlight=False)
    _print_list([*answers(compared, texts), not_supported(compared, texts)], console)
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


def print_answer(page: Page, console: Console) -> None:
    """Print the answer of the page in ten lines at most."""
    texts = page.texts
    comparison = runtime_comparison(page.groups)
    if comparison is None:
        paragraphs = [*_answers(page), *_warnings(page), *_others(page)]
    else:
        best = page.groups[comparison.best[0].number]
        best_page = Page(replace(page.material, groups=[best]), texts)
        answers = map(Text, best_runtimes(comparison, page.labels, texts))
        paragraphs = [*answers, *_warnings(page), *_others(best_page)]
    width = min(console.width, _WIDTH)
    for line in _fitting(paragraphs, width, texts, console):
        console.print(line, soft_wrap=True)


def print_side_by_side(page: Page, newest: Sequence[Group], console: Console) -> None:
    """Print a line for each network that one of the newest groups and another runtime have."""
    texts = page.texts
    title = texts("terminal_side_by_side")
    for pair in side_by_side(page.groups, page.material.networks):
        if any(stack.group in newest for stack in pair.stacks):
            line = texts("of_group", group=title, words=summary_of(pair, texts))
            console.print(Text(line), soft_wrap=True)


def _fitting(
    paragraphs: Sequence[Text], width: int, texts: Texts, console: Console
) -> Iterator[Text]:
    """Yield the lines of the paragraphs, as many whole paragraphs as fit; then how to see more."""
    wrapped = [paragraph.wrap(console, width) for paragraph in paragraphs]
    is_whole = sum(map(len, wrapped)) <= MOST_LINES
    left = MOST_LINES if is_whole else MOST_LINES - 1
    for lines in wrapped:
        if len(lines) <= left:
            left -= len(lines)
            yield from lines
    if not is_whole:
        yield Text(texts("terminal_more"))


def _answers(page: Page) -> Iterator[Text]:
    """Yield the sentence of each answer, after its label."""
    answers = opening(page.groups, page.labels, page.texts).answers
    for answer in answers:
        words = page.texts("of_group", group=answer.label, words=answer.sentence)
        yield Text(words)


def _warnings(page: Page) -> Iterator[Text]:
    for warning in warnings_of(page.groups, page.labels, page.texts):
        yield Text(f"! {warning}", style="yellow")


def _others(page: Page) -> Iterator[Text]:
    """Yield the answer to each other question that was asked."""
    for section in SECTIONS:
        is_asked = isinstance(section, QuestionSection) and section.name not in _IN_THE_ANSWER
        if (is_asked or section.name in _OTHER_ANSWERS) and section.applies(page):
            summary = section.summary(page)
            if summary:
                title = page.texts(f"terminal_{section.name}")
                yield Text(page.texts("of_group", group=title, words=summary))


def _print_comparison(
    group: Group, label: str, rows: Sequence[Row], texts: Texts, console: Console
) -> None:
    """Print the conditions of a group, and a table of its rows if there are any."""
    info = group.info
    title = label
    if not group.is_of_plans:
        title += texts(_counts_key(rows), streams=info.streams, contexts=info.contexts)
    in_turn = next((row for row in group.rows if row.models_in_turn), None)
    if in_turn:
        title += texts("terminal_in_turn", files=in_turn.info.model_files)
    if not rows:
        console.print(title, style="italic")
        return
    columns = dict(_NPU if group.has_npu_memory else _APPLICATION)
    if any(map(has_conversations, rows)):
        columns = _session_columns(rows)
    if hidden_system_memory(group):
        columns.pop(("system", "MiB"), None)
    if not group.computes:
        columns = _without_speed(columns)
    measured = [row for row in rows if row.measured]
    _print_table(measured, columns, texts, console, title)


def _counts_key(rows: Sequence[Row]) -> str:
    return "terminal_conversations" if any(map(has_conversations, rows)) else "terminal_counts"


def _print_workload(group: Group, workload: Workload, texts: Texts, console: Console) -> None:
    console.print(f"\n{workload_sentence(workload, texts)}", highlight=False)
    columns = _without_speed(_NPU) if group.has_npu_memory else _STREAMS
    if workload.computes:
        columns = {**columns, **_FRAMES}
    # A run that was cut off may have figures of frames alone.
    rows = [row for row in workload.rows if row.measured or all_frames(row)]
    _print_table(rows, columns, texts, console)
    _print_list(answers(workload.rows, texts), console)
    for sentences in (frame_sentences, memory_sentences, growth_sentences):
        _print_list(sentences(workload, texts), console)
    _print_list([not_supported(workload.rows, texts)], console)
    _print_warnings(stream_warnings(workload, texts), console)


def _print_table(
    rows: Sequence[Row], columns: _Columns, texts: Texts, console: Console, title: str = ""
) -> None:
    """Print the table; in a terminal that is too narrow without its last columns."""
    shown = dict(columns)
    while True:
        table = _new_table(title)
        table.add_column(texts("terminal_scenario"), overflow="fold", min_width=_NAME)
        _add_number_columns(table, shown, texts)
        for row in rows:
            names = texts("scenario_and_id", name=name_in_words(row, texts, rows), id=row.scenario)
            table.add_row(Text(names), *(cell(row) for cell in shown.values()))
        least, most = Measurement.get(console, console.options.update(width=_MOST), table)
        if not console.is_terminal or least <= console.width or len(shown) == 1:
            break
        shown.popitem()
    if console.is_terminal:
        console.print(table)
        return
    # A file is as wide as its tables.
    width = console.width
    console.width = max(width, most)
    console.print(table)
    console.width = width


def _new_table(title: str | None) -> Table:
    return Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))


def _add_number_columns(table: Table, heads: Iterable[tuple[str, str]], texts: Texts) -> None:
    for name, unit in heads:
        table.add_column(f"{texts(f'terminal_{name}')}\n{unit}", justify="right", no_wrap=True)


def _session_columns(rows: Sequence[Row]) -> _Columns:
    """Return the columns of language models, which have the cost of a further conversation."""
    return {
        ("application", "MiB"): _APPLICATION["application", "MiB"],
        ("further_session", "MiB"): lambda row: mib(further_conversation(row, rows), spread=False),
        ("saved", "%"): _APPLICATION["saved", "%"],
        **_TOKENS,
        ("saved", "MiB"): _APPLICATION["saved", "MiB"],
    }


def _without_speed(columns: _Columns) -> _Columns:
    return {head: cell for head, cell in columns.items() if head not in _SPEED}


def _application_memory(row: Row, spread: bool) -> str:
    return doubted(mib(row.memory(APPLICATION), spread=spread), row.is_short)


def _saved(row: Row, text: str) -> str:
    return doubted(text, row.is_compared_with_short)


def _print_list(sentences: Iterable[str | None], console: Console) -> None:
    for sentence in filter(None, sentences):
        console.print(f"- {sentence}", highlight=False)


def _print_warnings(sentences: Iterable[str], console: Console) -> None:
    for sentence in sentences:
        console.print(f"! {sentence}", highlight=False, style="yellow")
