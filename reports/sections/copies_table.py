"""The table of copies: what each way to move input and output copies, and whether that can be measured."""

from __future__ import annotations

from collections.abc import Sequence

from reports.base.formatting import EMPTY, copied_mib, mib, milliseconds, npu_mib
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.rows import Group, Row
from reports.sections.copies import avoided_bytes, copied


def by_size(rows: Sequence[Row], texts: Texts) -> dict[str, list[Row]]:
    """Return the rows by the size of their tensors in words; a baseline stands with those compared with it."""
    sizes: dict[str, list[Row]] = {}
    for row in rows:
        baseline = row.info.baseline or row.scenario
        sizes.setdefault(texts.words.get(f"size_{baseline}", row.models), []).append(row)
    return sizes


def copies_table(group: Group, rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return what each way copies and saves, with a verdict; None where copies were not counted."""
    shown = [(size, row) for size, rows in by_size(rows, texts).items() for row in rows if copied(row)]
    if not shown:
        return None
    npu = group.has_npu_memory
    heads = [
        "column_scenario",
        "column_size_of_tensors",
        "column_copied_input",
        "column_copied_output",
        "column_avoided",
        *(["column_npu_saved"] if npu else []),
        "column_saved_over_bytes",
        *(["column_latency", "column_latency_baseline"] if group.computes else []),
        "column_verdict",
    ]
    cells = [(row.outcome, _cells(group, row, size, texts)) for size, row in shown]
    return Table([texts(head) for head in heads], cells)


def _cells(group: Group, row: Row, size: str, texts: Texts) -> list[Cell]:
    own, avoided = copied(row), avoided_bytes(row)
    assert own is not None
    memory = (*([npu_mib(row.npu_saved)] if group.has_npu_memory else []), mib(row.saved_over_baseline))
    latency = (milliseconds(row.latency), milliseconds(row.baseline.latency if row.baseline else None))
    return [
        Cell(texts.scenario(row.scenario), False),
        Cell(size, False),
        Cell(copied_mib(own.input_bytes)),
        Cell(copied_mib(own.output_bytes)),
        Cell(EMPTY if avoided is None else copied_mib(avoided)),
        *(Cell(each) for each in (*memory, *(latency if group.computes else ()))),
        Cell(_verdict(row, texts) if row.saved else EMPTY, False),
    ]


def _verdict(row: Row, texts: Texts) -> str:
    """Return in words whether the differences are more than what repeats differ by."""
    memory, latency = row.saved_memory, row.latency_saved
    if any(saved.spread is None for saved in (memory, latency) if saved):
        return texts("verdict_one_repeat")
    changes = [f"memory_{row.memory_change}"] if memory else []
    if latency:
        change = "same" if not latency.exceeds_spread else "less" if latency.median > 0 else "more"
        changes.append(f"latency_{change}")
    return texts.joined(texts(f"verdict_{change}") for change in changes)
