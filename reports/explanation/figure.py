"""The figure of the explanation: the claim, the prediction and the measurement of each scenario, by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.statistics import Figure
from reports.base.texts import Texts
from reports.explanation.explanation import APPLICATION_COMPONENTS, NPU, Memory, explain, measured_memory
from reports.results.colours import COMPONENT_COLOURS
from reports.results.rows import Row

MIB = 2**20
#: Pixels of a lane, of the bar in it, between two blocks, of a scenario's name above its block, of the axis.
_LANE, _BAR, _GAP, _NAME, _AXIS = 16, 12, 12, 17, 50
_PALE = 0.4
_OF_APPLICATION = ("#999999", "#cc79a7", "#0072b2", "#e69f00", "#009e73")
_COLOURS = {**COMPONENT_COLOURS, **dict(zip(APPLICATION_COMPONENTS, _OF_APPLICATION))}


@dataclass(frozen=True)
class _Lane:
    """One bar of a scenario."""

    #: What its number is: "claim", "predicted" or "measured".
    kind: str
    #: Of all components together, in MiB.
    total: float
    #: Half the range between repeats in MiB; zero where none is to be shown.
    spread: float
    #: Bytes by component; the claim has none.
    sizes: Mapping[str, Figure | None]


@dataclass(frozen=True)
class _Block:
    """The lanes of one scenario, from the pixel where they begin."""

    name: str
    top: float
    lanes: Sequence[_Lane]

    @property
    def places(self) -> list[tuple[float, _Lane]]:
        """The lanes with the pixel of their middle."""
        return [(self.top + (number + 0.5) * _LANE, lane) for number, lane in enumerate(self.lanes)]


def explanation_figure(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the claim, the prediction and the measurement of each scenario; None where nothing was measured."""
    shown = _shown(rows)
    if not shown:
        return None
    memory = next(iter(shown.values())).name
    names = [texts.scenario(row.scenario) for row in shown]
    lanes = [_lanes(row, measured) for row, measured in shown.items()]

    def draw(canvas: Canvas, narrow: bool) -> None:
        axes = canvas.add_subplot()
        blocks = _blocks(names, lanes, narrow)
        for block in blocks:
            for place, lane in block.places:
                _bar(axes, place, lane)
                _label(axes, place, lane, memory, texts)
        _whiskers(axes, blocks)
        _names(axes, blocks, narrow)
        _scale(axes, blocks, narrow)
        axes.set_xlabel(texts(f"axis_{memory}_memory"))

    return drawing(draw, lambda narrow: round(_end(_blocks(names, lanes, narrow))) + _AXIS)


def explanation_colours(rows: Sequence[Row], texts: Texts) -> dict[str, str]:
    """Return the components that the figure shows with their colours."""
    lanes = [lane for row, measured in _shown(rows).items() for lane in _lanes(row, measured)]
    names = {name for lane in lanes for name in _parts(lane.sizes)}
    return {texts(f"component_{name}"): colour for name, colour in _COLOURS.items() if name in names}


def _shown(rows: Sequence[Row]) -> dict[Row, Memory]:
    """Return the rows that are drawn: all of one memory, since they have one axis."""
    own = [row for row in rows if not row.is_variant] or rows
    memories = {row: memory for row in own if row.info.plan.contexts and (memory := measured_memory(row))}
    names = {memory.name for memory in memories.values()}
    return {row: memory for row, memory in memories.items() if memory.name == NPU or NPU not in names}


def _lanes(row: Row, measured: Memory) -> list[_Lane]:
    """Return the lanes that there are: of a baseline the measured alone."""
    lanes = [_Lane("measured", measured.total.median / MIB, (measured.total.spread or 0) / MIB, measured.sizes)]
    explanation = explain(row)
    if explanation is None or explanation.memory != measured.name:
        return lanes
    lanes.insert(0, _Lane("predicted", explanation.predicted_total.median / MIB, 0, explanation.predicted))
    if explanation.naive_saved_bytes is not None:
        lanes.insert(
            0, _Lane("claim", (explanation.baseline_total.median - explanation.naive_saved_bytes) / MIB, 0, {})
        )
    return lanes


def _blocks(names: Sequence[str], lanes: Sequence[Sequence[_Lane]], narrow: bool) -> list[_Block]:
    """Return the blocks one below the other, each below its name where that stands above it."""
    blocks, top = [], 0.0
    for name, of_scenario in zip(names, lanes):
        top += _NAME if narrow else 0
        blocks.append(_Block(name, top, of_scenario))
        top += len(of_scenario) * _LANE + _GAP
    return blocks


def _end(blocks: Sequence[_Block]) -> float:
    return blocks[-1].top + len(blocks[-1].lanes) * _LANE + _GAP


def _bar(axes: Axes, place: float, lane: _Lane) -> None:
    """Draw a lane in one piece, since figures of many pieces are slow."""
    span = (place - _BAR / 2, _BAR)
    if lane.kind == "claim":
        axes.broken_barh([(0, lane.total)], span, facecolors="none", edgecolors=INK, linestyles=[(0, (3, 2))])
        return
    parts = _parts(lane.sizes)
    colours = [_COLOURS[name] for name in parts]
    alpha = 1 if lane.kind == "measured" else _PALE
    axes.broken_barh(list(parts.values()), span, facecolors=colours, alpha=alpha, linewidth=0)


def _parts(sizes: Mapping[str, Figure | None]) -> dict[str, tuple[float, float]]:
    """Return where each component begins and how long it is, in MiB; what was given back is off the first."""
    known = {name: size.median / MIB for name, size in sizes.items() if size and size.median}
    parts, end = {}, sum(min(size, 0) for size in known.values())
    for name, size in known.items():
        if size > 0:
            left, end = max(end, 0), end + size
            parts[name] = (left, max(end - left, 0))
    return parts


def _label(axes: Axes, place: float, lane: _Lane, memory: str, texts: Texts) -> None:
    label = texts(f"lane_{lane.kind}", size=f"{lane.total:,.{2 if memory == NPU else 1}f}")
    _write(axes, label, (lane.total + lane.spread, place), (6, 0), va="center", fontsize=11)


def _whiskers(axes: Axes, blocks: Sequence[_Block]) -> None:
    """Draw all whiskers in one piece."""
    whiskers = [(lane.total, place, lane.spread) for block in blocks for place, lane in block.places if lane.spread]
    if whiskers:
        totals, places, spreads = zip(*whiskers)
        axes.errorbar(totals, places, xerr=spreads, fmt="none", ecolor=INK, capsize=3, elinewidth=1)


def _names(axes: Axes, blocks: Sequence[_Block], narrow: bool) -> None:
    """Write the names above the blocks, or beside them where there is room."""
    middles = [block.top + len(block.lanes) * _LANE / 2 for block in blocks]
    axes.set_yticks(middles, [""] * len(blocks) if narrow else [block.name for block in blocks])
    axes.tick_params(axis="y", length=0)
    for block in blocks if narrow else ():
        _write(axes, block.name, (0, block.top), (3, 2), va="bottom")


def _write(axes: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **look: Any) -> None:
    """Write within the axes, where there is room: laying the figure out need not look at it, which takes long."""
    axes.annotate(text, place, offset, textcoords="offset points", in_layout=False, **look)


def _scale(axes: Axes, blocks: Sequence[_Block], narrow: bool) -> None:
    """Give each lane its pixels, and room for the words at its end."""
    longest = max(lane.total + lane.spread for block in blocks for lane in block.lanes)
    axes.set_ylim(_end(blocks) - _GAP / 2, -_GAP / 2)
    axes.set_xlim(0, longest * (1.5 if narrow else 1.2))
    axes.grid(axis="y", visible=False)
