"""The comparison of scenarios with their baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reusebench.reports.base.formatting import (
    EMPTY,
    doubted,
    mib,
    milliseconds,
    per_second,
    percent,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import NPU, OVER_BASELINE
from reusebench.reports.shared.shortage import outcome_in_words

#: Every figure of a configuration that a table shows.
FIGURE_COLUMNS: dict[str, Callable[[Row], str]] = {
    "column_npu": lambda row: mib(row.memory(NPU), npu=True),
    "column_npu_saved": lambda row: mib(row.saved(NPU), npu=True),
    "column_npu_saved_percent": lambda row: percent(row.saved_percent(NPU)),
    "column_application": lambda row: mib(row.memory("application_memory_bytes")),
    "column_trimmed": lambda row: mib(row.memory("application_memory_trimmed_bytes")),
    "column_baseline_memory": lambda row: mib(row.memory("baseline_memory_bytes")),
    "column_saved": lambda row: mib(row.saved()),
    "column_saved_percent": lambda row: percent(row.saved_percent()),
    "column_application_saved": lambda row: mib(row.saved()),
    "column_application_saved_percent": lambda row: percent(row.saved_percent()),
    "column_saved_over_bytes": lambda row: mib(row.saved(OVER_BASELINE)),
    "column_saved_over": lambda row: percent(row.saved_percent(OVER_BASELINE)),
    "column_system": lambda row: mib(_system_memory_with_noise(row)),
    "column_latency": lambda row: milliseconds(row.latency),
    "column_throughput": lambda row: per_second(row.throughput),
    "column_rss": lambda row: mib(row.memory("application_rss_bytes")),
    "column_peak": lambda row: mib(row.memory("application_peak_rss_bytes")),
    "column_residue": lambda row: mib(row.memory("residue_memory_bytes")),
    "column_load": lambda row: milliseconds(_load(row)),
    "column_repeats": lambda row: str(len(row.info.repeats)),
}

_SPEED = ("column_latency", "column_throughput")
#: A shortage of memory does not show in them.
_NEVER_SHORT = ("column_npu", "column_npu_saved", "column_npu_saved_percent", "column_repeats")
_COMPARISON = (
    "column_application",
    "column_trimmed",
    "column_saved",
    "column_saved_percent",
    "column_saved_over",
    "column_system",
)
_NPU_COMPARISON = (
    "column_npu",
    "column_npu_saved",
    "column_npu_saved_percent",
    "column_application",
)
#: Of an NPU whose arithmetic is missing: most of application memory is the emulator's, or it lacks
#: what the NPU writes.
_VIRTUAL_COMPARISON = ("column_baseline_memory", "column_saved_over_bytes", "column_saved_over")


def comparison_table(
    group: Group, rows: Sequence[Row], published: Sequence[PublishedRow], texts: Texts
) -> Table:
    """Return the comparison of these rows of the group, and the published ones below it."""
    columns = comparison_columns(group)
    lines = []
    for row in rows:
        count = str(len(row.info.models))
        if row.models_in_turn:
            count = texts("models_in_turn", files=row.info.model_files, streams=row.info.streams)
        cells = [
            texts.scenario(row.scenario),
            count,
            *figure_cells(row, columns),
            against(row, texts),
            _outcome(row, texts),
        ]
        lines.append((row.outcome, cells))
    for one in published:
        compared = texts.scenario(one.baseline) if one.baseline else EMPTY
        figures = [one.cell(column) for column in columns]
        name = f"{texts.scenario(one.scenario)} ({one.target})"
        lines.append((PUBLISHED, [name, EMPTY, *figures, compared, texts("outcome_published")]))
    heads = ("column_scenario", "column_models", *columns, "column_against", "column_outcome")
    return Table(heads_of(heads, texts), lines, words=(0, 1, -2, -1))


def against(row: Row, texts: Texts) -> str:
    """Return the name of the row's baseline."""
    baseline = row.baseline.scenario if row.baseline else row.info.baseline
    return texts.scenario(baseline) if baseline and row.measured else EMPTY


def figure_cells(row: Row, columns: Sequence[str]) -> list[str]:
    """Return the cells of these columns; where memory was short, figures that it falsifies are
    marked.
    """
    cells = []
    for column in columns:
        is_short = row.is_compared_with_short if "saved" in column else row.is_short
        cells.append(doubted(FIGURE_COLUMNS[column](row), is_short and column not in _NEVER_SHORT))
    return cells


def _outcome(row: Row, texts: Texts) -> str:
    outcome = texts(f"outcome_{row.outcome}")
    return outcome_in_words(outcome, row.info.shortage_signs, texts)


def comparison_columns(group: Group) -> Sequence[str]:
    """Return the columns of figures that the comparison of a group has."""
    if not group.has_npu_memory:
        return (*_COMPARISON, *_SPEED) if group.computes else _COMPARISON
    if not group.computes:
        return (*_NPU_COMPARISON, *_VIRTUAL_COMPARISON)
    return (
        *_NPU_COMPARISON,
        "column_application_saved",
        "column_application_saved_percent",
        *_SPEED,
    )


def _system_memory_with_noise(row: Row) -> Figure | None:
    """Return the system memory with the idle noise as its spread, which is mostly the larger."""
    system = row.memory("system_memory_bytes")
    noise = row.system_noise_bytes
    return Figure(system.median, noise) if system and noise is not None else None


def _load(row: Row) -> Figure | None:
    medians = [Figure.of(repeat) for repeat in row.info.speed.context_load_ns]
    return Figure.of(figure.median for figure in medians if figure)
