"""Layouts of the same contexts: what to do for the one that takes the least memory, and all of them
as a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Plan,
)
from reusebench.reports.base.drawing import (
    bars,
    label,
    named_rows,
    new_canvas,
    patch,
    svg_of,
    whiskers,
)
from reusebench.reports.base.figure_layout import WIDTH_PX
from reusebench.reports.base.formatting import EMPTY, MIB, mib, percent
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.text_width import shortened, text_width
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.recommendation import (
    Recommendation,
    main_recommendation,
    recommendations,
)
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import NPU, best_percent

#: What saves less is in the tables below.
_LEAST_PERCENT = 5.0
#: Pixels of a layout's row, of the bar in it, and below the last panel.
_ROW_PX = 21
_BAR_PX = 14
_AXIS_PX = 50
#: Left of the names of rows, between these and the axes, and right of them.
_AROUND_PX = 24
#: Between two panels: the title of the lower one, and space.
_BETWEEN_PX = 26
_WITHOUT_COLOUR, _WITH_COLOUR, _LEAST_COLOUR = "#808080", "#0072b2", "#009e73"


def layout_in_words(row: Row, texts: Texts) -> str:
    """Return what to do for a layout, one thing after the other, as its plan says."""
    plan = row.info.plan
    words = [texts(f"do_{name}") for name, is_used in _actions(plan).items() if is_used]
    count = len(row.baseline.info.plan.contexts) if row.baseline else len(plan.contexts)
    if len(plan.contexts) < count:
        words.insert(0, texts("do_fewer", few=len(plan.contexts), many=count))
    return texts.joined(words)


def set_in_words(recommendation: Recommendation, texts: Texts) -> str:
    """Return of which contexts a recommendation is."""
    row = recommendation.without_reuse
    values = {"contexts": len(row.info.plan.contexts), "models": row.models}
    schedule = row.schedule
    return (
        texts("set_streams", streams=schedule.count, **values)
        if schedule
        else texts("set_contexts", **values)
    )


def memory_in_words(memory: str, texts: Texts) -> str:
    """Return what a memory that recommendations are of is called."""
    return texts("memory_npu" if memory == NPU else "memory_application")


def recommendations_table(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts
) -> Table | None:
    """Return what each set of contexts takes without reuse and at least; None if there is one
    set alone.
    """
    lines = []
    for number, (group, name) in enumerate(zip(groups, labels)):
        for recommendation in recommendations(group.rows):
            if len(recommendation.layouts) > 1:
                lines.append((group_id(number), [name, *_cells(recommendation, texts)]))
    if len(lines) < 2:
        return None
    heads = (
        "column_run_runtime",
        "column_set",
        "column_set_before",
        "column_set_least",
        "column_saved_percent",
        "column_set_layout",
        "column_set_speed",
        "column_set_memory",
        "column_count",
    )
    return Table(heads_of(heads, texts), lines, words=(0, 1, 5, 6, 7))


def speed_in_words(recommendation: Recommendation, texts: Texts) -> str:
    """Return how much faster or slower the least is, or why that is not known."""
    change = recommendation.speed
    if change is None:
        return texts("speed_of_least_unknown")
    size = percent(abs(change.change_percent), spread=True)
    return texts(f"speed_of_least_{change.verdict}", change=size)


def layouts_figure(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> str | None:
    """Draw the memory of the main contexts of each group, layout by layout; None if none saves
    in any group.

    Panels of the same memory have the same scale.
    """
    shown: dict[str, Recommendation] = {}
    for group, name in zip(groups, labels):
        recommendation = main_recommendation(group.rows)
        if recommendation and recommendation.saving:
            shown[name] = recommendation
    if not shown:
        return None
    of_panels = {name: _rows_of_panel(recommendation) for name, recommendation in shown.items()}
    counts = [len(rows) for rows in of_panels.values()]
    canvas = new_canvas(_ROW_PX * sum(counts) + _BETWEEN_PX * len(shown) + _AXIS_PX)
    grid = canvas.add_gridspec(len(shown), 1, height_ratios=counts)
    names = [texts.scenario(row.scenario) for rows in of_panels.values() for row in rows[1:]]
    title_px = WIDTH_PX - max(map(text_width, names)) - _AROUND_PX
    ends: dict[str, float] = {}
    panels: dict[str, list[Axes]] = {}
    for index, (name, recommendation) in enumerate(shown.items()):
        axes = canvas.add_subplot(grid[index])
        memory = recommendation.memory
        end = _draw_panel(axes, recommendation, of_panels[name], texts)
        title = texts("layouts_of", group=name, memory=memory_in_words(memory, texts))
        axes.set_title(shortened(title, title_px))
        ends[memory] = max(end, ends.get(memory, 0.0))
        panels.setdefault(memory, []).append(axes)
    for memory, of_memory in panels.items():
        for axes in of_memory:
            # Room for the numbers at the ends.
            axes.set_xlim(0, 1.15 * ends[memory])
    canvas.axes[-1].set_xlabel(texts("axis_memory"))
    colours = {"without": _WITHOUT_COLOUR, "with": _WITH_COLOUR, "least": _LEAST_COLOUR}
    return svg_of(
        canvas, [patch(texts(f"layout_{name}"), colour) for name, colour in colours.items()]
    )


def _actions(plan: Plan) -> Mapping[str, bool]:
    """Return what saves memory, each with whether the plan does it; a text `do_NAME` says how."""
    contexts = plan.contexts
    mechanisms = {context.mechanism for context in contexts}
    in_place = {kind for context in contexts for kind in context.zero_copy}
    outside = {kind for context in contexts for kind in context.outside}
    # One memory for all weights needs both outside; that says nothing more.
    outside = set() if SHARED_WEIGHT_MEMORY in mechanisms else outside
    return {
        "shared_context": SHARED_CONTEXT in mechanisms,
        "dup": DUP in mechanisms,
        "shared_weights": SHARED_WEIGHTS in mechanisms,
        "weight_memory": SHARED_WEIGHT_MEMORY in mechanisms,
        "internal": any(len(members) > 1 for members in plan.internal_memories().values()),
        "model_in_place": MODEL in in_place,
        "weights_outside": WEIGHTS in outside,
        "internal_outside": INTERNAL in outside,
        "io_in_place": {INPUT, OUTPUT} <= in_place,
        "input_in_place": INPUT in in_place and OUTPUT not in in_place,
        "output_in_place": OUTPUT in in_place and INPUT not in in_place,
        "native_output": NATIVE_OUTPUT in in_place,
        "shared_tensors": any(len(members) > 1 for members in plan.io_memories().values()),
        "device_io": any(context.device_io for context in contexts),
    }


def _cells(recommendation: Recommendation, texts: Texts) -> list[str]:
    memory = recommendation.memory
    is_npu = recommendation.memory == NPU
    least = recommendation.least
    saving = recommendation.saving
    first = recommendation.layouts[0].baseline or recommendation.layouts[0]
    result = [EMPTY, EMPTY, texts("layout_none"), EMPTY]
    if saving:
        sizes = [mib(least.memory(memory), is_npu), percent(saving.percent, spread=True)]
        result = [*sizes, texts.scenario(least.scenario), speed_in_words(recommendation, texts)]
    return [
        texts.scenario(first.scenario),
        mib(recommendation.without_reuse.memory(memory), is_npu),
        *result,
        memory_in_words(memory, texts),
        str(len(first.info.plan.contexts)),
    ]


def _rows_of_panel(recommendation: Recommendation) -> list[Row]:
    """Return what is without reuse, then the layouts that save, the least last."""
    memory = recommendation.memory
    saving = [
        row
        for row in recommendation.layouts
        if row.info.baseline
        and row is not recommendation.least
        and best_percent(row.saving(memory)) >= _LEAST_PERCENT
    ]
    saving.sort(key=lambda row: best_percent(row.saving(memory)))
    return [recommendation.without_reuse, *saving, recommendation.least]


def _draw_panel(
    axes: Axes, recommendation: Recommendation, rows: Sequence[Row], texts: Texts
) -> float:
    """Draw a bar for each of the rows, and return where the longest ends, in MiB."""
    memory = recommendation.memory
    is_npu = recommendation.memory == NPU
    middles = [(index + 0.5) * _ROW_PX for index in range(len(rows))]
    parts = []
    ends = []
    for row, middle in zip(rows, middles):
        figure = row.memory(memory)
        assert figure is not None
        size = figure.median / MIB
        spread = (figure.spread or 0) / MIB
        parts.append((0.0, size, middle))
        ends.append((size, middle, spread))
        label(axes, mib(figure, is_npu, spread=False), size + spread, middle)
    colours = [_WITHOUT_COLOUR, *[_WITH_COLOUR] * (len(rows) - 2), _LEAST_COLOUR]
    bars(axes, parts, _BAR_PX, facecolors=colours)
    whiskers(axes, ends)
    names = [texts("answer_before"), *(texts.scenario(row.scenario) for row in rows[1:])]
    named_rows(axes, names, middles, len(rows) * _ROW_PX)
    return max(size + spread for size, _, spread in ends)
