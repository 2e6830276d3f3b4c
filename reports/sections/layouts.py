"""Layouts of the same contexts: advice for the one with the least memory, and all as a figure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from reusebench.measured.plan import (
    ADAPTER,
    DUP,
    INPUT,
    INTERNAL,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_CONTEXT,
    SHARED_PROMPT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Plan,
)
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
from reusebench.reports.base.formatting import MIB, mib, percent
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import OTHER_COLOUR, PALETTE
from reusebench.reports.results.model_names import models_in_words
from reusebench.reports.results.recommendation import (
    Recommendation,
    answers_of,
)
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.speed_change import DISTURBED, ONE_REPEAT
from reusebench.storage.savings import NPU, best_percent

#: Percent; layouts that save less are in the tables only.
_LEAST_PERCENT = 5.0
#: Heights in pixels: of a layout's row, of the bar in it, and below the last panel.
_ROW_PX = 21
_BAR_PX = 14
_AXIS_PX = 50
#: Pixels between two panels, for the title of the lower one.
_BETWEEN_PX = 46
_WITHOUT_COLOUR = OTHER_COLOUR
_WITH_COLOUR = PALETTE[0]
_LEAST_COLOUR = PALETTE[2]


def layout_in_words(row: Row, texts: Texts) -> str:
    """Return advice for an application that wants the layout."""
    plan = row.info.plan
    words = [texts(f"do_{name}") for name, is_used in _actions(plan).items() if is_used]
    count = len(row.baseline.info.plan.contexts) if row.baseline else len(plan.contexts)
    if len(plan.contexts) < count:
        words.insert(0, texts("do_fewer", few=len(plan.contexts), many=count))
    return texts.joined(words)


def set_in_words(recommendation: Recommendation, texts: Texts) -> str:
    """Return the contexts that a recommendation is for."""
    row = recommendation.without_reuse
    contexts = len(row.info.plan.contexts)
    if row.schedule:
        streams = row.schedule.count
        return texts("set_streams", streams=streams, contexts=contexts, models=row.models)
    return texts("set_contexts", contexts=contexts, models=row.models)


def memory_in_words(memory: str, texts: Texts) -> str:
    """Return the name of a memory of recommendations."""
    return texts("memory_npu" if memory == NPU else "memory_application")


def speed_in_words(recommendation: Recommendation, texts: Texts, spread: bool = True) -> str:
    """Return the change of speed in a few words, or that it is not known."""
    change = recommendation.speed
    if change is None or change.verdict in (DISTURBED, ONE_REPEAT):
        return texts("answer_speed_unknown")
    return texts(f"answer_is_{change.verdict}", change=percent(abs(change.change_percent), spread))


def layouts_figure(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts, paper: Paper = WIDE
) -> str | None:
    """Draw the memory of the layouts of each answer; None if none saves.

    Panels of the same memory have the same scale.
    """
    shown: list[tuple[str, Recommendation]] = []
    for group, label in zip(groups, labels):
        answers = answers_of(group.rows)
        shown += [(label, answer) for answer in answers if answer.saving]
    if not shown:
        return None
    panels = [_Panel(recommendation, paper, texts) for _, recommendation in shown]
    heights_px = [panel.rows.end_px for panel in panels]
    canvas = new_canvas(sum(heights_px) + _BETWEEN_PX * len(shown) + _AXIS_PX, paper)
    grid = canvas.add_gridspec(len(shown), 1, height_ratios=heights_px)
    panel_px = min(panel.rows.panel_px for panel in panels)
    ends_mib: dict[str, float] = {}
    for panel in panels:
        end_mib = end_with_room(panel.labels, panel_px)
        ends_mib[panel.memory] = max(end_mib, ends_mib.get(panel.memory, 0.0))
    for index, ((label, recommendation), panel) in enumerate(zip(shown, panels)):
        axes = canvas.add_subplot(grid[index])
        panel.draw(axes)
        title = texts(
            "layouts_of",
            group=label,
            memory=memory_in_words(panel.memory, texts),
            models=models_in_words(recommendation.without_reuse.info.models),
        )
        axes.set_title(title)
        axes.set_xlim(0, ends_mib[panel.memory])
    canvas.axes[-1].set_xlabel(texts("axis_memory"))
    legend = [
        patch(texts("layout_without"), _WITHOUT_COLOUR),
        patch(texts("layout_with"), _WITH_COLOUR),
        patch(texts("layout_least"), _LEAST_COLOUR),
    ]
    return svg_of(canvas, legend)


def _actions(plan: Plan) -> Mapping[str, bool]:
    """Return whether the plan does each thing that saves memory; the text `do_NAME` advises it."""
    contexts = plan.contexts
    mechanisms = {context.mechanism for context in contexts}
    in_place = set(itertools.chain(*(context.zero_copy for context in contexts)))
    outside = set(itertools.chain(*(context.outside for context in contexts)))
    if SHARED_WEIGHT_MEMORY in mechanisms:
        # One memory for all weights implies that weights and internal tensors are outside.
        outside = set()
    is_of_conversations = plan.conversation is not None
    return {
        "contexts_over_one_model": DUP in mechanisms and is_of_conversations,
        "sequences": bool({SEQUENCE, SHARED_PROMPT} & mechanisms),
        "unified": any(context.unified_cache for context in contexts),
        "shared_prompt": SHARED_PROMPT in mechanisms,
        "restored_prompt": RESTORED_PROMPT in mechanisms,
        "adapters": ADAPTER in mechanisms,
        "shared_context": SHARED_CONTEXT in mechanisms,
        "dup": DUP in mechanisms and not is_of_conversations,
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


def drawn_layouts(recommendation: Recommendation) -> list[Row]:
    """Return the layout without reuse, then those that save, the least last."""

    def saved_percent(row: Row) -> float:
        return best_percent(row.saving(recommendation.memory))

    saving = []
    for row in recommendation.layouts:
        is_other = row.info.baseline and row is not recommendation.least
        if is_other and saved_percent(row) >= _LEAST_PERCENT:
            saving.append(row)
    saving.sort(key=saved_percent)
    return [recommendation.without_reuse, *saving, recommendation.least]


class _Panel:
    """The layouts of one recommendation: a bar for each."""

    def __init__(self, recommendation: Recommendation, paper: Paper, texts: Texts) -> None:
        self.memory = recommendation.memory
        self.rows = Rows(paper)
        self.labels: list[tuple[str, float, float]] = []
        self._bars: list[tuple[float, float, float]] = []
        self._ends: list[tuple[float, float, float]] = []
        for row in drawn_layouts(recommendation):
            is_first = row is recommendation.without_reuse
            name = texts("answer_before") if is_first else texts.scenario(row.scenario)
            middle = self.rows.add(name, _ROW_PX) + _ROW_PX / 2
            figure = row.memory(self.memory)
            assert figure is not None
            size_mib = figure.median / MIB
            spread_mib = (figure.spread or 0) / MIB
            number = mib(figure, npu=self.memory == NPU, spread=False)
            self._bars.append((0.0, size_mib, middle))
            self._ends.append((size_mib, middle, spread_mib))
            self.labels.append((number, size_mib + spread_mib, middle))

    def draw(self, axes: Axes) -> None:
        """Draw the bars with their spreads, numbers and names."""
        colours = [_WITHOUT_COLOUR, *[_WITH_COLOUR] * (len(self._bars) - 2), _LEAST_COLOUR]
        bars(axes, self._bars, _BAR_PX, facecolors=colours)
        whiskers(axes, self._ends)
        write_labels(axes, self.labels)
        self.rows.draw_names(axes)
