"""The figure of what each way to move input and output saves, at each size of the tensors."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.statistics import Figure
from reports.base.texts import Texts
from reports.results.colours import OTHER_COLOUR, SCENARIO_COLOURS
from reports.results.rows import Row
from reports.sections.copies_table import by_size

MIB = 2**20


def way_colours(rows: Sequence[Row], texts: Texts) -> dict[str, str]:
    """Return the ways that the figure shows, in the colours of their scenarios at the size of the streams' models."""
    ways = dict.fromkeys(_way(row) for row in rows if row.measured and row.baseline)
    return {texts.scenario(way): SCENARIO_COLOURS.get(way, OTHER_COLOUR) for way in ways}


def copies_figure(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw what each way saves of memory and of latency, by size; None where no way differs from its baseline."""
    sizes = {size: [row for row in of_size if row.saved] for size, of_size in by_size(rows, texts).items()}
    columns = {size: of_size for size, of_size in sizes.items() if of_size}
    npu = any(row.npu_saved for row in rows)
    measures = {"axis_npu_saved" if npu else "axis_saved": _memory_saved, "axis_latency_saved": _latency_saved}
    lines = {axis: saved for axis, saved in measures.items() if any(map(_differs, map(saved, columns.values())))}
    if not lines:
        return None

    def draw(canvas: Canvas, narrow: bool) -> None:
        shape = (len(columns), len(lines)) if narrow else (len(lines), len(columns))
        grid = canvas.subplots(*shape, squeeze=False)
        by_line = grid.T if narrow else grid
        for panels, (axis, saved) in zip(by_line, lines.items()):
            for axes, of_size in zip(panels, columns.values()):
                _panel(axes, saved(of_size))
            (panels[-1].set_xlabel if narrow else panels[0].set_ylabel)(texts(axis))
        for axes, size in zip(by_line[0], columns):
            axes.set_title(size, loc="left")

    return drawing(draw, lambda narrow: 170 * len(columns) + 30 if narrow else 190 * len(lines) + 20)


def _way(row: Row) -> str:
    """Return the scenario that moves the tensors the same way at the size of the streams' models."""
    baseline = row.info.baseline or row.scenario
    suffix = baseline[len("copied_io") :] if baseline.startswith("copied_io") else ""
    return row.scenario[: len(row.scenario) - len(suffix)]


def _memory_saved(rows: Sequence[Row]) -> dict[str, Figure]:
    saved = {_way(row): row.saved_memory for row in rows}
    return {way: _in_unit(figure, MIB) for way, figure in saved.items() if figure}


def _latency_saved(rows: Sequence[Row]) -> dict[str, Figure]:
    return {_way(row): _in_unit(row.latency_saved, 1e6) for row in rows if row.latency_saved}


def _in_unit(figure: Figure, unit: float) -> Figure:
    return Figure(figure.median / unit, None if figure.spread is None else figure.spread / unit)


def _differs(figures: dict[str, Figure]) -> bool:
    """Whether there is anything to draw."""
    return any(figure.median or figure.spread for figure in figures.values())


def _panel(axes: Axes, figures: dict[str, Figure]) -> None:
    """Draw a bar for each way, from nothing saved up or, where it costs, down."""
    for place, (way, figure) in enumerate(figures.items()):
        axes.bar(place, figure.median, 0.62, color=SCENARIO_COLOURS.get(way, OTHER_COLOUR))
        if figure.spread:
            axes.errorbar(place, figure.median, figure.spread, color=INK, capsize=3, linewidth=1)
    axes.axhline(0, color=INK, linewidth=0.8)
    if not _differs(figures):
        axes.set_yticks([0])
    axes.set_xticks([])
    axes.grid(axis="x", visible=False)
    axes.margins(x=0.12, y=0.12)
