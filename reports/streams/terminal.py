"""Streams of video for the terminal: memory beside frames, in 80 characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from reports.base.formatting import EMPTY, mib, npu_mib, per_second, percent
from reports.base.texts import Texts
from reports.results.rows import Group, Row
from reports.sections.answers import not_supported
from reports.streams.frames import Workload, all_frames, workloads
from reports.streams.text import asked_sentences, frame_sentences, growth_sentences, memory_sentences, stream_warnings

#: What stands in a cell, below a word of the texts and a unit.
_Columns = dict[tuple[str, str], Callable[[Row], str]]
_APPLICATION: _Columns = {
    ("application", "MiB"): lambda row: mib(row.memory("application_memory_bytes"), spread=False),
    ("saved", "MiB"): lambda row: mib(row.saved, spread=False),
    ("saved", "%"): lambda row: percent(row.saved_percent),
}
_NPU: _Columns = {
    ("npu", "MiB"): lambda row: npu_mib(row.memory("npu_memory_bytes"), spread=False),
    ("saved", "MiB"): lambda row: npu_mib(row.npu_saved, spread=False),
    ("saved", "%"): lambda row: percent(row.npu_saved_percent),
    ("application", "MiB"): lambda row: mib(row.memory("application_memory_bytes"), spread=False),
}
_FRAMES: _Columns = {
    ("frames", "/s"): lambda row: _rate(row),
    ("lost", "%"): lambda row: _lost(row),
    ("p99", "ms"): lambda row: _latency(row),
}


def print_streams(group: Group, texts: Texts, console: Console) -> None:
    """Print each workload of the group: what was to be done, a table, and its sentences; nothing without streams."""
    for workload in workloads(group.rows):
        for sentence in asked_sentences(workload, texts):
            console.print(f"\n{sentence}", highlight=False)
        console.print(_table(group, workload, texts))
        sentences = [
            *frame_sentences(workload, texts),
            *memory_sentences(workload, texts),
            *growth_sentences(workload, texts),
            not_supported(workload.rows, texts),
        ]
        for sentence in filter(None, sentences):
            console.print(f"- {sentence}", highlight=False)
        for warning in stream_warnings(workload, texts):
            console.print(f"! {warning}", highlight=False, style="yellow")


def _table(group: Group, workload: Workload, texts: Texts) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column(texts("terminal_scenario"), no_wrap=True)
    columns = {**(_NPU if group.has_npu_memory else _APPLICATION), **(_FRAMES if workload.computes else {})}
    for name, unit in columns:
        table.add_column(f"{texts(f'terminal_{name}')}\n{unit}", justify="right", no_wrap=True)
    for row in _shown(workload.rows):
        table.add_row(row.scenario, *(show(row) for show in columns.values()))
    return table


def _shown(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that there are figures of, be they of frames alone."""
    return [row for row in rows if row.measured or all_frames(row)]


def _rate(row: Row) -> str:
    frames = all_frames(row)
    return per_second(frames.per_s if frames else None, spread=False)


def _lost(row: Row) -> str:
    frames = all_frames(row)
    return percent(frames.lost_percent.median if frames and frames.lost_percent else None)


def _latency(row: Row) -> str:
    frames = all_frames(row)
    return f"{frames.latency['p99'].median / 1e6:,.1f}" if frames and frames.latency else EMPTY
