"""The figure of versions: the memory of each configuration by version and component."""

from __future__ import annotations

from collections.abc import Sequence

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
from reusebench.reports.explanation.explanation import measured_memory
from reusebench.reports.explanation.figure import MEMORY_COLOURS, component_parts
from reusebench.reports.versions.table import configuration_name
from reusebench.reports.versions.versions import ComparedConfiguration, Version, VersionSet

#: Pixels of a lane, of the bar in it, between two configurations, and of the axis.
_LANE_PX = 16
_BAR_PX = 12
_GAP_PX = 10
_AXIS_PX = 50
#: Limit of lanes: a larger figure would not fit on a screen.
_MOST_LANES = 36


def versions_figure(versions: VersionSet, texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the memory of configurations by version, one above the other; None without figures.

    Variants of another scenario are left out. If there are too many configurations, those whose
    memory changed are drawn.
    """
    memories = {}
    for configuration in versions.configurations:
        measured = _memories(configuration, versions)
        if measured:
            memories[configuration] = measured
    shown = _most_telling(memories)
    if not shown:
        return None

    is_npu = versions.measures_npu
    rows = Rows(paper)
    bars_of_versions: list[tuple[float, ExplainedMemory]] = []
    labels = []
    for configuration in shown:
        # A heading above the bars needs no room of its own.
        heading_px = _LANE_PX if paper.has_names_at_left else 0
        rows.add(configuration_name(versions, configuration, texts), heading_px)
        for version, memory in memories[configuration].items():
            middle = rows.add(version.name, _LANE_PX) + _LANE_PX / 2
            bars_of_versions.append((middle, memory))
            total = memory.total
            end_mib = (total.median + (total.spread or 0)) / MIB
            labels.append((mib(total, is_npu, spread=False), end_mib, middle))
        rows.end_px += _GAP_PX

    canvas = new_canvas(rows.end_px + _AXIS_PX, paper)
    axes = canvas.add_subplot()
    components = _draw_bars(axes, bars_of_versions)
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


def _memories(
    configuration: ComparedConfiguration, versions: VersionSet
) -> dict[Version, ExplainedMemory]:
    """Return the memory by version: NPU memory if the set has any, otherwise application memory."""
    memories = {}
    for version in versions.versions:
        row = configuration.measured(version)
        memory = measured_memory(row) if row else None
        if memory and memory.is_npu == versions.measures_npu:
            memories[version] = memory
    return memories


def _most_telling(
    memories: dict[ComparedConfiguration, dict[Version, ExplainedMemory]],
) -> list[ComparedConfiguration]:
    """Return the configurations to draw, in their order."""
    own = [configuration for configuration in memories if not configuration.newest.is_variant]
    changed: list[ComparedConfiguration] = []
    equal: list[ComparedConfiguration] = []
    for configuration in own:
        totals = {memory.total.median for memory in memories[configuration].values()}
        (changed if len(totals) > 1 else equal).append(configuration)

    shown: list[ComparedConfiguration] = []
    lanes = 0
    for configuration in (*changed, *equal):
        lanes += len(memories[configuration])
        if shown and lanes > _MOST_LANES:
            break
        shown.append(configuration)
    return [configuration for configuration in own if configuration in shown]
