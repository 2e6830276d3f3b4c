"""The question of options: memory, speed and outputs of one context with each."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.reports.base.formatting import EMPTY, mib, milliseconds, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.runtimes import outputs_in_words
from reusebench.reports.sections.section import GroupView, Values
from reusebench.scenarios.catalogue import OPTIONS
from reusebench.storage.savings import APPLICATION, NPU, best_percent


class OptionsSection(QuestionSection):
    """Changes by the runtime's own options."""

    def __init__(self) -> None:
        super().__init__(OPTIONS)

    def part(self, view: GroupView) -> Values:
        """Return the table of options."""
        return {**super().part(view), "table": options_table(view.rows, view.texts)}

    def part_summary(self, view: GroupView) -> str | None:
        """Return the option that saves most memory."""
        texts = view.texts
        measured = [row for row in view.rows if row.measured and row.main_saving]
        if not measured:
            return texts("summary_not_measured")
        best = max(measured, key=lambda row: best_percent(row.main_saving))
        saved_percent = best_percent(best.main_saving)
        if not saved_percent:
            return texts("summary_nothing")
        name = texts.scenario(best.scenario)
        return texts("summary_option", option=name, percent=percent(saved_percent))


def options_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return a row for each option, below the default; None if nothing was measured.

    Speed and outputs are left out if nothing computes.
    """
    if not any(row.measured for row in rows):
        return None
    memory = NPU if any(row.memory(NPU) for row in rows) else APPLICATION
    computes = all(row.computes for row in rows)
    lines = []
    for row in rows:
        cells = [texts.scenario(row.scenario), *_memory_cells(row, memory)]
        if computes:
            latency_change = percent(_latency_change(row), spread=True)
            cells += [milliseconds(row.latency), latency_change, _outputs_cell(row, texts)]
        cells.append(texts(f"outcome_{row.outcome}"))
        lines.append((row.outcome, cells))
    heads = [
        "column_option",
        "column_npu" if memory == NPU else "column_application",
        "column_option_change",
        "column_option_change_percent",
    ]
    if computes:
        heads += ["column_latency", "column_latency_change", "column_outputs"]
    heads.append("column_outcome")
    words = (0, -2, -1) if computes else (0, -1)
    return Table(heads_of(heads, texts), lines, words, exported="comparison")


def _memory_cells(row: Row, memory: str) -> list[str]:
    """Return the memory with an option, and its change from the default in MiB and percent."""
    is_npu = memory == NPU
    saving = row.saving(memory)
    cells = [mib(row.memory(memory), is_npu)]
    if saving is None:
        return [*cells, EMPTY, EMPTY]
    change = percent(-saving.percent, spread=True) if saving.percent else EMPTY
    return [*cells, mib(-saving.saved, is_npu), change]


def _outputs_cell(row: Row, texts: Texts) -> str:
    return outputs_in_words(row.output_difference, texts) if row.baseline else EMPTY


def _latency_change(row: Row) -> Figure | None:
    """Return the change of latency in percent of the default's."""
    if row.baseline is None or not row.latency or not row.baseline.latency:
        return None
    return row.latency.percent_above(row.baseline.latency)
