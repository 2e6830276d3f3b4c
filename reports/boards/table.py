"""Boards in one table: a row for each configuration and board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reusebench.reports.base.formatting import EMPTY
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.boards.boards import ComparedBoards
from reusebench.reports.results.rows import Row
from reusebench.reports.shared.comparison import figure_cells
from reusebench.reports.shared.shortage import outcome_in_words
from reusebench.storage.savings import NPU

_FIGURES = (
    "column_npu",
    "column_npu_saved",
    "column_npu_saved_percent",
    "column_application",
    "column_application_saved",
    "column_application_saved_percent",
    "column_latency",
)
#: Columns of the records; new ones come at the end.
BOARD_COLUMNS = (
    "board_name",
    "chip",
    "baseline",
    "outcome",
    "application_memory_bytes",
    "application_memory_spread_bytes",
    "saved_bytes",
    "saved_spread_bytes",
    "saved_percent",
    "npu_memory_bytes",
    "npu_memory_spread_bytes",
    "npu_saved_bytes",
    "npu_saved_spread_bytes",
    "npu_saved_percent",
    "latency_ns",
    "latency_spread_ns",
)


def boards_table(compared: Sequence[ComparedBoards], texts: Texts) -> Table:
    """Return the figures of each configuration, board by board."""
    lines = []
    for boards in compared:
        for name, row in boards.rows.items():
            outcome = texts(f"outcome_{row.outcome}")
            cells = [
                configuration_name(boards, compared, texts),
                name,
                row.info.chip or EMPTY,
                *figure_cells(row, _FIGURES),
                outcome_in_words(outcome, row.info.shortage_signs, texts),
            ]
            lines.append((row.outcome, cells))
    heads = ("column_scenario", "column_board", "column_chip", *_FIGURES, "column_outcome")
    return Table(
        heads_of(heads, texts),
        lines,
        words=(0, 1, 2, -1),
        exported="boards",
        usual={texts("outcome_ok")},
    )


def configuration_name(
    boards: ComparedBoards, compared: Sequence[ComparedBoards], texts: Texts
) -> str:
    """Return the scenario, with what tells it apart from others of its name: runtime and models."""
    first = boards.first
    alike = [other.first for other in compared if other.first.scenario == first.scenario]
    words = [texts.scenario(first.scenario)]
    if len({row.info.runtime for row in alike}) > 1:
        words.append(texts.runtime(first.info.runtime))
    if len({row.models for row in alike}) > 1:
        words.append(first.models)
    return ", ".join(words)


def board_records(compared: Sequence[ComparedBoards]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield a row and its record in BOARD_COLUMNS for each configuration and board."""
    for boards in compared:
        for name, row in boards.rows.items():
            yield (
                row,
                {
                    "board_name": name,
                    "chip": row.info.chip,
                    "baseline": row.baseline_name,
                    "outcome": row.outcome,
                    **_sizes("application_memory", row.memory("application_memory_bytes")),
                    **_sizes("saved", row.saved()),
                    "saved_percent": rounded(row.saved_percent(), 3),
                    **_sizes("npu_memory", row.memory(NPU)),
                    **_sizes("npu_saved", row.saved(NPU)),
                    "npu_saved_percent": rounded(row.saved_percent(NPU), 3),
                    "latency_ns": rounded(row.latency),
                    "latency_spread_ns": rounded_spread(row.latency),
                },
            )


def _sizes(name: str, figure: Figure | None) -> dict[str, Any]:
    return {f"{name}_bytes": rounded(figure), f"{name}_spread_bytes": rounded_spread(figure)}
