"""The tables as data frames, and as plain files that a script can read: CSV and Markdown.

Names of columns carry their units and do not change; docs/results.md explains each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from reports.comparison import Group, Row
from reports.contexts import context_costs, further_costs
from reports.copies import avoided_bytes, copied
from reports.material import Material
from reports.npu import context_components
from reports.published import PublishedRow
from reports.summary import Figure
from storage.mechanisms import RuntimeTrials

__all__ = [
    "COMPARISON_COLUMNS",
    "comparison_table",
    "contexts_table",
    "mechanisms_table",
    "npu_components_table",
    "slopes_table",
    "write_tables",
]

#: New columns come at the end: scripts may read the others by their place.
COMPARISON_COLUMNS = (
    "runtime",
    "runtime_version",
    "target",
    "scenario",
    "baseline",
    "streams",
    "contexts",
    "models",
    "outcome",
    "application_memory_bytes",
    "application_memory_spread_bytes",
    "application_memory_trimmed_bytes",
    "application_memory_over_baseline_bytes",
    "system_memory_bytes",
    "system_memory_noise_bytes",
    "npu_memory_bytes",
    "saved_bytes",
    "saved_percent",
    "saved_over_baseline_percent",
    "latency_ns",
    "throughput_per_s",
    "npu_saved_bytes",
    "npu_saved_percent",
    "npu_peak_bytes",
    "npu_left_bytes",
    "copied_bytes_per_inference",
    "copies_avoided_bytes",
)
#: Identity of a configuration in every other table.
_IDENTITY = ("runtime", "runtime_version", "target", "scenario", "streams", "contexts", "models")
#: Identity of a runtime that was tried.
_TRIED = ("runtime", "runtime_version", "target", "python_version", "chip")
#: What stands in `outcome` of a row that was not measured here.
_PUBLISHED = "published"


def comparison_table(groups: Iterable[Group], published: Iterable[PublishedRow]) -> pd.DataFrame:
    """Return a row per configuration in COMPARISON_COLUMNS, then the published rows."""
    measured = [_comparison_row(row) for group in groups for row in group.rows]
    return _frame([*measured, *map(_published_row, published)], COMPARISON_COLUMNS)


def contexts_table(groups: Iterable[Group]) -> pd.DataFrame:
    """Return a row per context of every configuration: what it added, and the total with it."""
    rows = [
        {**_identity(row), "context": cost.number, "mechanism": cost.mechanism}
        | {"added_bytes": _median(cost.added), "added_spread_bytes": _spread(cost.added)}
        | {"total_over_baseline_bytes": _median(cost.total), "load_ns": _median(cost.load_ns)}
        for group in groups
        for row in group.rows
        for cost in context_costs(row)
    ]
    columns = (*_IDENTITY, "context", "mechanism", "added_bytes", "added_spread_bytes")
    return _frame(rows, (*columns, "total_over_baseline_bytes", "load_ns"))


def slopes_table(groups: Iterable[Group]) -> pd.DataFrame:
    """Return what a further context of each mechanism costs in every configuration."""
    rows = [
        {**_identity(row), "mechanism": cost.mechanism, "further_contexts": cost.count}
        | {"slope_bytes": _median(cost.slope), "slope_spread_bytes": _spread(cost.slope)}
        | {"npu_slope_bytes": _median(cost.npu_slope), "npu_slope_spread_bytes": _spread(cost.npu_slope)}
        for group in groups
        for row in group.rows
        for cost in further_costs(row)
    ]
    columns = ("mechanism", "further_contexts", "slope_bytes", "slope_spread_bytes")
    return _frame(rows, (*_IDENTITY, *columns, "npu_slope_bytes", "npu_slope_spread_bytes"))


def npu_components_table(groups: Iterable[Group]) -> pd.DataFrame:
    """Return a row for each component of each context's NPU memory; no context: made in no context's step."""
    rows = [
        {**_identity(row), "context": context, "component": component, "bytes": _median(size)}
        for group in groups
        for row in group.rows
        for context, component, size in context_components(row)
    ]
    return _frame(rows, (*_IDENTITY, "context", "component", "bytes"))


def mechanisms_table(tried: Iterable[RuntimeTrials]) -> pd.DataFrame:
    """Return a row for each mechanism of each runtime that was tried: what it came to."""
    rows = [
        {**vars(each), **vars(trial), "combined": " ".join(trial.combined) or None}
        for each in tried
        for trial in each.trials
    ]
    columns = ("recorded_at", "scenario", "verdict", "reason", "memory", "saved_bytes", "spread_bytes", "whole_bytes")
    return _frame(rows, (*_TRIED, *columns, "copies_avoided_bytes", "combined"))


def write_tables(material: Material, folder: Path) -> None:
    """Write every table as CSV and as Markdown into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = material.groups
    tables = {
        "comparison": comparison_table(groups, material.published),
        "contexts": contexts_table(groups),
        "slopes": slopes_table(groups),
        "npu_components": npu_components_table(groups),
        "mechanisms": mechanisms_table(material.tried),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        (folder / f"{name}.md").write_text(_markdown(table), encoding="utf-8")


def _comparison_row(row: Row) -> dict[str, Any]:
    application, counted = row.memory("application_memory_bytes"), copied(row)
    return {
        **_identity(row),
        "baseline": row.info["baseline"],
        "outcome": row.outcome,
        "application_memory_bytes": _median(application),
        "application_memory_spread_bytes": _spread(application),
        "application_memory_trimmed_bytes": _median(row.memory("application_memory_trimmed_bytes")),
        "application_memory_over_baseline_bytes": _median(row.memory("application_memory_over_baseline_bytes")),
        "system_memory_bytes": _median(row.memory("system_memory_bytes")),
        "system_memory_noise_bytes": _median(row.memory("system_memory_noise_bytes")),
        "npu_memory_bytes": _median(row.memory("npu_memory_bytes")),
        "saved_bytes": _median(row.saved),
        "saved_percent": _rounded(row.saved_percent),
        "saved_over_baseline_percent": _rounded(row.saved_over_baseline_percent),
        "latency_ns": _median(row.latency),
        "throughput_per_s": _rounded(row.throughput.median if row.throughput else None),
        "npu_saved_bytes": _median(row.npu_saved),
        "npu_saved_percent": _rounded(row.npu_saved_percent),
        "npu_peak_bytes": _median(row.memory("npu_peak_bytes")),
        "npu_left_bytes": _median(row.memory("npu_left_bytes")),
        "copied_bytes_per_inference": _whole(counted.total_bytes if counted else None),
        "copies_avoided_bytes": _whole(avoided_bytes(row)),
    }


def _published_row(row: PublishedRow) -> dict[str, Any]:
    known = {key: value for key, value in vars(row).items() if key in COMPARISON_COLUMNS}
    return {**known, "outcome": _PUBLISHED, "saved_percent": _rounded(row.saved_percent)}


def _identity(row: Row) -> dict[str, Any]:
    values = {key: row.info[key] for key in _IDENTITY if key != "models"}
    return {**values, "models": row.models}


def _frame(rows: list[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows as objects: whole numbers stay whole where others in their column are missing."""
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    return frame


def _median(figure: Figure | None) -> int | None:
    return round(figure.median) if figure else None


def _spread(figure: Figure | None) -> int | None:
    return round(figure.spread) if figure and figure.spread is not None else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _in_a_line(cell: object) -> str:
    return str(cell).replace("|", "\\|").replace("\n", " ")


def _markdown(table: pd.DataFrame) -> str:
    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join("" if pd.isna(cell) else _in_a_line(cell) for cell in cells) + " |\n"

    head = line(table.columns) + line("---" for _ in table.columns)
    return head + "".join(line(row) for row in table.itertuples(index=False))
