"""The figure of the explanation: the claim, the prediction and the measurement of each scenario, by
component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.colors import to_rgba

from reusebench.reports.base.drawing import (
    INK,
    bars,
    label,
    named_rows,
    new_canvas,
    patch,
    svg_of,
    whiskers,
)
from reusebench.reports.base.formatting import MIB, mib
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explanation import (
    APPLICATION_COMPONENTS,
    explain,
    measured_memory,
)
from reusebench.reports.results.colours import COMPONENT_COLOURS
from reusebench.reports.results.rows import Row
from reusebench.scenarios.catalogue import LEAN, scenarios_of

#: Pixels of a lane, of the bar in it, between two scenarios, and of the axis.
_LANE_PX = 16
_BAR_PX = 12
_GAP_PX = 12
_AXIS_PX = 50
_PREDICTED_ALPHA = 0.4
_STEPS = scenarios_of(LEAN)
_APPLICATION_COLOURS = ("#999999", "#cc79a7", "#0072b2", "#e69f00", "#009e73")
MEMORY_COLOURS = {**COMPONENT_COLOURS, **dict(zip(APPLICATION_COMPONENTS, _APPLICATION_COLOURS))}


def explanation_figure(rows: Sequence[Row], texts: Texts) -> str | None:
    """Draw the claim, the prediction and the measurement of each scenario; None if nothing was
    measured.
    """
    # Variants of lean are its steps.
    own = [row for row in rows if not row.is_variant or row.scenario in _STEPS] or rows
    memories = {
        row: memory for row in own if row.info.plan.contexts and (memory := measured_memory(row))
    }
    # All of one memory, since they have one axis.
    is_npu = any(memory.is_npu for memory in memories.values())
    shown = {row: memory for row, memory in memories.items() if memory.is_npu == is_npu}
    if not shown:
        return None
    lanes: list[tuple[float, str, Figure, Mapping[str, Figure | None]]] = []
    middles = []
    end_px = 0.0
    for row, measured in shown.items():
        own_lanes: list[tuple[str, Figure, Mapping[str, Figure | None]]] = []
        explanation = explain(row)
        if explanation and explanation.measured.is_npu == is_npu:
            if explanation.naive_saved_bytes is not None:
                left = explanation.baseline.total.median - explanation.naive_saved_bytes
                own_lanes.append(("claim", Figure(left), {}))
            own_lanes.append(
                (
                    "predicted",
                    Figure(explanation.predicted.total.median),
                    explanation.predicted.sizes,
                )
            )
        own_lanes.append(("measured", measured.total, measured.sizes))
        middles.append(end_px + (_GAP_PX + len(own_lanes) * _LANE_PX) / 2)
        for number, lane in enumerate(own_lanes):
            lanes.append((end_px + _GAP_PX / 2 + (number + 0.5) * _LANE_PX, *lane))
        end_px += len(own_lanes) * _LANE_PX + _GAP_PX
    canvas = new_canvas(end_px + _AXIS_PX)
    axes = canvas.add_subplot()
    ends = []
    claims = []
    parts = []
    colours = []
    components = set()
    for middle, kind, figure, sizes in lanes:
        end = figure.median / MIB
        spread = (figure.spread or 0) / MIB
        if kind == "claim":
            claims.append((0.0, end, middle))
        for name, (start, length) in component_parts(sizes).items():
            parts.append((start, length, middle))
            colours.append(
                to_rgba(MEMORY_COLOURS[name], None if kind == "measured" else _PREDICTED_ALPHA)
            )
            components.add(name)
        ends.append((end, middle, spread))
        label(
            axes,
            texts(f"lane_{kind}", size=mib(figure, is_npu, spread=False)),
            end + spread,
            middle,
        )
    bars(axes, parts, _BAR_PX, facecolors=colours)
    bars(
        axes,
        claims,
        _BAR_PX,
        facecolors="none",
        edgecolors=INK,
        linewidth=1,
        linestyles=[(0, (3, 2))],
    )
    whiskers(axes, ends)
    named_rows(axes, [texts.scenario(row.scenario) for row in shown], middles, end_px)
    longest = max((figure.median + (figure.spread or 0)) / MIB for _, _, figure, _ in lanes)
    # Room for the words at its end.
    axes.set_xlim(0, longest * 1.3)
    axes.set_xlabel(texts("axis_npu_memory" if is_npu else "axis_application_memory"))
    names = [name for name in MEMORY_COLOURS if name in components]
    return svg_of(
        canvas, [patch(texts(f"component_{name}"), MEMORY_COLOURS[name]) for name in names]
    )


def component_parts(sizes: Mapping[str, Figure | None]) -> dict[str, tuple[float, float]]:
    """Return where each component begins and how long it is, in MiB; what was given back is off the
    first.
    """
    known = {name: size.median / MIB for name, size in sizes.items() if size and size.median}
    parts = {}
    end = sum(min(size, 0) for size in known.values())
    for name, size in known.items():
        if size > 0:
            start = max(end, 0)
            end = end + size
            parts[name] = (start, max(end - start, 0))
    return parts
