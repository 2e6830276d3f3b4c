"""Tables of what others have published, to stand beside measured ones: throughput by threads, eval_memory's parts."""

from __future__ import annotations

from reports.base.formatting import EMPTY
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.publication import listed
from reports.results.published import (
    PublishedBreakdown,
    PublishedThroughput,
    published_breakdowns,
    published_throughputs,
)

#: Class of every row.
_LOOK = "published"
_PARTS = ("weights", "internal", "other", "total")


def throughput_table(texts: Texts) -> Table:
    """Return the published throughputs by threads, in inferences per second."""
    heads = ("reference_model", "reference_target", "reference_how", "column_throughput", "column_source")
    rows = [(_LOOK, _throughput(row, texts)) for row in published_throughputs()]
    return Table([texts(head) for head in heads], rows)


def throughput_sources(texts: Texts) -> list[tuple[str, str | None, str]]:
    """Return (title, address, dates) of each source of the throughputs."""
    return listed((row.source for row in published_throughputs()), texts)


def breakdown_table(texts: Texts) -> Table:
    """Return the published outputs of eval_memory by component, in MiB."""
    parts = [texts("column_in_mib", name=texts(f"component_{part}")) for part in _PARTS]
    heads = [texts("reference_model"), texts("reference_target"), *parts, texts("column_source")]
    return Table(heads, [(_LOOK, _breakdown(row, texts)) for row in published_breakdowns()])


def breakdown_sources(texts: Texts) -> list[tuple[str, str | None, str]]:
    """Return (title, address, dates) of each source of the breakdowns."""
    return listed((row.source for row in published_breakdowns()), texts)


def _throughput(row: PublishedThroughput, texts: Texts) -> list[Cell]:
    how = texts("reference_threads", threads=row.threads) if row.threads else texts("reference_one_core")
    return [
        Cell(row.model, False),
        Cell(row.target, False),
        Cell(how, False),
        Cell(f"{row.throughput_per_s:.1f}"),
        Cell(row.source.title[texts.language], False),
    ]


def _breakdown(row: PublishedBreakdown, texts: Texts) -> list[Cell]:
    sizes = (row.weights_mib, row.internal_mib, row.other_mib, row.total_mib)
    return [
        Cell(row.model or EMPTY, False),
        Cell(row.target or EMPTY, False),
        *(Cell(EMPTY if size is None else f"{size:.2f}") for size in sizes),
        Cell(row.source.title[texts.language], False),
    ]
