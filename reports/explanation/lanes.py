"""A figure of memory in lanes: below each heading a bar for each version or board."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import (
    Rows,
    bars,
    end_with_room,
    new_canvas,
    patch,
    svg_of,
    whiskers,
    write_labels,
)
from reusebench.reports.base.formatting import MIB, mib
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explained_memory import ExplainedMemory
from reusebench.reports.explanation.figure import MEMORY_COLOURS, component_parts

#: Limit of lanes: a larger figure would not fit on a screen.
MOST_LANES = 36
#: Pixels of a lane, of the bar in it, between two headings, and of the axis.
_LANE_PX = 16
_BAR_PX = 12
_GAP_PX = 10
_AXIS_PX = 50


def memory_lanes(
    lanes: Iterable[tuple[str, Mapping[str, ExplainedMemory]]],
    is_npu: bool,
    texts: Texts,
    paper: Paper = WIDE,
) -> str:
    """Draw (heading, memory by the name of its lane), one above the other, by component."""
    rows = Rows(paper)
    memories: list[tuple[float, ExplainedMemory]] = []
    labels = []
    for heading, by_name in lanes:
        # A heading above the bars needs no room of its own.
        rows.add(heading, _LANE_PX if paper.has_names_at_left else 0)
        for name, memory in by_name.items():
            middle = rows.add(name, _LANE_PX) + _LANE_PX / 2
            memories.append((middle, memory))
            total = memory.total
            end_mib = (total.median + (total.spread or 0)) / MIB
            labels.append((mib(total, is_npu, spread=False), end_mib, middle))
        rows.end_px += _GAP_PX

    canvas = new_canvas(rows.end_px + _AXIS_PX, paper)
    axes = canvas.add_subplot()
    components = _draw_bars(axes, memories)
    write_labels(axes, labels)
    rows.draw_names(axes)
    axes.set_xlim(0, end_with_room(labels, rows.panel_px))
    axes.set_xlabel(texts("axis_npu_memory" if is_npu else "axis_application_memory"))
    legend = [name for name in MEMORY_COLOURS if name in components]
    return svg_of(
        canvas, [patch(texts(f"component_{name}"), MEMORY_COLOURS[name]) for name in legend]
    )


def _draw_bars(axes: Axes, memories: Sequence[tuple[float, ExplainedMemory]]) -> set[str]:
    """Draw the bars with their components and spreads; return the drawn components."""
    parts = []
    colours = []
    ends = []
    components: set[str] = set()
    for middle, memory in memories:
        for component, (start, length) in component_parts(memory.sizes).items():
            parts.append((start, length, middle))
            colours.append(MEMORY_COLOURS[component])
            components.add(component)
        total = memory.total
        ends.append((total.median / MIB, middle, (total.spread or 0) / MIB))
    bars(axes, parts, _BAR_PX, facecolors=colours)
    whiskers(axes, ends)
    return components
