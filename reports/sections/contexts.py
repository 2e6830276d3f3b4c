"""Memory against the number of contexts, and of resolutions: tables and figures.

A context's memory is measured at its own barriers, when it is made and in the step of its first
inference. A straight line goes through the memory of the first context, of the first two, and so
on.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reusebench.reports.base.drawing import Draw, line, new_canvas, svg_of
from reusebench.reports.base.formatting import MIB, mib
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.section import GroupSection, GroupView, Values
from reusebench.reports.shared.drawn_rows import drawn_rows

#: Columns of exported tables; new ones come at the end.
CONTEXT_COLUMNS = (
    "context",
    "mechanism",
    "added_bytes",
    "added_spread_bytes",
    "total_over_baseline_bytes",
    "load_ns",
)
SLOPE_COLUMNS = (
    "mechanism",
    "further_contexts",
    "slope_bytes",
    "slope_spread_bytes",
    "npu_slope_bytes",
    "npu_slope_spread_bytes",
)
FIT_COLUMNS = (
    "memory",
    "slope_bytes",
    "slope_spread_bytes",
    "intercept_bytes",
    "intercept_spread_bytes",
    "largest_residual_bytes",
)
#: Two points always lie on a line.
_LEAST_CONTEXTS = 3
#: Points, of the markers.
_LARGEST_MARKER = 10
_SMALLEST_MARKER = 3


class ContextsSection(GroupSection):
    """Memory against the number of contexts."""

    name = "contexts"

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the rows whose lines can be told apart in one figure."""
        return drawn_rows(group)

    def part(self, view: GroupView) -> Values | None:
        """Return the tables of lines and slopes; None if nothing was measured."""
        if not any(row.measured for row in view.rows):
            return None
        return {
            "fit": fit_table(view.rows, view.texts),
            "slopes": slopes_table(view.group, view.texts),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return a figure of NPU memory, and one of application memory if anything computes."""
        figures: dict[str, Draw] = {
            "npu_contexts": partial(contexts_figure, view.rows, True, view.texts)
        }
        if view.group.computes:
            figures["contexts"] = partial(contexts_figure, view.rows, False, view.texts)
        return figures


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
    """The straight line through memory against number of contexts, by least squares within each
    repeat.
    """

    #: Bytes per context.
    slope: Figure
    #: Bytes that are there once, whatever the number of contexts.
    intercept: Figure
    #: Bytes between the line of a repeat and the point of it that is farthest from it.
    largest_residual_bytes: float


def context_costs(row: Row) -> list[ContextCost]:
    """Return the costs in the order of making; none where the configuration was not measured."""
    repeats = _added_bytes(row)
    totals = _totals(row, npu=False)
    loads = row.info.speed.context_load_ns
    costs = []
    for index, total in enumerate(totals):
        added = Figure.of(repeat[index] for repeat in repeats)
        assert added is not None
        mechanism = row.info.plan.contexts[index].mechanism
        load = Figure.of(repeat[index] for repeat in loads if index < len(repeat))
        costs.append(ContextCost(index + 1, mechanism, added, total, load))
    return costs


def added_by_contexts(row: Row, npu: bool) -> list[Figure | None]:
    """Return the NPU memory, else the PSS, that each context added, in the order of making; none
    without figures.
    """
    repeats = _added_npu_bytes(row) if npu else _added_bytes(row)
    return [Figure.of(of_context) for of_context in zip(*repeats)]


def further_costs(row: Row) -> list[FurtherCost]:
    """Return a cost for each mechanism that makes contexts after the first."""
    mechanisms = [context.mechanism for context in row.info.plan.contexts]
    costs = []
    for mechanism in dict.fromkeys(mechanisms[1:]):
        indices = [index for index in range(1, len(mechanisms)) if mechanisms[index] == mechanism]
        slope, npu_slope = (
            Figure.of(statistics.fmean(added[index] for index in indices) for added in repeats)
            for repeats in (_added_bytes(row), _added_npu_bytes(row))
        )
        if slope:
            costs.append(FurtherCost(mechanism, len(indices), slope, npu_slope))
    return costs


def fit(row: Row, npu: bool) -> LineFit | None:
    """Return the line through NPU memory, else through PSS over the do-nothing baseline.

    None with fewer than three contexts, without figures, and where no two contexts have the same
    model: a line through different models means nothing.
    """
    models = [context.model for context in row.info.plan.contexts]
    if not _LEAST_CONTEXTS <= len(models) > len(set(models)):
        return None
    slopes = []
    intercepts = []
    residuals = []
    counts = range(1, len(models) + 1)
    for added in _added_npu_bytes(row) if npu else _added_bytes(row):
        totals = list(itertools.accumulate(added))
        # numpy's fit of equal steps leaves a residual of rounding, which would be shown.
        middle = statistics.fmean(counts)
        mean = statistics.fmean(totals)
        offsets = [count - middle for count in counts]
        slope = sum(offset * size for offset, size in zip(offsets, totals)) / sum(
            offset**2 for offset in offsets
        )
        intercept = mean - slope * middle
        slopes.append(slope)
        intercepts.append(intercept)
        residuals.append(
            max(abs(total - intercept - slope * count) for count, total in zip(counts, totals))
        )
    slope_figure = Figure.of(slopes)
    intercept_figure = Figure.of(intercepts)
    if slope_figure is None or intercept_figure is None:
        return None
    return LineFit(slope_figure, intercept_figure, max(residuals))


def fit_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return slope, intercept and largest residual of each row that has a line; None if none
    has.
    """
    fits = [
        (row, fit(row, npu=True), application)
        for row in rows
        if (application := fit(row, npu=False))
    ]
    memories = [True, False] if any(npu for _, npu, _ in fits) else [False]
    lines = []
    for row, *both in fits:
        cells = [texts.scenario(row.scenario)]
        for npu in memories:
            fitted = both[0] if npu else both[1]
            residual = Figure(fitted.largest_residual_bytes) if fitted else None
            figures = (
                fitted.slope if fitted else None,
                fitted.intercept if fitted else None,
                residual,
            )
            cells += [mib(figure, npu) for figure in figures]
        lines.append((row.outcome, cells))
    heads = [
        f"column_{'npu_' if npu else ''}fit_{name}"
        for npu in memories
        for name in ("slope", "intercept", "residual")
    ]
    return Table(heads_of(("column_scenario", *heads), texts), lines) if lines else None


def context_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in CONTEXT_COLUMNS for each context."""
    return [
        {
            "context": cost.number,
            "mechanism": cost.mechanism,
            "added_bytes": rounded(cost.added),
            "added_spread_bytes": rounded_spread(cost.added),
            "total_over_baseline_bytes": rounded(cost.total),
            "load_ns": rounded(cost.load_ns),
        }
        for cost in context_costs(row)
    ]


def slope_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in SLOPE_COLUMNS for each mechanism that makes additional contexts."""
    return [
        {
            "mechanism": cost.mechanism,
            "further_contexts": cost.count,
            "slope_bytes": rounded(cost.slope),
            "slope_spread_bytes": rounded_spread(cost.slope),
            "npu_slope_bytes": rounded(cost.npu_slope),
            "npu_slope_spread_bytes": rounded_spread(cost.npu_slope),
        }
        for cost in further_costs(row)
    ]


def fit_records(row: Row) -> list[dict[str, Any]]:
    """Return the lines of a configuration in FIT_COLUMNS, in whole bytes; a spread is None with a
    single repeat.
    """
    return [
        {
            "memory": "npu" if npu else "application",
            "slope_bytes": rounded(fitted.slope),
            "slope_spread_bytes": rounded_spread(fitted.slope),
            "intercept_bytes": rounded(fitted.intercept),
            "intercept_spread_bytes": rounded_spread(fitted.intercept),
            "largest_residual_bytes": rounded(fitted.largest_residual_bytes),
        }
        for npu in (False, True)
        if (fitted := fit(row, npu))
    ]


def contexts_figure(rows: Sequence[Row], npu: bool, texts: Texts) -> str | None:
    """Draw NPU memory, or that over the do-nothing baseline, against the number of contexts; None
    without figures.
    """
    totals = {row: figures for row in rows if (figures := _totals(row, npu))}
    if not totals:
        return None
    canvas = new_canvas(340)
    axes = canvas.add_subplot()
    legend = []
    for position, (row, figures) in enumerate(totals.items()):
        colour = scenario_colour(row.scenario)
        fitted = fit(row, npu)
        legend.append(line(texts.scenario(row.scenario), colour, marker="o", linestyle="none"))
        # Equal figures cover each other: points are smaller than those before them, so that all are
        # seen.
        size = max(_LARGEST_MARKER - position, _SMALLEST_MARKER)
        points = dict(enumerate(figures, start=1))
        draw_points(
            axes, points, colour, size, linestyle="none" if fitted else "-", linewidth=size / 3
        )
        if fitted:
            # From no context on, so that its intercept is seen.
            ends = [
                (fitted.intercept.median + fitted.slope.median * count) / MIB
                for count in (0, len(figures))
            ]
            axes.plot((0, len(figures)), ends, color=colour, linewidth=1, linestyle="--")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(texts("axis_contexts"))
    axes.set_ylabel(texts("axis_npu_memory" if npu else "axis_over_baseline"))
    return svg_of(canvas, legend)


def draw_points(
    axes: Axes, points: Mapping[int, Figure], colour: str, size: float, **look: Any
) -> None:
    """Draw memory by a number, in MiB."""
    axes.errorbar(
        list(points),
        [figure.median / MIB for figure in points.values()],
        [(figure.spread or 0) / MIB for figure in points.values()],
        color=colour,
        marker="o",
        markersize=size,
        elinewidth=1.5,
        capsize=2,
        **look,
    )


def _added_bytes(row: Row) -> list[tuple[int, ...]]:
    """Return the bytes that each context added, per repeat."""
    return (
        [added for added in row.info.memory.context_memory_bytes if added] if row.measured else []
    )


def _added_npu_bytes(row: Row) -> list[tuple[int, ...]]:
    """Return the bytes of NPU memory that belong to each context, per repeat."""
    accounts = row.accounts if row.measured else []
    return [tuple(context.total_bytes for context in account.contexts) for account in accounts]


def _totals(row: Row, npu: bool) -> list[Figure]:
    """Return the memory of the first context, of the first two, and so on; none without figures."""
    repeats = [
        list(itertools.accumulate(added))
        for added in (_added_npu_bytes(row) if npu else _added_bytes(row))
    ]
    figures = [Figure.of(totals) for totals in zip(*repeats)]
    return [figure for figure in figures if figure]


def slopes_table(group: Group, texts: Texts) -> Table:
    """Return what one more context costs, by mechanism."""
    lines = []
    for row in group.rows:
        for cost in further_costs(row):
            mechanism = texts.words.get(f"mechanism_{cost.mechanism}", cost.mechanism)
            npu = [mib(cost.npu_slope, npu=True)] if group.has_npu_memory else []
            cells = [
                texts.scenario(row.scenario),
                mechanism,
                *npu,
                mib(cost.slope),
                str(cost.count),
            ]
            lines.append((row.outcome, cells))
    npu_head = ["column_npu_slope"] if group.has_npu_memory else []
    heads = ("column_scenario", "column_mechanism", *npu_head, "column_slope", "column_count")
    return Table(heads_of(heads, texts), lines, words=(0, 1))
