"""Comparison of runtimes with the same contexts: least memory, speed, and equal outputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from reusebench.reports.base.drawing import frontier, line, mark, new_canvas, svg_of
from reusebench.reports.base.formatting import (
    EMPTY,
    MIB,
    mib,
    milliseconds,
    per_second,
    percent,
    share,
)
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.agreement import AGREES, DIFFERS, OTHER_PRECISION, TOLERANCE
from reusebench.reports.results.colours import group_look
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.model_names import models_in_words
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.runtime_comparison import (
    LayoutPoint,
    Member,
    RuntimeComparison,
    runtime_comparison,
)
from reusebench.reports.results.speed_change import rate
from reusebench.reports.sections.layouts import (
    layout_in_words,
    memory_in_words,
    set_in_words,
    speed_in_words,
)
from reusebench.storage.savings import APPLICATION, NPU, SAME, saving_of

#: Height of a panel in pixels.
_PANEL_PX = 340
#: Names of runtimes, by the number of their group.
Names = Mapping[int, str]


def outputs_in_words(difference: float | None, texts: Texts) -> str:
    """Return the words for a relative difference of outputs."""
    if difference is None:
        return texts("outputs_not_compared")
    if difference == 0:
        return texts("outputs_equal")
    key = "outputs_agree" if difference <= TOLERANCE else "outputs_differ"
    return texts(key, difference=share(difference))


def runtime_sentences(
    comparison: RuntimeComparison, labels: Sequence[str], texts: Texts
) -> list[str]:
    """Return the runtime with the least of each memory, the fastest, and whether outputs agree."""
    names = _names(comparison, labels, texts)
    return [
        *_ranking(comparison, names, texts),
        *_disturbed(comparison, names, texts),
        *_outputs(comparison, names, texts),
    ]


def best_runtimes(comparison: RuntimeComparison, labels: Sequence[str], texts: Texts) -> list[str]:
    """Return the contexts that all ran, the two runtimes with the least memory, and how."""
    lines = []
    for memory in (APPLICATION, NPU):
        members = [member for member in comparison.of_memory(memory) if not member.differs]
        if not members:
            continue
        before = members[0].recommendation.without_reuse
        head = texts(
            "best_runtimes" if len(members) > 1 else "best_runtime",
            memory=memory_in_words(memory, texts),
            contexts=len(before.info.plan.contexts),
            models=models_in_words(before.info.models),
            count=len(members),
        )
        lines.append(head)
        lines += [_best_in_words(member, labels, texts) for member in members[:2]]
        least = members[0].least
        if least is not before:
            lines.append(texts("best_layout", layout=layout_in_words(least, texts)))
    return lines


def _best_in_words(member: Member, labels: Sequence[str], texts: Texts) -> str:
    """Return the memory of a runtime at least and without reuse, in one line."""
    recommendation = member.recommendation
    is_npu = member.memory == NPU
    saving = recommendation.saving
    least = mib(member.size, is_npu, spread=False)
    if saving is None:
        return texts("best_of_unchanged", label=labels[member.number], least=least)
    return texts(
        "best_of",
        label=labels[member.number],
        least=least,
        before=mib(saving.whole, is_npu, spread=False),
        percent=percent(saving.percent),
        speed=speed_in_words(recommendation, texts, spread=False),
    )


def compared_in_words(comparison: RuntimeComparison, texts: Texts) -> str:
    """Return the contexts that all runtimes ran, with the names of the reference's model files."""
    first = min(comparison.members, key=lambda member: not member.is_reference)
    return set_in_words(first.recommendation, texts)


def runtimes_table(comparison: RuntimeComparison, labels: Sequence[str], texts: Texts) -> Table:
    """Return a row for each runtime: memory without reuse and at least, speed, and outputs.

    Speed and outputs are left out if nothing computes.
    """
    computes = any(member.least.computes for member in comparison.members)
    lines = []
    for memory in (APPLICATION, NPU):
        for member in comparison.of_memory(memory):
            cells = [labels[member.number], *_cells(member, memory, computes, texts)]
            lines.append((group_id(member.number), cells))
    heads = [
        "column_run_runtime",
        "column_without_reuse",
        "column_set_least",
        "column_saved_percent",
        "column_set_layout",
        "column_set_memory",
    ]
    if computes:
        heads[4:4] = [_rate_key(comparison), "column_latency"]
        heads.append("column_outputs")
        return Table(heads_of(heads, texts), lines, words=(0, -3, -2, -1), exported="comparison")
    return Table(heads_of(heads, texts), lines, words=(0, -2, -1), exported="comparison")


def _cells(member: Member, memory: str, computes: bool, texts: Texts) -> list[str]:
    """Return the cells of a runtime after its label."""
    is_npu = memory == NPU
    least = member.least
    saving = member.recommendation.saving
    cells = [
        mib(member.recommendation.without_reuse.memory(memory), is_npu),
        mib(member.size, is_npu),
        percent(saving.percent) if saving else EMPTY,
    ]
    if computes:
        cells += [per_second(rate(least)), milliseconds(least.latency)]
    cells += [texts.scenario(least.scenario), memory_in_words(memory, texts)]
    if computes:
        cells.append(_outputs_cell(member, texts))
    return cells


def runtimes_figure(
    groups: Sequence[Group], labels: Sequence[str], texts: Texts, paper: Paper = WIDE
) -> str | None:
    """Draw the layouts of all runtimes that ran the same contexts, by memory and speed.

    NPU memory and application memory have a panel each, with a frontier of its own. None if no two
    runtimes ran the same.
    """
    comparison = runtime_comparison(groups)
    if comparison is None:
        return None
    panels = _panels(comparison)
    layouts = itertools.chain(*panels.values())
    members = {layout.member.number: layout.member for layout in layouts}
    if len(members) < 2:
        return None
    names = _names(comparison, labels, texts)
    looks = {number: _look(member) for number, member in sorted(members.items())}
    legend = []
    for number, look in looks.items():
        name = names[number]
        if members[number].differs:
            name = texts("runtimes_differing", runtime=name)
        legend.append(line(name, **look))
    canvas = new_canvas(_PANEL_PX * len(panels), paper)
    for index, (memory, points) in enumerate(panels.items()):
        axes = canvas.add_subplot(len(panels), 1, index + 1)
        for number, look in looks.items():
            own = [point for point in points if point.member.number == number]
            axes.plot(*_places(own), **look)
        best = comparison.frontier(memory)
        if best:
            entry = frontier(axes, *_places(best), texts("fit_frontier"))
            if index == 0:
                legend.append(entry)
            legend += _draw_best(axes, best, names, texts)
        _name_axes(axes, memory, comparison, texts)
    return svg_of(canvas, legend)


def _panels(comparison: RuntimeComparison) -> dict[str, list[LayoutPoint]]:
    """Return the layouts by their memory; without a memory that no layout has."""
    points = {memory: comparison.points(memory) for memory in (APPLICATION, NPU)}
    return {memory: layouts for memory, layouts in points.items() if layouts}


def _name_axes(axes: Axes, memory: str, comparison: RuntimeComparison, texts: Texts) -> None:
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(texts("axis_npu_memory" if memory == NPU else "axis_application_memory"))
    axes.set_ylabel(texts(_rate_key(comparison)))


def _look(member: Member) -> dict[str, Any]:
    """Return the look of a member's points: hollow if its outputs differ."""
    look = group_look(member.number)
    return {
        **look,
        "markerfacecolor": "none" if member.differs else look["color"],
        "linestyle": "none",
    }


def _rate_key(comparison: RuntimeComparison) -> str:
    return "answer_frames" if comparison.is_of_streams else "answer_inferences"


def _draw_best(
    axes: Axes, best: Sequence[LayoutPoint], names: Names, texts: Texts
) -> Iterator[Artist]:
    """Mark the least and the fastest layout of a frontier; yield their entries of the legend."""
    for point, marker, key in (
        (best[0], "D", "runtimes_least_mark"),
        (best[-1], "s", "runtimes_fastest_mark"),
    ):
        (x,), (y,) = _places([point])
        runtime = names[point.member.number]
        name = texts(key, runtime=runtime, scenario=texts.scenario(point.row.scenario))
        yield mark(axes, x, y, marker, name)


def _places(points: Sequence[LayoutPoint]) -> tuple[list[float], list[float]]:
    """Return the coordinates of the points."""
    return [point.size.median / MIB for point in points], [point.rate.median for point in points]


def _names(comparison: RuntimeComparison, labels: Sequence[str], texts: Texts) -> Names:
    """Return the name of each member: its runtime, or its label if several have that runtime."""
    runtimes = [member.group.info.runtime for member in comparison.members]
    names = {}
    for member, runtime in zip(comparison.members, runtimes):
        is_single = runtimes.count(runtime) == 1
        names[member.number] = texts.runtime(runtime) if is_single else labels[member.number]
    return names


def _ranking(comparison: RuntimeComparison, names: Names, texts: Texts) -> Iterator[str]:
    """Yield the runtimes with the least of each memory, then the fastest layout."""
    for memory in (APPLICATION, NPU):
        members = [member for member in comparison.of_memory(memory) if not member.differs]
        if len(members) < 2:
            continue
        yield _least_in_words(members, memory, names, texts)
        best = comparison.frontier(memory)
        if best and best[-1].row is not members[0].least:
            fastest = best[-1]
            yield texts(
                "runtimes_fastest",
                runtime=names[fastest.member.number],
                scenario=texts.scenario(fastest.row.scenario),
                rate=_rate_in_words(fastest.row, fastest.rate, texts),
                size=mib(fastest.size, memory == NPU),
            )


def _least_in_words(members: Sequence[Member], memory: str, names: Names, texts: Texts) -> str:
    """Return the runtimes that need least, and the others; a difference within noise is none."""
    smallest = members[0].size
    first: list[str] = []
    others: list[str] = []
    for member in members:
        saving = saving_of(memory, member.size, smallest)
        is_first = saving is not None and saving.change == SAME
        place = first if is_first else others
        place.append(_named(member, names, texts))
    return texts(
        "answer_needs_least" if others else "answer_need_equal",
        memory=memory_in_words(memory, texts),
        first=texts.joined(first),
        others=texts.joined(others),
    )


def _disturbed(comparison: RuntimeComparison, names: Names, texts: Texts) -> Iterator[str]:
    """Yield the runtimes that other work may have slowed down."""
    disturbed = []
    for member in comparison.members:
        layouts = member.recommendation.layouts
        if any(row.computes and row.is_disturbed for row in layouts):
            disturbed.append(names[member.number])
    if disturbed:
        yield texts("runtimes_disturbed", runtimes=texts.joined(disturbed))


def _named(member: Member, names: Names, texts: Texts) -> str:
    """Return a runtime with the size of its least layout, and its rate if it computes."""
    name = names[member.number]
    size = mib(member.size, member.memory == NPU)
    per_s = rate(member.least)
    if per_s is None:
        return texts("answer_layout", scenario=name, size=size)
    words = _rate_in_words(member.least, per_s, texts)
    return texts("runtimes_size_rate", scenario=name, size=size, rate=words)


def _rate_in_words(row: Row, per_s: Figure, texts: Texts) -> str:
    key = "runtimes_frames" if row.schedule else "runtimes_inferences"
    return texts(key, rate=per_second(per_s))


def _outputs(comparison: RuntimeComparison, names: Names, texts: Texts) -> Iterator[str]:
    """Yield the runtimes whose outputs agree with the reference's, and those that differ."""
    members_by_verdict: dict[str, list[Member]] = {}
    for member in comparison.members:
        if member.agreement:
            members_by_verdict.setdefault(member.agreement.verdict, []).append(member)
    for verdict in (AGREES, DIFFERS, OTHER_PRECISION):
        members = members_by_verdict.get(verdict, [])
        parts = []
        for member in members:
            outputs = _outputs_cell(member, texts)
            parts.append(texts("outputs_of", runtime=names[member.number], outputs=outputs))
        if members and members[0].reference:
            reference = texts.runtime(members[0].reference.info.runtime)
            yield texts(f"runtimes_{verdict}", reference=reference, parts=texts.joined(parts))


def _outputs_cell(member: Member, texts: Texts) -> str:
    """Return the difference of outputs from the reference's."""
    if member.is_reference:
        return texts("outputs_reference")
    if member.agreement is None:
        return texts("outputs_not_compared")
    words = outputs_in_words(member.agreement.difference, texts)
    precision = member.agreement.precision
    if not precision:
        return words
    return texts("outputs_of", runtime=precision, outputs=words)
