"""Answers of `reusebench fit`: memory against frames of every layout, and the recommended one.

Those about conversations are in reports.sections.fit_sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle

from matplotlib.ticker import MaxNLocator

from reusebench.reports.base.drawing import INK, Draw, frontier, line, mark, new_canvas, svg_of
from reusebench.reports.base.formatting import MIB, mib, per_second, plain, whole
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import PALETTE
from reusebench.reports.sections.code import CodeBlock, code_of
from reusebench.reports.sections.fit_sessions import conversations_summary, conversations_values
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.shared.shortage import short_row
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPoint
from reusebench.storage.group_charge import charge_words
from reusebench.storage.result import BUSY_PERCENT

__all__ = ["fit_figure", "fit_sentences", "fit_title", "frontier_table"]

_HEIGHT_PX = 340
_POINT = 3.5


class FitSection(Section):
    """The answers of `reusebench fit`."""

    name = "what_fits"

    def applies(self, page: Page) -> bool:
        """Whether the storages hold any answer."""
        return bool(page.material.fits or page.material.session_fits)

    def summary(self, page: Page) -> str:
        """Return the memory and the layout of each answer."""
        texts = page.texts
        parts = []
        for answer in page.material.fits:
            if answer.best:
                layout = _layout(answer.best, answer, texts)
                parts.append(texts("fit_best", size=_size(answer.best, answer), layout=layout))
        parts += [conversations_summary(answer, texts) for answer in page.material.session_fits]
        return texts.sentences(parts)

    def values(self, page: Page) -> Values:
        """Return each answer with its layouts and the program of the recommended one."""
        answers = []
        for number, answer in enumerate(page.material.fits):
            values = {
                "title": fit_title(answer, page.texts),
                "sentences": fit_sentences(answer, page.texts),
                "figure": _figure_name(number),
                "table": frontier_table(answer, page.texts),
                "code": _code(answer, page.texts),
            }
            answers.append(values)
        conversations = [
            conversations_values(answer, page.texts) for answer in page.material.session_fits
        ]
        return {"answers": answers, "conversations": conversations}

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return a figure for each answer."""
        return {
            _figure_name(number): partial(fit_figure, answer, page.texts)
            for number, answer in enumerate(page.material.fits)
        }


def fit_title(answer: FitAnswer, texts: Texts) -> str:
    """Return the subject of an answer: runtime, chip or target, and models."""
    return texts(
        "fit_title",
        runtime=texts.runtime(answer.runtime),
        target=answer.target if answer.chip is None else answer.chip,
        models=texts.joined(answer.models),
    )


def fit_sentences(answer: FitAnswer, texts: Texts) -> list[str]:
    """Return the memory of today's and of the best layout, and whether that fits."""
    today = texts(
        "fit_today",
        contexts=answer.today.contexts,
        size=_size(answer.today, answer),
        memory=texts(f"fit_of_{answer.limit_of}"),
    )
    sentences = [today]
    best = answer.best
    if best is None:
        sentences.append(texts("fit_no_frames", fps=plain(answer.fps or 0.0)))
    else:
        layout = _layout(best, answer, texts)
        sentences.append(texts("fit_best", size=_size(best, answer), layout=layout))
        if answer.limit_bytes is not None:
            sentences.append(_judgement(answer, best, answer.limit_bytes, texts))
        sentences.append(_frames(answer, best, texts))
    if answer.patches:
        sentences.append(_patches(answer, texts))
    if answer.today.frames_per_s is not None and answer.busy_percent > BUSY_PERCENT:
        sentences.append(texts("fit_busy", percent=whole(answer.busy_percent)))
    if answer.applied:
        layout = _layout(answer.applied, answer, texts)
        sentences.append(texts("fit_applied", size=_size(answer.applied, answer), layout=layout))
    charge = charge_words([answer.charge])
    if charge:
        sentences.append(texts("fit_charge", charge=texts.message(charge)))
    if answer.short:
        plans = [short_row(shortage.plan, shortage.signs, texts) for shortage in answer.short]
        sentences.append(texts("fit_short", plans="; ".join(plans)))
    return sentences


def frontier_table(answer: FitAnswer, texts: Texts) -> Table:
    """Return the layouts that no other layout is better than, by memory."""
    has_frames = answer.today.frames_per_s is not None
    rows = []
    for point in answer.frontier:
        cells = [_layout(point, answer, texts), _size(point, answer)]
        if has_frames:
            cells.append(_per_s(point))
        else:
            cells += [str(point.contexts), str(point.lanes)]
        rows.append(("", cells))
    keys = ["fit_frames"] if has_frames else ["fit_contexts", "fit_at_once"]
    return Table(heads_of(["fit_layout", "fit_memory", *keys], texts), rows)


def fit_figure(answer: FitAnswer, texts: Texts, paper: Paper = WIDE) -> str:
    """Draw every layout as a point of memory and frames, or of memory and contexts."""
    canvas = new_canvas(_HEIGHT_PX, paper)
    axes = canvas.add_subplot()
    has_frames = answer.today.frames_per_s is not None
    legend = []
    lane_counts = sorted({point.lanes for point in answer.points})
    for lanes, colour in zip(lane_counts, cycle(PALETTE)):
        points = [point for point in answer.points if point.lanes == lanes]
        x, y = _places(points)
        axes.plot(x, y, "o", color=colour, markersize=_POINT, alpha=0.5, markeredgewidth=0)
        name = texts("fit_lanes", lanes=lanes)
        legend.append(line(name, colour, marker="o", markersize=2 * _POINT, linestyle="none"))
    if has_frames:
        legend.append(frontier(axes, *_places(answer.frontier), texts("fit_frontier")))
    for marked, marker, key in (
        (answer.today, "s", "fit_today_mark"),
        (answer.best, "D", "fit_best_mark"),
    ):
        if marked is not None:
            (size_mib,), (amount,) = _places([marked])
            legend.append(mark(axes, size_mib, amount, marker, texts(key)))
    if answer.limit_bytes is not None:
        axes.axvline(answer.limit_bytes / MIB, color=INK, linestyle="--", linewidth=1)
        legend.append(line(texts("fit_limit_mark"), INK, linestyle="--", linewidth=1))
    if not has_frames:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    is_npu = answer.limit_of == "npu_memory"
    axes.set_xlabel(texts("axis_npu_memory" if is_npu else "axis_application_memory"))
    axes.set_ylabel(texts("fit_frames" if has_frames else "fit_contexts"))
    return svg_of(canvas, legend)


def _figure_name(number: int) -> str:
    return f"fit-{number}"


def _code(answer: FitAnswer, texts: Texts) -> CodeBlock | None:
    """Return the program of the recommended layout; None if there is none."""
    if answer.recommended is None:
        return None
    subject = {"group": fit_title(answer, texts), "scenario": texts("fit_recommended_layout")}
    return code_of(answer.recommended, answer.chip, subject, texts)


def _places(points: Sequence[FitPoint]) -> tuple[list[float], list[float]]:
    """Return MiB, and frames a second; contexts in place of unknown frames."""
    sizes_mib = []
    amounts: list[float] = []
    for point in points:
        sizes_mib.append(point.bytes / MIB)
        amounts.append(point.contexts if point.frames_per_s is None else point.frames_per_s)
    return sizes_mib, amounts


def _judgement(answer: FitAnswer, best: FitPoint, limit_bytes: float, texts: Texts) -> str:
    """Return whether the best layout fits, and the bytes that are left or missing."""
    is_npu = answer.limit_of == "npu_memory"
    margin_bytes = limit_bytes - best.limited_bytes
    return texts(
        "fit_fits" if margin_bytes >= 0 else "fit_does_not_fit",
        limit=mib(Figure(limit_bytes), npu=is_npu),
        margin=mib(Figure(abs(margin_bytes)), npu=is_npu),
    )


def _frames(answer: FitAnswer, best: FitPoint, texts: Texts) -> str:
    if best.frames_per_s is None or answer.today.frames_per_s is None:
        return texts("fit_frames_unknown", lanes=best.lanes)
    return texts("fit_frames_kept", frames=_per_s(best), today=_per_s(answer.today))


def _patches(answer: FitAnswer, texts: Texts) -> str:
    """Return the memory of the recommended contexts with drivers that nobody has yet."""
    parts = []
    for patch in answer.patches:
        size = mib(Figure(patch.npu_memory_bytes), npu=True)
        parts.append(texts("fit_patch_of", open_files=patch.open_files, size=size))
    return texts("fit_patch", driver=answer.patches[0].driver, parts=texts.joined(parts))


def _per_s(point: FitPoint) -> str:
    return per_second(Figure(point.frames_per_s or 0.0, point.frames_per_s_plus_minus))


def _size(point: FitPoint, answer: FitAnswer) -> str:
    figure = Figure(point.bytes, point.plus_minus_bytes or None)
    return mib(figure, npu=answer.limit_of == "npu_memory")


def _layout(point: FitPoint, answer: FitAnswer, texts: Texts) -> str:
    groups = [_group(group, answer, texts) for group in point.layout]
    return texts("fit_groups_separator").join(groups)


def _group(group: FitGroup, answer: FitAnswer, texts: Texts) -> str:
    words = texts("fit_words_separator").join(map(texts.message, group.words))
    if len(answer.models) < 2:
        return words
    return texts("fit_group", model=group.model, words=words)
