"""Copies of input and output: what each way to move them copies, and whether leaving that out can
be measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from reusebench.reports.base.drawing import INK, Draw, new_canvas, patch, svg_of
from reusebench.reports.base.formatting import EMPTY, MIB, counted_mib, mib, milliseconds
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.copies import avoided_bytes, copied
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import LESS, MORE, NPU, OVER_BASELINE, SAME
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import GroupView, Values

_PANEL_PX = 175


class CopiesSection(ComparisonSection):
    """What contexts save whose inputs and outputs are not copied."""

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

    def rows_by_heading(self, rows: Sequence[Row], texts: Texts) -> Mapping[str, Sequence[Row]]:
        """Return the rows by the size of their tensors."""
        return by_size(rows, texts)


def by_size(rows: Iterable[Row], texts: Texts) -> dict[str, list[Row]]:
    """Return the rows by the size of their tensors in words; a baseline stands with those compared
    with it.
    """
    sizes: dict[str, list[Row]] = {}
    for row in rows:
        baseline = row.info.baseline or row.scenario
        sizes.setdefault(texts.words.get(f"size_{baseline}", row.models), []).append(row)
    return sizes


def copies_table(group: Group, rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return what each way copies and saves, with a verdict; None if copies were not counted."""
    lines = []
    for size, of_size in by_size(rows, texts).items():
        for row in of_size:
            own = copied(row)
            if own is None:
                continue
            cells = [
                texts.scenario(row.scenario),
                size,
                counted_mib(own.input_bytes),
                counted_mib(own.output_bytes),
            ]
            cells.append(counted_mib(avoided_bytes(row)))
            if group.has_npu_memory:
                cells.append(mib(row.saved(NPU), npu=True))
            cells.append(mib(row.saved(OVER_BASELINE)))
            if group.computes:
                cells += [
                    milliseconds(row.latency),
                    milliseconds(row.baseline.latency if row.baseline else None),
                ]
            lines.append((row.outcome, [*cells, _verdict(row, texts)]))
    heads = [
        "column_scenario",
        "column_size_of_tensors",
        "column_copied_input",
        "column_copied_output",
        "column_avoided",
        *(["column_npu_saved"] if group.has_npu_memory else []),
        "column_saved_over_bytes",
        *(["column_latency", "column_latency_baseline"] if group.computes else []),
        "column_verdict",
    ]
    return Table(heads_of(heads, texts), lines, words=(0, 1, -1)) if lines else None


def copies_figure(rows: Sequence[Row], texts: Texts) -> str | None:
    """Draw what each way saves of memory and of latency, by size; None if no way differs from
    its baseline.
    """
    sizes = {
        size: [row for row in of_size if row.saved()]
        for size, of_size in by_size(rows, texts).items()
    }
    columns = {size: of_size for size, of_size in sizes.items() if of_size}
    npu = any(row.saved(NPU) for row in rows)
    measures: dict[str, list[dict[str, Figure]]] = {
        "axis_npu_saved" if npu else "axis_saved": [],
        "axis_latency_saved": [],
    }
    for of_size in columns.values():
        savings = {_way(row): row.main_saving for row in of_size}
        latencies = {_way(row): row.latency_saved for row in of_size}
        memory = {way: saving.saved.scaled(1 / MIB) for way, saving in savings.items() if saving}
        speed = {way: figure.scaled(1e-6) for way, figure in latencies.items() if figure}
        for panels, figures in zip(measures.values(), (memory, speed)):
            panels.append(figures)
    lines = {axis: panels for axis, panels in measures.items() if any(map(_differ, panels))}
    if not lines:
        return None
    canvas = new_canvas(_PANEL_PX * len(lines) + 20)
    grid = canvas.subplots(len(lines), len(columns), squeeze=False)
    for of_line, (name, panels) in zip(grid, lines.items()):
        for axes, figures in zip(of_line, panels):
            # From nothing saved up or, where it costs, down.
            colours = [scenario_colour(way) for way in figures]
            medians = [figure.median for figure in figures.values()]
            axes.bar(range(len(figures)), medians, 0.62, color=colours)
            spreads = [figure.spread or math.nan for figure in figures.values()]
            axes.errorbar(
                range(len(figures)),
                medians,
                spreads,
                fmt="none",
                ecolor=INK,
                capsize=3,
                elinewidth=1,
            )
            axes.axhline(0, color=INK, linewidth=0.8)
            if not _differ(figures):
                axes.set_yticks([0])
            axes.set_xticks([])
            axes.grid(axis="x", visible=False)
            axes.margins(x=0.12, y=0.12)
        of_line[0].set_ylabel(texts(name))
    for axes, size in zip(grid[0], columns):
        axes.set_title(size)
    ways = dict.fromkeys(_way(row) for of_size in columns.values() for row in of_size)
    return svg_of(canvas, [patch(texts.scenario(way), scenario_colour(way)) for way in ways])


def _way(row: Row) -> str:
    """Return the scenario that moves the tensors the same way at the size of the streams'
    models.
    """
    baseline = row.info.baseline or row.scenario
    suffix = baseline[len("copied_io") :] if baseline.startswith("copied_io") else ""
    return row.scenario[: len(row.scenario) - len(suffix)]


def _differ(figures: dict[str, Figure]) -> bool:
    """Whether there is anything to draw."""
    return any(figure.median or figure.spread for figure in figures.values())


def _verdict(row: Row, texts: Texts) -> str:
    """Return in words whether the differences are more than what repeats differ by."""
    saving = row.main_saving
    latency = row.latency_saved
    if not row.saved():
        return EMPTY
    if (saving and saving.saved.spread is None) or (latency and latency.spread is None):
        return texts("verdict_one_repeat")
    verdicts = [f"verdict_memory_{saving.change}"] if saving else []
    if latency:
        change = SAME if not latency.exceeds_spread else LESS if latency.median > 0 else MORE
        verdicts.append(f"verdict_latency_{change}")
    return texts.joined(map(texts, verdicts))
