"""The question of copies: the bytes that each way to move input and output copies and saves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import partial

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import INK, Draw, new_canvas, patch, svg_of
from reusebench.reports.base.formatting import EMPTY, MIB, counted_mib, mib, milliseconds
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.copies import avoided_bytes, copied
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import GroupView, Values
from reusebench.storage.savings import LESS, MORE, NPU, SAME

_PANEL_PX = 175


class CopiesSection(ComparisonSection):
    """Savings of contexts whose inputs and outputs are not copied."""

    template = "sections/io_copies.html.j2"

    def __init__(self) -> None:
        super().__init__("io_copies")

    def part(self, view: GroupView) -> Values:
        """Return the variables of a comparison, and the table of copies."""
        rows = [row for row in view.rows if row.schedule is None]
        copies = copies_table(view.group, rows, view.texts)
        return {**super().part(view), "copies": copies}

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figures of a comparison, and the savings of memory and latency."""
        return {
            **super().part_figures(view),
            "copies": partial(copies_figure, view.rows, view.texts),
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the most bytes that an inference need not copy, and the saving of memory."""
        avoided = {row: avoided_bytes(row) or 0 for row in view.rows if row.measured}
        best = max(avoided, key=lambda row: avoided[row], default=None)
        saving = super().part_summary(view)
        if best is None or not avoided[best]:
            return saving
        name = view.texts.scenario(best.scenario)
        copies = view.texts("summary_copies", scenario=name, avoided=counted_mib(avoided[best]))
        return view.texts.joined(filter(None, [copies, saving]))


def by_size(rows: Iterable[Row], texts: Texts) -> dict[str, list[Row]]:
    """Return the rows by the size of their tensors; a baseline is with those compared with it."""
    sizes: dict[str, list[Row]] = {}
    for row in rows:
        baseline = row.info.baseline or row.scenario
        size = texts.words.get(f"size_{baseline}", row.models)
        sizes.setdefault(size, []).append(row)
    return sizes


def copies_table(group: Group, rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return the bytes that each way copies and saves, with a verdict; None if none was counted."""
    lines = []
    for size, rows_of_size in by_size(rows, texts).items():
        for row in rows_of_size:
            copies = copied(row)
            if copies is None:
                continue
            cells = [
                texts.scenario(row.scenario),
                size,
                counted_mib(copies.input_bytes),
                counted_mib(copies.output_bytes),
                counted_mib(avoided_bytes(row)),
            ]
            if group.has_npu_memory:
                cells.append(mib(row.saved(NPU), npu=True))
            cells.append(mib(row.saved()))
            if group.computes:
                baseline_latency = row.baseline.latency if row.baseline else None
                cells += [milliseconds(row.latency), milliseconds(baseline_latency)]
            cells.append(_verdict(row, texts))
            lines.append((row.outcome, cells))
    if not lines:
        return None
    heads = ["column_scenario", "column_size_of_tensors"]
    heads += ["column_copied_input", "column_copied_output", "column_avoided"]
    if group.has_npu_memory:
        heads.append("column_npu_saved")
    heads.append("column_application_saved")
    if group.computes:
        heads += ["column_latency", "column_latency_baseline"]
    heads.append("column_verdict")
    return Table(heads_of(heads, texts), lines, words=(0, 1, -1), exported="comparison")


def copies_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the memory and latency that each way saves, by size; None if no way saves any."""
    columns: dict[str, list[Row]] = {}
    for size, rows_of_size in by_size(rows, texts).items():
        comparable = [row for row in rows_of_size if row.saved()]
        if comparable:
            columns[size] = comparable
    has_npu_memory = any(row.saved(NPU) for row in rows)
    panels_by_axis = {
        "axis_npu_saved" if has_npu_memory else "axis_saved": [
            _memory_saved(comparable) for comparable in columns.values()
        ],
        "axis_latency_saved": [_latency_saved(comparable) for comparable in columns.values()],
    }
    lines = {axis: panels for axis, panels in panels_by_axis.items() if any(map(_differ, panels))}
    if not lines:
        return None
    # Panels of all sizes stand in a row, or below each other, each with its size.
    rows_of_line = 1 if paper.columns > 1 else len(columns)
    line_count = len(lines) * rows_of_line
    canvas = new_canvas(_PANEL_PX * line_count + 20, paper)
    grid = canvas.subplots(line_count, len(columns) // rows_of_line, squeeze=False)
    all_axes = iter(grid.flat)
    for number, (name, panels) in enumerate(lines.items()):
        for place, (size, savings) in enumerate(zip(columns, panels)):
            axes = next(all_axes)
            _draw_panel(axes, savings)
            if place == 0 or rows_of_line > 1:
                axes.set_ylabel(texts(name))
            if number == 0 or rows_of_line > 1:
                axes.set_title(size)
    ways = dict.fromkeys(_way(row) for row in itertools.chain(*columns.values()))
    return svg_of(canvas, [patch(texts.scenario(way), scenario_colour(way)) for way in ways])


def _memory_saved(rows: Sequence[Row]) -> dict[str, Figure]:
    """Return the MiB that each way saves."""
    saved = {}
    for row in rows:
        saving = row.main_saving
        if saving:
            saved[_way(row)] = saving.saved.scaled(1 / MIB)
    return saved


def _latency_saved(rows: Sequence[Row]) -> dict[str, Figure]:
    """Return the milliseconds that each way saves."""
    saved = {}
    for row in rows:
        latency = row.latency_saved
        if latency:
            saved[_way(row)] = latency.scaled(1e-6)
    return saved


def _draw_panel(axes: Axes, savings: dict[str, Figure]) -> None:
    """Draw a bar for each way: upwards if it saves, downwards if it costs."""
    places = range(len(savings))
    medians = [figure.median for figure in savings.values()]
    spreads = [figure.spread or math.nan for figure in savings.values()]
    axes.bar(places, medians, 0.62, color=[scenario_colour(way) for way in savings])
    axes.errorbar(places, medians, spreads, fmt="none", ecolor=INK, capsize=3, elinewidth=1)
    axes.axhline(0, color=INK, linewidth=0.8)
    if not _differ(savings):
        axes.set_yticks([0])
    axes.set_xticks([])
    axes.grid(axis="x", visible=False)
    axes.margins(x=0.12, y=0.12)


def _way(row: Row) -> str:
    """Return the scenario that moves tensors in the same way with the models of the streams."""
    baseline = row.info.baseline or row.scenario
    if not baseline.startswith("copied_io"):
        return row.scenario
    size = baseline[len("copied_io") :]
    return row.scenario[: len(row.scenario) - len(size)]


def _differ(savings: dict[str, Figure]) -> bool:
    """Whether any saving is not zero."""
    return any(figure.median or figure.spread for figure in savings.values())


def _verdict(row: Row, texts: Texts) -> str:
    """Return whether memory and latency differ by more than repeats do."""
    saving = row.main_saving
    latency = row.latency_saved
    if not row.saved():
        return EMPTY
    if (saving and saving.saved.spread is None) or (latency and latency.spread is None):
        return texts("verdict_one_repeat")
    verdicts = []
    if saving:
        verdicts.append(texts(f"verdict_memory_{saving.change}"))
    if latency:
        verdicts.append(texts(f"verdict_latency_{_latency_change(latency)}"))
    return texts.joined(verdicts)


def _latency_change(saved: Figure) -> str:
    if not saved.exceeds_spread:
        return SAME
    return LESS if saved.median > 0 else MORE
