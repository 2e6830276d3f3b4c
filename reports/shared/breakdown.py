"""Tables of memory by component and by kind of page."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import component_mib, mib
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.memory_use import PAGE_KINDS, component_memory, page_memory
from reusebench.reports.results.rows import Row


def components_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the NPU memory of these rows by component; None if no row has an account.

    A component that no source tells apart has no column.
    """
    accounts = [(row, memory) for row in rows if (memory := component_memory(row))]
    if not accounts:
        return None
    components = []
    for name in COMPONENTS:
        if any(memory.sizes[name] for _, memory in accounts):
            components.append(name)

    lines = []
    for row, memory in accounts:
        sizes = [memory.sizes[name] for name in components]
        figures = [*sizes, memory.total, memory.peak, memory.left]
        cells = [texts.scenario(row.scenario), *map(component_mib, figures)]
        lines.append((row.outcome, cells))
    heads = [texts("column_scenario")]
    for name in (*components, "total", "peak", "left"):
        heads.append(texts("column_in_mib", name=texts(f"component_{name}")))
    return Table(heads, lines, exported="npu_components")


def page_kinds_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the application memory of these rows by kind of page.

    None if the kernel does not tell kinds of pages apart.
    """
    lines = []
    for row in rows:
        memory = page_memory(row)
        if memory and memory.over:
            figures = [memory.baseline, *memory.over.values()]
            lines.append((row.outcome, [texts.scenario(row.scenario), *map(mib, figures)]))
    if not lines:
        return None
    heads = [
        texts("column_scenario"),
        texts("column_baseline_memory"),
        *(texts("column_in_mib", name=texts(f"part_{kind}")) for kind in PAGE_KINDS),
    ]
    return Table(heads, lines)
