"""What each mechanism saves on each runtime: the groups of the page beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from matplotlib.axes import Axes

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.formatting import EMPTY, percent
from reports.base.statistics import Figure
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.results.colours import RUNTIME_COLOURS
from reports.results.labels import group_id
from reports.results.rows import Group, Row
from reports.sections.mechanisms import MECHANISMS, mechanism_row

#: The table has what saves less; a figure with it would be as long as the table.
_LEAST_PERCENT = 1.0
#: Pixels of a bar, between two mechanisms, and of a mechanism's name above its bars.
_BAR, _GAP, _NAME = 17, 12, 16


def savings_table(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Table | None:
    """Return a row for each mechanism that a group was asked for, and a column for each group, so labelled."""
    asked = _asked(groups)
    if not asked:
        return None
    rows = [
        ("ok", [Cell(texts.scenario(name), False), *(Cell(_cell(row, texts)) for row in asked[name])]) for name in asked
    ]
    heads = [_column(group, label, texts) for group, label in zip(groups, labels)]
    return Table([texts("column_mechanism_alone"), *heads], rows, ["", *map(group_id, range(len(groups)))])


def savings_figure(groups: Sequence[Group], texts: Texts) -> Drawing | None:
    """Draw a bar for each mechanism that measurably saves in some group, and each group; None where none does."""
    asked = {name: rows for name, rows in _asked(groups).items() if any(row and _saves(row) for row in rows)}
    if not asked:
        return None
    block = _BAR * len(groups) + _GAP

    def draw(canvas: Canvas, narrow: bool) -> None:
        axes = canvas.add_subplot()
        height = block + (_NAME if narrow else 0)
        for place, (name, rows) in enumerate(asked.items()):
            top = place * height + (height - block)
            if narrow:
                axes.annotate(texts.scenario(name), (0, top), (0, 3), textcoords="offset points", va="bottom")
            for lane, (row, colour) in enumerate(zip(rows, cycle(RUNTIME_COLOURS))):
                _bar(axes, top + (lane + 0.5) * _BAR, row, colour, texts)
        middles = [place * height + (height - block) + _BAR * len(groups) / 2 for place in range(len(asked))]
        axes.set_yticks(middles, [""] * len(asked) if narrow else [texts.scenario(name) for name in asked])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(asked) * height, -_GAP / 2)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.2 if narrow else 0.12)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlabel(texts("axis_saved_percent"))

    return drawing(draw, lambda narrow: (block + (_NAME if narrow else 0)) * len(asked) + 60)


def runtime_colours(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> list[tuple[str, str]]:
    """Return the groups of the figure, so labelled, with their colours."""
    names = [_column(group, label, texts) for group, label in zip(groups, labels)]
    return list(zip(names, cycle(RUNTIME_COLOURS)))


def _asked(groups: Sequence[Group]) -> dict[str, list[Row | None]]:
    """Return the mechanisms that any group was asked for, each with the row of every group."""
    rows = {name: [mechanism_row(group, name) for group in groups] for name in MECHANISMS}
    return {name: of_groups for name, of_groups in rows.items() if any(of_groups)}


def _column(group: Group, label: str, texts: Texts) -> str:
    memory = texts("memory_npu" if group.has_npu_memory else "memory_application")
    return texts("savings_of", group=label, memory=memory)


def _cell(row: Row | None, texts: Texts) -> str:
    if row is None:
        return EMPTY
    return _percent(row.saving_percent) if row.saving_percent else _why_nothing(row, texts)


def _saves(row: Row) -> bool:
    saving = row.saving_percent
    return bool(saving and saving.exceeds_spread and saving.median >= _LEAST_PERCENT)


def _why_nothing(row: Row, texts: Texts) -> str:
    return texts("not_compared") if row.measured else texts(f"outcome_{row.outcome}")


def _percent(figure: Figure) -> str:
    return percent(figure.median) + ("" if figure.spread is None else f" ±{percent(figure.spread)}")


def _bar(axes: Axes, position: float, row: Row | None, colour: str, texts: Texts) -> None:
    """Draw what is saved, or say why there is nothing."""
    figure = row.saving_percent if row else None
    if figure:
        axes.barh(position, figure.median, _BAR - 4, color=colour)
        if figure.spread:
            axes.errorbar(figure.median, position, xerr=figure.spread, color=INK, capsize=3, linewidth=1)
    label = percent(figure.median) if figure else _why_nothing(row, texts) if row else ""
    end = max(0, figure.median + (figure.spread or 0)) if figure else 0
    alpha = 1 if figure else 0.7
    axes.annotate(label, (end, position), (6, 0), textcoords="offset points", va="center", fontsize=11, alpha=alpha)
