"""What each context costs: measured at its own barriers, when it is made and in the step of its first inference.

And the straight line through the memory of the first context, of the first two, and so on.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reports.base.formatting import mib, npu_mib
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.rows import Row

#: Of the exported table, behind what identifies a configuration; new columns come at the end.
FIT_COLUMNS = (
    "memory",
    "slope_bytes",
    "slope_spread_bytes",
    "intercept_bytes",
    "intercept_spread_bytes",
    "largest_residual_bytes",
)
#: Of each memory, in the order of the table.
_FIT_HEADS = ("slope", "intercept", "residual")
#: Two points always lie on a line.
_LEAST_CONTEXTS = 3


@dataclass(frozen=True)
class ContextCost:
    """One context of a configuration."""

    #: Counted from 1, in the order of making.
    number: int
    #: How it was made: "load", "dup", "shared_weights" or "shared_context".
    mechanism: str
    #: PSS that it added.
    added: Figure
    #: PSS over the do-nothing baseline with it and all before it.
    total: Figure
    load_ns: Figure | None


@dataclass(frozen=True)
class FurtherCost:
    """What one more context of a mechanism costs, once there is a first."""

    mechanism: str
    #: How many contexts the slopes are taken over.
    count: int
    #: Bytes of PSS per context: the mean within a repeat, median and spread over the repeats.
    slope: Figure
    #: Bytes of NPU memory per context, by the account.
    npu_slope: Figure | None


@dataclass(frozen=True)
class LineFit:
    """The straight line through memory against number of contexts, by least squares within each repeat."""

    #: Bytes per context.
    slope: Figure
    #: Bytes that are there once, whatever the number of contexts.
    intercept: Figure
    #: Bytes between the line of a repeat and the point of it that is farthest from it.
    largest_residual_bytes: float


def context_costs(row: Row) -> list[ContextCost]:
    """Return the costs in the order of making; none where the configuration was not measured."""
    repeats = _added(row)
    totals = [tuple(itertools.accumulate(added)) for added in repeats]
    loads = row.info.speed.context_load_ns
    return [
        ContextCost(
            number=index + 1,
            mechanism=mechanism,
            added=_figure(repeats, index),
            total=_figure(totals, index),
            load_ns=Figure.of(load[index] for load in loads if index < len(load)),
        )
        for index, mechanism in enumerate(_mechanisms(row))
        if repeats
    ]


def further_costs(row: Row) -> list[FurtherCost]:
    """Return a cost for each mechanism that makes contexts after the first."""
    repeats, npu_repeats, mechanisms = _added(row), _npu_added(row), _mechanisms(row)
    costs = []
    for mechanism in dict.fromkeys(mechanisms[1:]):
        places = [place for place in range(1, len(mechanisms)) if mechanisms[place] == mechanism]
        slope, npu_slope = _slope(repeats, places), _slope(npu_repeats, places)
        if slope:
            costs.append(FurtherCost(mechanism, len(places), slope, npu_slope))
    return costs


def npu_totals(row: Row) -> list[Figure]:
    """Return the NPU memory of the first context, of the first two, and so on; none without an account."""
    totals = [tuple(itertools.accumulate(added)) for added in _npu_added(row)]
    return [_figure(totals, index) for index in range(len(_mechanisms(row))) if totals]


def fit(row: Row, npu: bool) -> LineFit | None:
    """Return the line through NPU memory, else through PSS over the do-nothing baseline.

    None with fewer than three contexts, without figures, and where no two contexts have the same model: a line through
    different models means nothing.
    """
    repeats = [list(itertools.accumulate(added)) for added in (_npu_added(row) if npu else _added(row))]
    lines = [_least_squares(totals) for totals in repeats] if _repeats_a_model(row) else []
    slope, intercept = Figure.of(slope for slope, _ in lines), Figure.of(intercept for _, intercept in lines)
    if slope is None or intercept is None:
        return None
    return LineFit(slope, intercept, max(map(_largest_residual, repeats, lines)))


def fit_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return slope, intercept and largest residual of each row that has a line; None where none has."""
    found = [(row, line, fit(row, npu=True)) for row in rows if (line := fit(row, npu=False))]
    if not found:
        return None
    npu = any(of_npu for _, _, of_npu in found)
    shown = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                *(map(Cell, _line_cells(of_npu, npu_mib)) if npu else ()),
                *map(Cell, _line_cells(line, mib)),
            ],
        )
        for row, line, of_npu in found
    ]
    heads = [f"column_{memory}fit_{name}" for memory in ["npu_"] * npu + [""] for name in _FIT_HEADS]
    return Table([texts(head) for head in ("column_scenario", *heads)], shown)


def fit_rows(row: Row) -> list[dict[str, Any]]:
    """Return the lines of a configuration in FIT_COLUMNS, in whole bytes; a spread is None with a single repeat."""
    lines = {"application": fit(row, npu=False), "npu": fit(row, npu=True)}
    return [
        {
            "memory": memory,
            "slope_bytes": round(line.slope.median),
            "slope_spread_bytes": _whole_spread(line.slope),
            "intercept_bytes": round(line.intercept.median),
            "intercept_spread_bytes": _whole_spread(line.intercept),
            "largest_residual_bytes": round(line.largest_residual_bytes),
        }
        for memory, line in lines.items()
        if line
    ]


def _repeats_a_model(row: Row) -> bool:
    models = [context.model for context in row.info.plan.contexts]
    return _LEAST_CONTEXTS <= len(models) > len(set(models))


def _least_squares(totals: Sequence[int]) -> tuple[float, float]:
    """Return slope and intercept of the line through the totals of 1, 2, ... contexts."""
    offsets = [place - (len(totals) - 1) / 2 for place in range(len(totals))]
    slope = sum(offset * total for offset, total in zip(offsets, totals)) / sum(offset**2 for offset in offsets)
    return slope, statistics.fmean(totals) - slope * (len(totals) + 1) / 2


def _largest_residual(totals: Sequence[int], line: tuple[float, float]) -> float:
    slope, intercept = line
    return max(abs(total - intercept - slope * count) for count, total in enumerate(totals, start=1))


def _line_cells(line: LineFit | None, shown: Callable[[Figure | None], str]) -> list[str]:
    residual = Figure(line.largest_residual_bytes, None) if line else None
    return [shown(line.slope if line else None), shown(line.intercept if line else None), shown(residual)]


def _whole_spread(figure: Figure) -> int | None:
    return None if figure.spread is None else round(figure.spread)


def _added(row: Row) -> list[tuple[int, ...]]:
    """Return the bytes that each context added, per repeat."""
    return [added for added in row.info.memory.context_memory_bytes if added] if row.measured else []


def _npu_added(row: Row) -> list[tuple[int, ...]]:
    """Return the bytes of NPU memory that belong to each context, per repeat."""
    accounts = row.accounts if row.measured else []
    return [tuple(context.total_bytes for context in account.contexts) for account in accounts]


def _slope(repeats: Sequence[Sequence[int]], places: Sequence[int]) -> Figure | None:
    return Figure.of(statistics.fmean(added[place] for place in places) for added in repeats)


def _mechanisms(row: Row) -> list[str]:
    return [context.mechanism for context in row.info.plan.contexts]


def _figure(repeats: Sequence[Sequence[int]], index: int) -> Figure:
    figure = Figure.of(values[index] for values in repeats)
    assert figure is not None
    return figure
