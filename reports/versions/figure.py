"""The figure of versions: the memory of each configuration by version and component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from reusebench.reports.base.drawing import (
    bars,
    label,
    named_rows,
    new_canvas,
    patch,
    svg_of,
    whiskers,
)
from reusebench.reports.base.formatting import MIB, mib
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


def versions_figure(versions: VersionSet, texts: Texts) -> str | None:
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

    lanes: list[_Lane] = []
    end_px = 0.0
    for configuration in shown:
        name = configuration_name(versions, configuration, texts)
        lanes.append(_Lane(name, end_px + _LANE_PX / 2))
        end_px += _LANE_PX
        for version, memory in memories[configuration].items():
            lanes.append(_Lane(version.name, end_px + _LANE_PX / 2, memory))
            end_px += _LANE_PX
        end_px += _GAP_PX

    canvas = new_canvas(end_px + _AXIS_PX)
    axes = canvas.add_subplot()
    is_npu = versions.measures_npu
    components = _draw_bars(axes, lanes, is_npu)
    named_rows(axes, [lane.name for lane in lanes], [lane.middle_px for lane in lanes], end_px)
    # The limit leaves room for the numbers at the ends.
    totals = [lane.memory.total.median for lane in lanes if lane.memory]
    axes.set_xlim(0, 1.15 * max(totals) / MIB)
    axes.set_xlabel(texts("axis_npu_memory" if is_npu else "axis_application_memory"))
    legend = [name for name in MEMORY_COLOURS if name in components]
    return svg_of(
        canvas, [patch(texts(f"component_{name}"), MEMORY_COLOURS[name]) for name in legend]
    )


@dataclass(frozen=True)
class _Lane:
    """A line of the figure: a heading, or the bar of a version."""

    name: str
    middle_px: float
    #: None for a heading.
    memory: ExplainedMemory | None = None


def _draw_bars(axes: Axes, lanes: Sequence[_Lane], is_npu: bool) -> set[str]:
    """Draw the bars with their components, spreads and numbers; return the drawn components."""
    parts = []
    colours = []
    ends = []
    components: set[str] = set()
    for lane in lanes:
        if lane.memory is None:
            continue
        for component, (start, length) in component_parts(lane.memory.sizes).items():
            parts.append((start, length, lane.middle_px))
            colours.append(MEMORY_COLOURS[component])
            components.add(component)
        total = lane.memory.total
        ends.append((total.median / MIB, lane.middle_px, (total.spread or 0) / MIB))
    bars(axes, parts, _BAR_PX, facecolors=colours)
    whiskers(axes, ends)
    for lane in lanes:
        if lane.memory:
            total = lane.memory.total
            number = mib(total, is_npu, spread=False)
            label(axes, number, (total.median + (total.spread or 0)) / MIB, lane.middle_px)
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
