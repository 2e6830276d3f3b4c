"""The comparison of scenarios with their baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reusebench.reports.base.formatting import (
    EMPTY,
    doubted,
    mib,
    milliseconds,
    milliseconds_range,
    per_second,
    percent,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.published import PUBLISHED, PublishedRow
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.sessions import has_conversations
from reusebench.reports.results.system_memory import hidden_system_memory
from reusebench.reports.shared.session_words import scenario_in_words
from reusebench.reports.shared.shortage import outcome_in_words
from reusebench.storage.savings import NPU

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
    "column_saved_over": lambda row: percent(row.saved_over_baseline_percent),
    "column_system": lambda row: mib(_system_memory_with_noise(row)),
    "column_latency": lambda row: latency_text(row),
    "column_throughput": lambda row: per_second(row.throughput),
    "column_pss": lambda row: mib(row.memory("application_pss_bytes")),
    "column_rss": lambda row: mib(row.memory("application_rss_bytes")),
    "column_peak": lambda row: mib(row.memory("application_peak_rss_bytes")),
    "column_residue": lambda row: mib(row.memory("residue_memory_bytes")),
    "column_load": lambda row: milliseconds(_load(row)),
    "column_repeats": lambda row: str(len(row.info.repeats)),
}

_SPEED = ("column_latency", "column_throughput")
#: Figures that are right even if memory was short.
_NEVER_SHORT = ("column_npu", "column_npu_saved", "column_npu_saved_percent", "column_repeats")
_COMPARISON: tuple[str, ...] = (
    "column_application",
    "column_trimmed",
    "column_saved",
    "column_saved_percent",
)
_NPU_COMPARISON = (
    "column_npu",
    "column_npu_saved",
    "column_npu_saved_percent",
    "column_application",
)
#: A virtual board's application memory is mostly the emulator's, or lacks what an NPU writes.
_VIRTUAL_COMPARISON = ("column_baseline_memory", "column_application_saved")


def comparison_table(
    group: Group, rows: Sequence[Row], published: Sequence[PublishedRow], texts: Texts
) -> Table:
    """Return the comparison of these rows of the group, and the published ones below it."""
    columns = comparison_columns(group)
    lines = []
    for row in rows:
        outcome = texts(f"outcome_{row.outcome}")
        cells = [
            name_in_words(row, texts),
            _model_count(row, texts),
            *figure_cells(row, columns),
            against(row, texts),
            outcome_in_words(outcome, row.info.shortage_signs, texts),
        ]
        lines.append((row.outcome, cells))
    for published_row in published:
        baseline = published_row.baseline
        cells = [
            f"{texts.scenario(published_row.scenario)} ({published_row.target})",
            EMPTY,
            *map(published_row.cell, columns),
            texts.scenario(baseline) if baseline else EMPTY,
            texts("outcome_published"),
        ]
        lines.append((PUBLISHED, cells))
    heads = ("column_scenario", "column_models", *columns, "column_against", "column_outcome")
    return Table(
        heads_of(heads, texts),
        lines,
        words=(0, 1, -2, -1),
        exported="comparison",
        usual=usual_cells(rows, texts),
    )


def usual_cells(rows: Sequence[Row], texts: Texts) -> set[str]:
    """Return the outcome of a measured row, and the baseline if these rows have only one."""
    baselines = {against(row, texts) for row in rows} - {EMPTY}
    shown = {texts.scenario(row.scenario) for row in rows}
    only_one = baselines if len(baselines) == 1 and baselines <= shown else set()
    return {texts("outcome_ok"), *only_one}


def comparison_columns(group: Group) -> Sequence[str]:
    """Return the columns of figures that the comparison of a group has."""
    if group.has_npu_memory and group.computes:
        application = ("column_application_saved", "column_application_saved_percent")
        return (*_NPU_COMPARISON, *application, *_SPEED)
    if group.has_npu_memory:
        return (*_NPU_COMPARISON, *_VIRTUAL_COMPARISON)
    columns = _COMPARISON
    if not hidden_system_memory(group):
        columns = (*columns, "column_system")
    return (*columns, *_SPEED) if group.computes else columns


def figure_cells(row: Row, columns: Sequence[str]) -> list[str]:
    """Return the row's figures in these columns, marked if short memory makes them too small."""
    cells = []
    for column in columns:
        is_short = row.is_compared_with_short if "saved" in column else row.is_short
        if column in _NEVER_SHORT:
            is_short = False
        cells.append(doubted(FIGURE_COLUMNS[column](row), is_short))
    return cells


def latency_text(row: Row) -> str:
    """Return the latency in ms; of several models the lowest and the highest."""
    latencies = [figure for _, figure in row.model_latencies]
    return milliseconds_range(latencies) if latencies else milliseconds(row.latency)


def name_in_words(row: Row, texts: Texts, rows: Sequence[Row] = ()) -> str:
    """Return the name of the row's scenario, and of those with an equal plan.

    Conversations also have their options, if `rows` has the scenario with others.
    """
    if has_conversations(row):
        return scenario_in_words(row, texts, rows)
    return " = ".join(map(texts.scenario, row.names))


def latency_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return the latency of each model, for each row with several."""
    sentences = []
    for row in rows:
        latencies = row.model_latencies
        if len(latencies) > 1 and row.info.plan.conversation is None:
            parts = []
            for model, latency in latencies:
                parts.append(texts("latency_of", model=model, latency=milliseconds(latency)))
            words = {"scenario": texts.scenario(row.scenario), "parts": texts.joined(parts)}
            sentences.append(texts("latencies_of", **words))
    return sentences


def against(row: Row, texts: Texts) -> str:
    """Return the name of the row's baseline; empty if there is none."""
    baseline = row.baseline.scenario if row.baseline else row.info.baseline
    if not baseline or not row.measured:
        return EMPTY
    return texts.scenario(baseline)


def _model_count(row: Row, texts: Texts) -> str:
    if row.models_in_turn:
        return texts("models_in_turn", files=row.info.model_files, streams=row.info.streams)
    return str(len(row.info.models))


def _system_memory_with_noise(row: Row) -> Figure | None:
    """Return the system memory with the idle noise as its spread, since that is mostly larger."""
    system = row.memory("system_memory_bytes")
    noise_bytes = row.system_noise_bytes
    if system is None or noise_bytes is None:
        return None
    return Figure(system.median, noise_bytes)


def _load(row: Row) -> Figure | None:
    """Return the time to make a context, over all contexts and repeats."""
    repeats = [Figure.of(repeat) for repeat in row.info.speed.context_load_ns]
    return Figure.of(figure.median for figure in repeats if figure)
