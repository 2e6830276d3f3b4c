"""The figure of versions: the memory of each configuration in each version, by component."""

from __future__ import annotations

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
#: Of bars: more would make a figure that nobody sees at once.
_MOST_LANES = 36


def versions_figure(versions: VersionSet, texts: Texts) -> str | None:
    """Draw the memory of configurations by version, one above the other; None if nothing was
    measured.

    Where there are too many, those whose memory changed come first; variants of another scenario
    are left out.
    """
    memories = {
        one: measured for one in versions.configurations if (measured := _memories(one, versions))
    }
    shown = _most_telling(memories)
    if not shown:
        return None
    names = []
    middles = []
    parts = []
    colours = []
    ends = []
    end_px = 0.0
    components: set[str] = set()
    is_npu = versions.measures_npu
    for configuration in shown:
        lanes: dict[str, ExplainedMemory | None] = {
            configuration_name(versions, configuration, texts): None
        }
        lanes |= {version.name: memory for version, memory in memories[configuration].items()}
        for name, memory in lanes.items():
            middle = end_px + _LANE_PX / 2
            names.append(name)
            middles.append(middle)
            end_px += _LANE_PX
            if memory is None:
                continue
            for component, (start, length) in component_parts(memory.sizes).items():
                parts.append((start, length, middle))
                colours.append(MEMORY_COLOURS[component])
                components.add(component)
            ends.append((memory.total, middle))
        end_px += _GAP_PX
    canvas = new_canvas(end_px + _AXIS_PX)
    axes = canvas.add_subplot()
    bars(axes, parts, _BAR_PX, facecolors=colours)
    whiskers(
        axes, [(total.median / MIB, middle, (total.spread or 0) / MIB) for total, middle in ends]
    )
    for total, middle in ends:
        label(
            axes,
            mib(total, is_npu, spread=False),
            (total.median + (total.spread or 0)) / MIB,
            middle,
        )
    named_rows(axes, names, middles, end_px)
    # Room for the numbers at the ends.
    axes.set_xlim(0, 1.15 * max(total.median for total, _ in ends) / MIB)
    axes.set_xlabel(texts("axis_npu_memory" if is_npu else "axis_application_memory"))
    legend = [name for name in MEMORY_COLOURS if name in components]
    return svg_of(
        canvas, [patch(texts(f"component_{name}"), MEMORY_COLOURS[name]) for name in legend]
    )


def _memories(
    configuration: ComparedConfiguration, versions: VersionSet
) -> dict[Version, ExplainedMemory]:
    """Return the memory by version, of the NPU in all of them or in none."""
    measured = {one: row for one in versions.versions if (row := configuration.measured(one))}
    memories = {one: memory for one, row in measured.items() if (memory := measured_memory(row))}
    return {
        one: memory for one, memory in memories.items() if memory.is_npu == versions.measures_npu
    }


def _most_telling(
    memories: dict[ComparedConfiguration, dict[Version, ExplainedMemory]],
) -> list[ComparedConfiguration]:
    """Return the configurations to draw, in their order."""
    own = [one for one in memories if not one.newest.is_variant]
    changed = [
        one for one in own if len({memory.total.median for memory in memories[one].values()}) > 1
    ]
    shown: list[ComparedConfiguration] = []
    lanes = 0
    for configuration in (*changed, *(one for one in own if one not in changed)):
        lanes += len(memories[configuration])
        if shown and lanes > _MOST_LANES:
            break
        shown.append(configuration)
    return [one for one in own if one in shown]
