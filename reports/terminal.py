"""The comparison for the terminal: the main columns, in 80 characters."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from reports.answers import answers, warnings
from reports.comparison import Group, Row
from reports.format import mib, milliseconds, npu_mib, per_second, percent
from reports.texts import Texts

__all__ = ["print_group"]

#: What stands in a cell, below a name and a unit.
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
    ("NPU", "MiB"): lambda row: npu_mib(row.memory("npu_memory_bytes"), spread=False),
    ("saved", "MiB"): lambda row: npu_mib(row.npu_saved, spread=False),
    ("saved", "%"): lambda row: percent(row.npu_saved_percent),
    ("application", "MiB"): lambda row: mib(row.memory("application_memory_bytes"), spread=False),
    ("latency", "ms"): lambda row: milliseconds(row.latency, spread=False),
}


def print_group(group: Group, texts: Texts, console: Console) -> None:
    """Print one group: conditions, table, and the answers in sentences."""
    info = group.info
    table = Table(
        title=f"{info['runtime']} {group.short_version} on {info['target']}, "
        f"{info['streams']} streams x {info['contexts']} contexts",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
    )
    table.add_column("scenario", no_wrap=True)
    table.add_column("models")
    columns = _columns(group)
    for name, unit in columns:
        table.add_column(f"{name}\n{unit}", justify="right", no_wrap=True)
    for row in group.rows:
        table.add_row(*_cells(row, columns))
    console.print(table)
    if not group.computes:
        console.print(texts("note_virtual"), highlight=False)
    for answer in answers(group.rows, texts):
        console.print(f"- {answer}", highlight=False)
    for warning in warnings(group, texts):
        console.print(f"! {warning}", highlight=False, style="yellow")


def _columns(group: Group) -> _Columns:
    """Return the columns that the group has figures for."""
    columns = _NPU if group.has_npu_memory else _APPLICATION
    return columns if group.computes else {key: show for key, show in columns.items() if key[1] not in ("ms", "/s")}


def _cells(row: Row, columns: _Columns) -> list[str]:
    models = f"{row.info['model_files']} in turn" if row.models_in_turn else str(len(row.info["models"]))
    first, *others = (show(row) for show in columns.values())
    return [row.scenario, models, first if row.measured else row.outcome, *others]
