"""The runtime's own options: what one context takes with each, how fast it is, and how its outputs
differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.base.formatting import EMPTY, mib, milliseconds, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Row
from reusebench.reports.results.savings import NPU, OVER_BASELINE
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.runtimes import outputs_in_words
from reusebench.reports.sections.section import GroupView, Values
from reusebench.scenarios.catalogue import OPTIONS


class OptionsSection(QuestionSection):
    """What the runtime's own options change."""

    def __init__(self) -> None:
        super().__init__(OPTIONS)

    def part(self, view: GroupView) -> Values:
        """Return the table of options."""
        return {**super().part(view), "table": options_table(view.rows, view.texts)}


def options_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return a row for each option, below that of the default; None if nothing was measured with
    any.

    Speed and outputs are left out where nothing computes.
    """
    if not any(row.measured for row in rows):
        return None
    memory = NPU if any(row.memory(NPU) for row in rows) else OVER_BASELINE
    is_npu = memory == NPU
    computes = all(row.computes for row in rows)
    lines = []
    for row in rows:
        saving = row.saving(memory)
        latency = _latency_change(row)
        sizes = [
            mib(row.memory(memory), is_npu),
            mib(-saving.saved, is_npu) if saving else EMPTY,
            percent(-saving.percent, spread=True) if saving and saving.percent else EMPTY,
        ]
        outputs = outputs_in_words(row.output_difference, texts) if row.baseline else EMPTY
        speed = (
            [milliseconds(row.latency), percent(latency, spread=True), outputs] if computes else []
        )
        cells = [texts.scenario(row.scenario), *sizes, *speed, texts(f"outcome_{row.outcome}")]
        lines.append((row.outcome, cells))
    heads = (
        "column_option",
        "column_npu" if is_npu else "column_option_memory",
        "column_option_change",
        "column_option_change_percent",
        *(("column_latency", "column_latency_change", "column_outputs") if computes else ()),
        "column_outcome",
    )
    return Table(heads_of(heads, texts), lines, words=(0, -2, -1) if computes else (0, -1))


def _latency_change(row: Row) -> Figure | None:
    """Return by how much its inference takes longer than by default, in percent of that."""
    before = row.baseline.latency if row.baseline else None
    return row.latency.percent_above(before) if row.latency and before else None
