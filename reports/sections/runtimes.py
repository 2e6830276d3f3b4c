"""Runtimes beside each other, with the same contexts: which needs least, at which speed, and
whether outputs agree.
"""

from __future__ import annotations

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
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.agreement import AGREES, DIFFERS, OTHER_PRECISION, TOLERANCE
from reusebench.reports.results.colours import RUNTIME_COLOURS, RUNTIME_MARKERS
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.runtime_comparison import (
    LayoutPoint,
    Member,
    RuntimeComparison,
    runtime_comparison,
)
from reusebench.reports.results.savings import APPLICATION, NPU, SAME, saving_of
from reusebench.reports.results.speed_change import rate
from reusebench.reports.sections.layouts import memory_in_words, set_in_words

#: Pixels of a panel, and of a point.
_PANEL_PX = 340
_POINT_PX = 6
#: What runtimes are called, by the number of their group.
Names = Mapping[int, str]


def outputs_in_words(difference: float | None, texts: Texts) -> str:
    """Return what a relative difference of outputs comes to."""
    if difference is None:
        return texts("outputs_not_compared")
    if difference == 0:
        return texts("outputs_equal")
    return texts(
        "outputs_agree" if difference <= TOLERANCE else "outputs_differ",
        difference=share(difference),
    )


def runtime_sentences(
    comparison: RuntimeComparison, labels: Sequence[str], texts: Texts
) -> list[str]:
    """Return which needs least of each memory, which is the fastest, and whether outputs agree."""
    names = _names(comparison, labels, texts)
    return [
        sentence
        for part in (_ranking, _disturbed, _outputs)
        for sentence in part(comparison, names, texts)
    ]


def compared_in_words(comparison: RuntimeComparison, texts: Texts) -> str:
    """Return which contexts all of them ran, with the models as the reference's files are
    called.
    """
    first = min(comparison.members, key=lambda member: not member.is_reference)
    return set_in_words(first.recommendation, texts)


def runtimes_table(comparison: RuntimeComparison, labels: Sequence[str], texts: Texts) -> Table:
    """Return a row for each runtime: what it takes without reuse and at least, how fast it is then,
    its outputs.

    Speed and outputs are left out where nothing computes.
    """
    lines = []
    computes = any(member.least.computes for member in comparison.members)
    for memory in (APPLICATION, NPU):
        for member in comparison.of_memory(memory):
            saving = member.recommendation.saving
            is_npu = memory == NPU
            sizes = [
                mib(member.recommendation.without_reuse.memory(memory), is_npu),
                mib(member.size, is_npu),
                percent(saving.percent) if saving else EMPTY,
            ]
            speed = (
                [per_second(rate(member.least)), milliseconds(member.least.latency)]
                if computes
                else []
            )
            layout = [texts.scenario(member.least.scenario), memory_in_words(memory, texts)]
            outputs = [_outputs_cell(member, texts)] if computes else []
            lines.append(
                (
                    group_id(member.number),
                    [labels[member.number], *sizes, *speed, *layout, *outputs],
                )
            )
    heads = (
        "column_run_runtime",
        "column_without_reuse",
        "column_set_least",
        "column_saved_percent",
        *((_rate_key(comparison), "column_latency") if computes else ()),
        "column_set_layout",
        "column_set_memory",
        *(("column_outputs",) if computes else ()),
    )
    return Table(heads_of(heads, texts), lines, words=(0, -3, -2, -1) if computes else (0, -2, -1))


def runtimes_figure(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> str | None:
    """Draw every layout of every runtime that ran the same contexts, by memory and speed; None
    where no two did.

    NPU memory and application memory have a panel each, with a frontier of its own.
    """
    comparison = runtime_comparison(groups)
    if comparison is None:
        return None
    panels = {
        memory: points for memory in (APPLICATION, NPU) if (points := comparison.points(memory))
    }
    drawn = {point.member.number: point.member for points in panels.values() for point in points}
    if len(drawn) < 2:
        return None
    names = _names(comparison, labels, texts)
    looks = {number: _look(member) for number, member in sorted(drawn.items())}
    legend = []
    for number, look in looks.items():
        name = (
            texts("runtimes_differing", runtime=names[number])
            if drawn[number].differs
            else names[number]
        )
        legend.append(line(name, _colour(number), **look))
    canvas = new_canvas(_PANEL_PX * len(panels))
    for index, (memory, points) in enumerate(panels.items()):
        axes = canvas.add_subplot(len(panels), 1, index + 1)
        for number, look in looks.items():
            own = [point for point in points if point.member.number == number]
            axes.plot(*_places(own), color=_colour(number), **look)
        best = comparison.frontier(memory)
        if best:
            entry = frontier(axes, *_places(best), texts("fit_frontier"))
            legend += [*([] if index else [entry]), *_draw_best(axes, best, names, texts)]
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(texts("axis_npu_memory" if memory == NPU else "axis_application_memory"))
        axes.set_ylabel(texts(_rate_key(comparison)))
    return svg_of(canvas, legend)


def _look(member: Member) -> dict[str, Any]:
    """Return how the points of a member look: hollow where its outputs are others."""
    return {
        "marker": RUNTIME_MARKERS[member.number % len(RUNTIME_MARKERS)],
        "markerfacecolor": "none" if member.differs else _colour(member.number),
        "markersize": _POINT_PX,
        "linestyle": "none",
    }


def _rate_key(comparison: RuntimeComparison) -> str:
    return "answer_frames" if comparison.is_of_streams else "answer_inferences"


def _colour(number: int) -> str:
    return RUNTIME_COLOURS[number % len(RUNTIME_COLOURS)]


def _draw_best(
    axes: Axes, best: Sequence[LayoutPoint], names: Names, texts: Texts
) -> Iterator[Artist]:
    """Draw marks at the least and the fastest of a frontier; yield the entries of the legend, which
    name them.
    """
    for point, marker, key in (
        (best[0], "D", "runtimes_least_mark"),
        (best[-1], "s", "runtimes_fastest_mark"),
    ):
        (x,), (y,) = _places([point])
        layout = {
            "runtime": names[point.member.number],
            "scenario": texts.scenario(point.row.scenario),
        }
        yield mark(axes, x, y, marker, texts(key, **layout))


def _places(points: Sequence[LayoutPoint]) -> tuple[list[float], list[float]]:
    """Return the points as matplotlib takes them."""
    return [point.size.median / MIB for point in points], [point.rate.median for point in points]


def _names(comparison: RuntimeComparison, labels: Sequence[str], texts: Texts) -> Names:
    """Return what each member is called, by its number: its runtime alone where no other is of
    that, else its label.
    """
    runtimes = [member.group.info.runtime for member in comparison.members]
    return {
        member.number: (
            texts.runtime(runtime) if runtimes.count(runtime) == 1 else labels[member.number]
        )
        for member, runtime in zip(comparison.members, runtimes)
    }


def _ranking(comparison: RuntimeComparison, names: Names, texts: Texts) -> Iterator[str]:
    """Yield, of each memory, which runtime needs least, those that differ from it by noise alone
    besides.
    """
    for memory in (APPLICATION, NPU):
        known = [member for member in comparison.of_memory(memory) if not member.differs]
        if len(known) < 2:
            continue
        smallest = known[0].size
        first: list[str] = []
        others: list[str] = []
        for member in known:
            saving = saving_of(memory, member.size, smallest)
            place = first if saving and saving.change == SAME else others
            place.append(_named(member, names, texts))
        key = "answer_needs_least" if others else "answer_need_equal"
        values = {"first": texts.joined(first), "others": texts.joined(others)}
        yield texts(key, memory=memory_in_words(memory, texts), **values)
        best = comparison.frontier(memory)
        if best and best[-1].row is not known[0].least:
            fastest = best[-1]
            yield texts(
                "runtimes_fastest",
                runtime=names[fastest.member.number],
                scenario=texts.scenario(fastest.row.scenario),
                rate=_rate_in_words(fastest.row, fastest.rate, texts),
                size=mib(fastest.size, memory == NPU),
            )


def _disturbed(comparison: RuntimeComparison, names: Names, texts: Texts) -> Iterator[str]:
    """Yield whose speed other work may have slowed down."""
    disturbed = [names[member.number] for member in comparison.members if _is_disturbed(member)]
    if disturbed:
        yield texts("runtimes_disturbed", runtimes=texts.joined(disturbed))


def _is_disturbed(member: Member) -> bool:
    return any(row.computes and row.is_disturbed for row in member.recommendation.layouts)


def _named(member: Member, names: Names, texts: Texts) -> str:
    """Return a runtime with what its least layout takes, and how fast that is where it computes."""
    size = mib(member.size, member.memory == NPU)
    per_s = rate(member.least)
    values = {"scenario": names[member.number], "size": size}
    if per_s is None:
        return texts("answer_layout", **values)
    return texts("runtimes_size_rate", rate=_rate_in_words(member.least, per_s, texts), **values)


def _rate_in_words(row: Row, per_s: Figure, texts: Texts) -> str:
    return texts(
        "runtimes_frames" if row.schedule else "runtimes_inferences", rate=per_second(per_s)
    )


def _outputs(comparison: RuntimeComparison, names: Names, texts: Texts) -> Iterator[str]:
    """Yield whose outputs agree with the reference's, and whose do not, and by how much."""
    of_verdicts: dict[str, list[Member]] = {}
    for member in comparison.members:
        if member.agreement:
            of_verdicts.setdefault(member.agreement.verdict, []).append(member)
    for verdict in (AGREES, DIFFERS, OTHER_PRECISION):
        members = of_verdicts.get(verdict, [])
        parts = [
            texts("outputs_of", runtime=names[member.number], outputs=_outputs_cell(member, texts))
            for member in members
        ]
        if members and members[0].reference:
            reference = texts.runtime(members[0].reference.info.runtime)
            yield texts(f"runtimes_{verdict}", reference=reference, parts=texts.joined(parts))


def _outputs_cell(member: Member, texts: Texts) -> str:
    """Return how far the outputs are the reference's."""
    if member.is_reference:
        return texts("outputs_reference")
    if member.agreement is None:
        return texts("outputs_not_compared")
    words = outputs_in_words(member.agreement.difference, texts)
    precision = member.agreement.precision
    return texts("outputs_of", runtime=precision, outputs=words) if precision else words
