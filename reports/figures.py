"""The figures of memory: whole, and by component."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from reports.colours import COMPONENT_COLOURS, OTHER_COLOUR, PART_COLOURS
from reports.comparison import Row
from reports.drawing import INK, Canvas, Drawing, drawing
from reports.npu import component_memory
from reports.parts import application_parts
from reports.summary import Figure
from reports.texts import Texts

__all__ = ["bars", "component_bars"]

MIB = 2**20
_WIDE_BAR, _NARROW_BAR = 0.6, 0.44


def bars(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the application memory of each scenario: the do-nothing baseline, and by part what stands over it."""
    found = {row: parts for row in rows if (parts := application_parts(row))}

    def draw_bar(axes: Axes, position: int, row: Row, height: float) -> None:
        parts = found[row]
        over = {name: figure.median / MIB for name, figure in parts.over.items()}
        # What the kernel does not tell apart is one part, and a part that became smaller is off the baseline.
        over = over or {"": (parts.total.median - parts.baseline.median) / MIB}
        left = parts.baseline.median / MIB + sum(min(size, 0) for size in over.values())
        axes.barh(position, left, height, color=INK, alpha=0.3)
        for name, size in over.items():
            axes.barh(position, max(size, 0), height, left=left, color=PART_COLOURS.get(name, OTHER_COLOUR))
            left += max(size, 0)
        _total(axes, position, parts.total, f"{parts.total.median / MIB:,.1f}")

    return _bars(list(found), texts, "axis_application_memory", draw_bar)


def component_bars(rows: Sequence[Row], texts: Texts) -> Drawing | None:
    """Draw the NPU memory of each scenario by component."""
    accounts = {row: account for row in rows if (account := component_memory(row))}

    def draw_bar(axes: Axes, position: int, row: Row, height: float) -> None:
        account, left = accounts[row], 0.0
        for component, size in account.sizes.items():
            width = size.median / MIB if size else 0.0
            axes.barh(position, width, height, left=left, color=COMPONENT_COLOURS[component])
            left += width
        if account.total:
            _total(axes, position, account.total, f"{account.total.median / MIB:,.2f}")

    return _bars(list(accounts), texts, "axis_npu_memory", draw_bar)


def _bars(
    rows: Sequence[Row], texts: Texts, axis: str, draw_bar: Callable[[Axes, int, Row, float], None]
) -> Drawing | None:
    """Draw a bar for each row, named beside it where there is room, else above it."""
    if not rows:
        return None
    names = [texts.scenario(row.scenario) for row in rows]

    def draw(canvas: Canvas, narrow: bool) -> None:
        axes = canvas.add_subplot()
        height = _NARROW_BAR if narrow else _WIDE_BAR
        for position, row in enumerate(rows):
            draw_bar(axes, position, row, height)
            if narrow:
                place = (0, position - height / 2)
                axes.annotate(names[position], place, (3, 3), textcoords="offset points", va="bottom")
        axes.set_yticks(range(len(rows)), [""] * len(rows) if narrow else names)
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.16 if not narrow else 0.22)
        axes.set_xlim(left=0)
        axes.set_xlabel(texts(axis))

    return drawing(draw, lambda narrow: (60 if narrow else 46) * len(rows) + 60)


def _total(axes: Axes, position: int, total: Figure, label: str) -> None:
    """Write the total at the end of a bar, after the whisker of its spread."""
    if total.spread:
        axes.errorbar(total.median / MIB, position, xerr=total.spread / MIB, color=INK, capsize=3, linewidth=1)
    end = (total.median + (total.spread or 0)) / MIB
    axes.annotate(label, (end, position), (6, 0), textcoords="offset points", va="center")
