"""The comparison for the terminal: the main columns, in 80 characters."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from reports.answers import answers, warnings
from reports.comparison import Group, Row
from reports.format import mib, milliseconds, per_second, percent
from reports.texts import Texts

__all__ = ["print_group"]

_COLUMNS = (
    ("application", "MiB"),
    ("saved", "MiB"),
    ("saved", "%"),
    ("system", "MiB"),
    ("latency", "ms"),
    ("rate", "/s"),
)


def print_group(group: Group, texts: Texts, console: Console) -> None:
    """Print one group: conditions, table, and the answers in sentences."""
    info = group.info
    table = Table(
        title=f"{info['runtime']} {info['runtime_version']} on {info['target']}, "
        f"{info['streams']} streams x {info['contexts']} contexts",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
    )
    table.add_column("scenario", no_wrap=True)
    table.add_column("models")
    for name, unit in _COLUMNS:
        table.add_column(f"{name}\n{unit}", justify="right", no_wrap=True)
    for row in group.rows:
        table.add_row(*_cells(row))
    console.print(table)
    for answer in answers(group, texts):
        console.print(f"- {answer}", highlight=False)
    for warning in warnings(group, texts):
        console.print(f"! {warning}", highlight=False, style="yellow")


def _cells(row: Row) -> list[str]:
    models = f"{row.info['model_files']} in turn" if row.models_in_turn else str(len(row.info["models"]))
    return [
        row.scenario,
        models,
        mib(row.memory("application_memory_bytes")) if row.measured else row.outcome,
        mib(row.saved),
        percent(row.saved_percent),
        mib(row.memory("system_memory_bytes"), spread=False),
        milliseconds(row.latency, spread=False),
        per_second(row.throughput, spread=False),
    ]
