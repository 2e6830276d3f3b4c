"""Memory against the number of contexts: tables and figures.

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

from reusebench.measured.plan import SEQUENCE, SHARED_PROMPT
from reusebench.reports.base.drawing import Draw, line, new_canvas, svg_of
from reusebench.reports.base.formatting import EMPTY, MIB, mib
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure, rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import looks_of
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.sessions import has_conversations
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
#: Sizes of markers, in points.
_LARGEST_MARKER = 10
_SMALLEST_MARKER = 3


class ContextsSection(GroupSection):
    """Memory against the number of contexts."""

    name = "contexts"

    def rows(self, group: Group) -> Sequence[Row]:
        """Return the rows whose lines can be told apart in one figure.

        Conversations have a figure of their own (sections/sessions.py), since a sequence adds
        nothing in its step.
        """
        return [row for row in drawn_rows(group) if not has_conversations(row)]

    def part(self, view: GroupView) -> Values | None:
        """Return the tables of lines and slopes; None if nothing was measured."""
        if not any(row.measured for row in view.rows):
            return None
        return {
            "fit": fit_table(view.rows, view.texts),
            "slopes": slopes_table(view.group, view.texts),
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the memory of one more context by each mechanism, the least of all rows."""
        texts = view.texts
        least: dict[str, Figure] = {}
        for row in view.rows:
            for cost in additional_costs(row):
                slope = cost.npu_slope if view.group.has_npu_memory else cost.slope
                known = least.get(cost.mechanism)
                if slope and (known is None or slope.median < known.median):
                    least[cost.mechanism] = slope
        parts = []
        for mechanism, slope in least.items():
            name = texts(f"mechanism_{mechanism}")
            size = mib(slope, view.group.has_npu_memory)
            parts.append(texts("summary_contexts", mechanism=name, size=size))
        return texts.joined(parts)

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
    #: Mechanism that made it: "load", "dup", "shared_weights" or "shared_context".
    mechanism: str
    #: PSS that it added.
    added: Figure
    #: PSS over the do-nothing baseline, with this context and all before it.
    total: Figure
    load_ns: Figure | None


@dataclass(frozen=True)
class AdditionalCost:
    """The cost of one more context of a mechanism, after the first context."""

    mechanism: str
    #: Number of contexts that the slopes are taken over.
    count: int
    #: Bytes of PSS per context: the mean within a repeat, median and spread over the repeats.
    slope: Figure
    #: Bytes of NPU memory per context, by the account.
    npu_slope: Figure | None


@dataclass(frozen=True)
class LineFit:
    """The line through memory against number of contexts, by least squares in each repeat."""

    #: Bytes per context.
    slope: Figure
    #: Bytes without any context.
    intercept: Figure
    #: Bytes between the line of a repeat and the farthest of its points.
    largest_residual_bytes: float


def context_costs(row: Row) -> list[ContextCost]:
    """Return the costs in the order of making; none if the configuration was not measured."""
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
    """Return the memory that each context added, in the order of making; none without figures.

    NPU memory if `npu`, otherwise PSS.
    """
    return [Figure.of(of_context) for of_context in zip(*_added(row, npu))]


def additional_costs(row: Row) -> list[AdditionalCost]:
    """Return a cost for each mechanism that makes contexts after the first."""
    mechanisms = [context.mechanism for context in row.info.plan.contexts]
    costs = []
    for mechanism in dict.fromkeys(mechanisms[1:]):
        if mechanism in (SEQUENCE, SHARED_PROMPT):
            # A sequence adds nothing in its step: its context has its memory from the beginning.
            continue
        indices = [index for index in range(1, len(mechanisms)) if mechanisms[index] == mechanism]
        slope = _mean_added(_added_bytes(row), indices)
        npu_slope = _mean_added(_added_npu_bytes(row), indices)
        if slope:
            costs.append(AdditionalCost(mechanism, len(indices), slope, npu_slope))
    return costs


def fit(row: Row, npu: bool) -> LineFit | None:
    """Return the line through NPU memory if `npu`, otherwise through PSS over the baseline process.

    None with fewer than three contexts, without figures, or if no two contexts have the same
    model: a line through different models means nothing.
    """
    models = [context.model for context in row.info.plan.contexts]
    if len(models) < _LEAST_CONTEXTS or len(models) == len(set(models)):
        return None
    slopes = []
    intercepts = []
    residuals = []
    for added in _added(row, npu):
        totals = list(itertools.accumulate(added))
        slope, intercept = _least_squares(totals)
        slopes.append(slope)
        intercepts.append(intercept)
        for count, total in enumerate(totals, start=1):
            residuals.append(abs(total - intercept - slope * count))
    slope_figure = Figure.of(slopes)
    intercept_figure = Figure.of(intercepts)
    if slope_figure is None or intercept_figure is None:
        return None
    return LineFit(slope_figure, intercept_figure, max(residuals))


def _least_squares(totals: Sequence[float]) -> tuple[float, float]:
    """Return slope and intercept of the line through totals of 1, 2, ... contexts.

    numpy's fit of equal steps leaves a residual of rounding, which would be shown.
    """
    counts = range(1, len(totals) + 1)
    middle = statistics.fmean(counts)
    offsets = [count - middle for count in counts]
    products = sum(offset * total for offset, total in zip(offsets, totals))
    slope = products / sum(offset**2 for offset in offsets)
    return slope, statistics.fmean(totals) - slope * middle


def fit_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return slope, intercept and largest residual of each row with a line; None without lines."""
    fits = []
    for row in rows:
        application = fit(row, npu=False)
        if application:
            fits.append((row, fit(row, npu=True), application))
    has_npu_memory = any(npu for _, npu, _ in fits)
    lines = []
    for row, npu, application in fits:
        cells = [texts.scenario(row.scenario)]
        if has_npu_memory:
            cells += _fit_cells(npu, is_npu=True)
        cells += _fit_cells(application, is_npu=False)
        lines.append((row.outcome, cells))
    if not lines:
        return None
    names = ("fit_slope", "fit_intercept", "fit_residual")
    heads = [f"column_{name}" for name in names]
    if has_npu_memory:
        heads = [f"column_npu_{name}" for name in names] + heads
    return Table(heads_of(("column_scenario", *heads), texts), lines, exported="fits")


def _fit_cells(fitted: LineFit | None, is_npu: bool) -> list[str]:
    if fitted is None:
        return [EMPTY] * 3
    residual = Figure(fitted.largest_residual_bytes)
    return [mib(figure, is_npu) for figure in (fitted.slope, fitted.intercept, residual)]


def slopes_table(group: Group, texts: Texts) -> Table:
    """Return the cost of one more context, by mechanism."""
    lines = []
    for row in group.rows:
        for cost in additional_costs(row):
            mechanism = texts.words.get(f"mechanism_{cost.mechanism}", cost.mechanism)
            cells = [texts.scenario(row.scenario), mechanism]
            if group.has_npu_memory:
                cells.append(mib(cost.npu_slope, npu=True))
            lines.append((row.outcome, [*cells, mib(cost.slope), str(cost.count)]))
    heads = ["column_scenario", "column_mechanism", "column_slope", "column_count"]
    if group.has_npu_memory:
        heads.insert(2, "column_npu_slope")
    return Table(heads_of(heads, texts), lines, words=(0, 1), exported="slopes")


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
        for cost in additional_costs(row)
    ]


def fit_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in FIT_COLUMNS for each line; a spread is None with a single repeat."""
    records = []
    for memory, npu in (("application", False), ("npu", True)):
        fitted = fit(row, npu)
        if fitted:
            record = {
                "memory": memory,
                "slope_bytes": rounded(fitted.slope),
                "slope_spread_bytes": rounded_spread(fitted.slope),
                "intercept_bytes": rounded(fitted.intercept),
                "intercept_spread_bytes": rounded_spread(fitted.intercept),
                "largest_residual_bytes": rounded(fitted.largest_residual_bytes),
            }
            records.append(record)
    return records


def contexts_figure(
    rows: Sequence[Row], npu: bool, texts: Texts, paper: Paper = WIDE
) -> str | None:
    """Draw memory against the number of contexts; None without figures.

    NPU memory if `npu`, otherwise memory over the do-nothing baseline.
    """
    totals = {}
    for row in rows:
        figures = _totals(row, npu)
        if figures:
            totals[row] = figures
    if not totals:
        return None
    canvas = new_canvas(340, paper)
    axes = canvas.add_subplot()
    legend = []
    looks = looks_of([row.scenario for row in totals])
    for position, (look, (row, figures)) in enumerate(zip(looks, totals.items())):
        legend.append(line(texts.scenario(row.scenario), linestyle="none", **look))
        # Equal figures cover each other: each row has smaller points than the row before, so that
        # all can be seen.
        size = max(_LARGEST_MARKER - position, _SMALLEST_MARKER)
        points = dict(enumerate(figures, start=1))
        fitted = fit(row, npu)
        if fitted:
            draw_points(axes, points, size, linestyle="none", **look)
            _draw_line(axes, fitted, len(figures), look["color"])
        else:
            draw_points(axes, points, size, linewidth=size / 3, **look)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(texts("axis_contexts"))
    axes.set_ylabel(texts("axis_npu_memory" if npu else "axis_over_baseline"))
    return svg_of(canvas, legend)


def draw_points(axes: Axes, points: Mapping[int, Figure], size: float, **look: Any) -> None:
    """Draw memory, in MiB, against a number, with its spread."""
    axes.errorbar(
        list(points),
        [figure.median / MIB for figure in points.values()],
        [(figure.spread or 0) / MIB for figure in points.values()],
        markersize=size,
        elinewidth=1.5,
        **look,
    )


def _draw_line(axes: Axes, fitted: LineFit, count: int, colour: str) -> None:
    """Draw the line from no context to `count` contexts, so that the intercept can be seen."""
    start = fitted.intercept.median
    end = start + fitted.slope.median * count
    axes.plot((0, count), (start / MIB, end / MIB), color=colour, linewidth=1, linestyle="--")


def _added(row: Row, npu: bool) -> list[tuple[int, ...]]:
    """Return the bytes that each context added, per repeat, of NPU memory or PSS."""
    return _added_npu_bytes(row) if npu else _added_bytes(row)


def _added_bytes(row: Row) -> list[tuple[int, ...]]:
    """Return the bytes of PSS that each context added, per repeat."""
    if not (row.measured and row.has_planned_contexts):
        return []
    return [added for added in row.info.memory.context_memory_bytes if added]


def _added_npu_bytes(row: Row) -> list[tuple[int, ...]]:
    """Return the bytes of NPU memory that belong to each context, per repeat."""
    if not (row.measured and row.has_planned_contexts):
        return []
    return [tuple(context.total_bytes for context in account.contexts) for account in row.accounts]


def _mean_added(repeats: Sequence[Sequence[int]], indices: Sequence[int]) -> Figure | None:
    """Return the mean over the contexts at these indices, as a figure over the repeats."""
    return Figure.of(statistics.fmean(added[index] for index in indices) for added in repeats)


def _totals(row: Row, npu: bool) -> list[Figure]:
    """Return the memory of the first context, of the first two, and so on; none without figures."""
    repeats = [itertools.accumulate(added) for added in _added(row, npu)]
    figures = [Figure.of(totals) for totals in zip(*repeats)]
    return [figure for figure in figures if figure]
