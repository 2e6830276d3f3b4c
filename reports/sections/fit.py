"""What `reusebench fit` answered: memory against frames of every layout, the frontier, the
recommended layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle

from matplotlib.artist import Artist
from matplotlib.ticker import MaxNLocator

from reusebench.reports.base.drawing import INK, Draw, frontier, line, mark, new_canvas, svg_of
from reusebench.reports.base.formatting import MIB, mib, per_second, plain
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import RUNTIME_COLOURS
from reusebench.reports.sections.code import CodeBlock, code_of
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.shared.shortage import short_row
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPoint

__all__ = ["fit_figure", "fit_sentences", "fit_title", "frontier_table"]

_HEIGHT_PX = 340
_POINT = 3.5


class FitSection(Section):
    """The answers of `reusebench fit`."""

    name = "what_fits"
    opens_page = True

    def applies(self, page: Page) -> bool:
        """Whether the storages hold any answer."""
        return bool(page.material.fits)

    def values(self, page: Page) -> Values:
        """Return each answer with its frontier and the program of its layout."""
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
        return {"answers": answers}

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return a figure for each answer."""
        return {
            _figure_name(number): partial(fit_figure, answer, page.texts)
            for number, answer in enumerate(page.material.fits)
        }


def _figure_name(number: int) -> str:
    return f"fit-{number}"


def _code(answer: FitAnswer, texts: Texts) -> CodeBlock | None:
    """Return the program of the recommended layout; None if there is none."""
    if answer.recommended is None:
        return None
    subject = {"group": fit_title(answer, texts), "scenario": texts("fit_recommended_layout")}
    return code_of(answer.recommended, answer.chip, subject, texts)


def fit_title(answer: FitAnswer, texts: Texts) -> str:
    """Return what the answer is of."""
    where = answer.target if answer.chip is None else answer.chip
    return texts(
        "fit_title",
        runtime=texts.runtime(answer.runtime),
        target=where,
        models=texts.joined(answer.models),
    )


def fit_sentences(answer: FitAnswer, texts: Texts) -> list[str]:
    """Return the answer in words: what it takes today, what it can take, and whether that fits."""
    short = _short(answer, texts)
    memory = texts(f"fit_of_{answer.limit_of}")
    today = texts(
        "fit_today", contexts=answer.today.contexts, size=_size(answer.today, answer), memory=memory
    )
    best = answer.best
    if best is None:
        return [today, texts("fit_no_frames", fps=plain(answer.fps or 0.0)), *short]
    words = texts("fit_best", size=_size(best, answer), layout=_layout(best, answer, texts))
    return [today, words, *_judgement(answer, best, texts), *_frames(answer, best, texts), *short]


def frontier_table(answer: FitAnswer, texts: Texts) -> Table:
    """Return the layouts that no other one is better than, by memory."""
    has_frames = answer.today.frames_per_s is not None
    keys = ["fit_frames"] if has_frames else ["fit_contexts", "fit_at_once"]
    rows = []
    for point in answer.frontier:
        does = [_per_s(point)] if has_frames else [str(point.contexts), str(point.lanes)]
        rows.append(("", [_layout(point, answer, texts), _size(point, answer), *does]))
    return Table(heads_of(["fit_layout", "fit_memory", *keys], texts), rows)


def fit_figure(answer: FitAnswer, texts: Texts) -> str:
    """Draw every layout as a point of memory and frames; of memory and contexts where frames are
    not known.
    """
    canvas = new_canvas(_HEIGHT_PX)
    axes = canvas.add_subplot()
    has_frames = answer.today.frames_per_s is not None
    colours = dict(zip(sorted({point.lanes for point in answer.points}), cycle(RUNTIME_COLOURS)))
    for lanes, colour in colours.items():
        points = [point for point in answer.points if point.lanes == lanes]
        axes.plot(
            *_places(points), "o", color=colour, markersize=_POINT, alpha=0.5, markeredgewidth=0
        )
    legend = [_entry(texts, lanes, colour) for lanes, colour in colours.items()]
    if has_frames:
        legend.append(frontier(axes, *_places(answer.frontier), texts("fit_frontier")))
    for point, marker, key in (
        (answer.today, "s", "fit_today_mark"),
        (answer.best, "D", "fit_best_mark"),
    ):
        if point is not None:
            (x,), (y,) = _places([point])
            legend.append(mark(axes, x, y, marker, texts(key)))
    if answer.limit_bytes is not None:
        axes.axvline(answer.limit_bytes / MIB, color=INK, linestyle="--", linewidth=1)
        legend.append(line(texts("fit_limit_mark"), INK, linestyle="--", linewidth=1))
    if not has_frames:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(
        texts("axis_npu_memory" if answer.limit_of == "npu_memory" else "axis_application_memory")
    )
    axes.set_ylabel(texts("fit_frames" if has_frames else "fit_contexts"))
    return svg_of(canvas, legend)


def _places(points: Sequence[FitPoint]) -> tuple[list[float], list[float]]:
    """Return the points as matplotlib takes them."""
    amounts = [
        point.contexts if point.frames_per_s is None else point.frames_per_s for point in points
    ]
    return [point.bytes / MIB for point in points], amounts


def _entry(texts: Texts, lanes: int, colour: str) -> Artist:
    return line(
        texts("fit_lanes", lanes=lanes), colour, marker="o", markersize=2 * _POINT, linestyle="none"
    )


def _judgement(answer: FitAnswer, best: FitPoint, texts: Texts) -> list[str]:
    if answer.limit_bytes is None:
        return []
    margin = answer.limit_bytes - best.limited_bytes
    key = "fit_fits" if margin >= 0 else "fit_does_not_fit"
    sizes = {"limit": answer.limit_bytes, "margin": abs(margin)}
    is_npu = answer.limit_of == "npu_memory"
    return [texts(key, **{name: mib(Figure(size), npu=is_npu) for name, size in sizes.items()})]


def _short(answer: FitAnswer, texts: Texts) -> list[str]:
    plans = [short_row(one.plan, one.signs, texts) for one in answer.short]
    return [texts("fit_short", plans="; ".join(plans))] if plans else []


def _frames(answer: FitAnswer, best: FitPoint, texts: Texts) -> list[str]:
    if best.frames_per_s is None or answer.today.frames_per_s is None:
        return [texts("fit_frames_unknown", lanes=best.lanes)]
    return [texts("fit_frames_kept", frames=_per_s(best), today=_per_s(answer.today))]


def _per_s(point: FitPoint) -> str:
    return per_second(Figure(point.frames_per_s or 0.0, point.frames_per_s_plus_minus))


def _size(point: FitPoint, answer: FitAnswer) -> str:
    return mib(
        Figure(point.bytes, point.plus_minus_bytes or None), npu=answer.limit_of == "npu_memory"
    )


def _layout(point: FitPoint, answer: FitAnswer, texts: Texts) -> str:
    return texts("fit_groups_separator").join(
        _group(group, answer, texts) for group in point.layout
    )


def _group(group: FitGroup, answer: FitAnswer, texts: Texts) -> str:
    words = texts("fit_words_separator").join(map(texts.message, group.words))
    return texts("fit_group", model=group.model, words=words) if len(answer.models) > 1 else words
