"""What each context costs: measured at its own barriers, when it is made and in the step of its first inference."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reports.comparison import Row
from reports.summary import Figure

__all__ = ["ContextCost", "FurtherCost", "context_costs", "further_costs", "npu_totals"]


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


def context_costs(row: Row) -> list[ContextCost]:
    """Return the costs in the order of making; none where the configuration was not measured."""
    repeats = _added(row)
    totals = [list(itertools.accumulate(added)) for added in repeats]
    loads = row.info["speed"]["context_load_ns"]
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
    totals = [list(itertools.accumulate(added)) for added in _npu_added(row)]
    return [_figure(totals, index) for index in range(len(_mechanisms(row))) if totals]


def _added(row: Row) -> list[list[int]]:
    """Return the bytes that each context added, a list per repeat."""
    return [added for added in row.info["memory"]["context_memory_bytes"] if added] if row.measured else []


def _npu_added(row: Row) -> list[list[int]]:
    """Return the bytes of NPU memory that belong to each context, a list per repeat."""
    accounts = row.accounts if row.measured else []
    return [[sum(size or 0 for size in context.values()) for context in each["contexts"]] for each in accounts]


def _slope(repeats: Sequence[Sequence[int]], places: Sequence[int]) -> Figure | None:
    return Figure.of(statistics.fmean(added[place] for place in places) for added in repeats)


def _mechanisms(row: Row) -> list[str]:
    return [str(context["mechanism"]) for context in row.info["plan"]["contexts"]]


def _figure(repeats: Sequence[Sequence[int]], index: int) -> Figure:
    figure = Figure.of(values[index] for values in repeats)
    assert figure is not None
    return figure
