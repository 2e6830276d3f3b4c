"""The figure of the explanation: claim, prediction and measurement of each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from reusebench.reports.base.drawing import (
    INK,
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
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.application_prediction import APPLICATION_COMPONENTS
from reusebench.reports.explanation.explained_memory import ExplainedMemory
from reusebench.reports.explanation.explanation import explain, measured_memory
from reusebench.reports.results.colours import COMPONENT_COLOURS, OTHER_COLOUR, PALETTE
from reusebench.reports.results.rows import Row
from reusebench.scenarios.catalogue import LEAN, scenarios_of

#: Pixels of a lane, of the bar in it, between two scenarios, and of the axis.
_LANE_PX = 16
_BAR_PX = 12
_GAP_PX = 12
_AXIS_PX = 50
_PREDICTED_ALPHA = 0.4
_STEPS = scenarios_of(LEAN)
_APPLICATION_COLOURS = (OTHER_COLOUR, PALETTE[3], PALETTE[0], PALETTE[1], PALETTE[2])
MEMORY_COLOURS = {**COMPONENT_COLOURS, **dict(zip(APPLICATION_COMPONENTS, _APPLICATION_COLOURS))}


@dataclass(frozen=True)
class _Lane:
    """A bar: the claim, the prediction or the measurement of one scenario."""

    #: "claim", "predicted" or "measured".
    kind: str
    figure: Figure
    #: Key: component.
    sizes: Mapping[str, Figure | None] = field(default_factory=dict)

    @property
    def end_mib(self) -> float:
        return self.figure.median / MIB

    @property
    def spread_mib(self) -> float:
        return (self.figure.spread or 0) / MIB


def explanation_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw claim, prediction and measurement of each scenario; None if nothing was measured."""
    shown = _shown_memories(rows)
    if not shown:
        return None
    is_npu = next(iter(shown.values())).is_npu

    lanes: list[tuple[float, _Lane]] = []
    labels = []
    drawn = Rows(paper)
    for row, measured in shown.items():
        row_lanes = _lanes(row, measured)
        height_px = _GAP_PX + len(row_lanes) * _LANE_PX
        middle = drawn.add(texts.scenario(row.scenario), height_px) + (_GAP_PX + _LANE_PX) / 2
        for lane in row_lanes:
            words = texts(f"lane_{lane.kind}", size=mib(lane.figure, is_npu, spread=False))
            labels.append((words, lane.end_mib + lane.spread_mib, middle))
            lanes.append((middle, lane))
            middle += _LANE_PX

    canvas = new_canvas(drawn.end_px + _AXIS_PX, paper)
    axes = canvas.add_subplot()
    components = _draw_bars(axes, lanes)
    write_labels(axes, labels)
    drawn.draw_names(axes)
    axes.set_xlim(0, end_with_room(labels, drawn.panel_px))
    axes.set_xlabel(texts("axis_npu_memory" if is_npu else "axis_application_memory"))
    legend = [
        patch(texts(f"component_{name}"), colour)
        for name, colour in MEMORY_COLOURS.items()
        if name in components
    ]
    return svg_of(canvas, legend)


def _shown_memories(rows: Sequence[Row]) -> dict[Row, ExplainedMemory]:
    """Return the memory of each row to draw; as they have one axis, all of NPU or application."""
    # Variants of lean are its steps.
    main_rows = [row for row in rows if not row.is_variant or row.scenario in _STEPS]
    memories = {}
    for row in main_rows or rows:
        memory = measured_memory(row)
        if memory and row.info.plan.contexts:
            memories[row] = memory
    is_npu = any(memory.is_npu for memory in memories.values())
    return {row: memory for row, memory in memories.items() if memory.is_npu == is_npu}


def _lanes(row: Row, measured: ExplainedMemory) -> list[_Lane]:
    """Return the lanes of a scenario: claim and prediction, if there are any, and measurement."""
    lanes = []
    explanation = explain(row)
    if explanation and explanation.measured.is_npu == measured.is_npu:
        if explanation.naive_saved_bytes is not None:
            left = explanation.baseline.total.median - explanation.naive_saved_bytes
            lanes.append(_Lane("claim", Figure(left)))
        predicted = explanation.predicted
        lanes.append(_Lane("predicted", Figure(predicted.total.median), predicted.sizes))
    lanes.append(_Lane("measured", measured.total, measured.sizes))
    return lanes


def _draw_bars(axes: Axes, lanes: Sequence[tuple[float, _Lane]]) -> set[str]:
    """Draw the bar of each lane, and return the components that are there."""
    claims = []
    parts = []
    colours = []
    components = set()
    for middle, lane in lanes:
        if lane.kind == "claim":
            claims.append((0.0, lane.end_mib, middle))
        alpha = None if lane.kind == "measured" else _PREDICTED_ALPHA
        for name, (start, length) in component_parts(lane.sizes).items():
            parts.append((start, length, middle))
            colours.append(to_rgba(MEMORY_COLOURS[name], alpha))
            components.add(name)
    bars(axes, parts, _BAR_PX, facecolors=colours)
    dashed = {"edgecolors": INK, "linewidth": 1, "linestyles": [(0, (3, 2))]}
    bars(axes, claims, _BAR_PX, facecolors="none", **dashed)
    whiskers(axes, [(lane.end_mib, middle, lane.spread_mib) for middle, lane in lanes])
    return components


def component_parts(sizes: Mapping[str, Figure | None]) -> dict[str, tuple[float, float]]:
    """Return (start, length) of each component in MiB; negative sizes shorten the first ones."""
    known_mib = {}
    for name, figure in sizes.items():
        if figure and figure.median:
            known_mib[name] = figure.median / MIB

    parts = {}
    end = sum(min(size, 0) for size in known_mib.values())
    for name, size in known_mib.items():
        if size > 0:
            start = max(end, 0)
            end += size
            parts[name] = (start, max(end - start, 0))
    return parts
