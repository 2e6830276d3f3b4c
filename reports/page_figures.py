"""The figures of a page: which there are, each drawn once for all languages, side by side on the machine's CPUs."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Optional

from reports.comparison import Group, Row
from reports.contexts_figure import contexts, npu_contexts
from reports.drawing import Drawing
from reports.explanation_figure import explanation_figure
from reports.io_figure import copies_figure
from reports.labels import group_id, labels
from reports.languages import FigureTexts
from reports.programs import RecordedProgram
from reports.programs_figure import programs_figure
from reports.resolutions_figure import resolutions_figure
from reports.savings import savings_figure
from reports.speed_figure import speed_figure
from reports.texts import LANGUAGES, Texts, texts_of
from reports.timeline import timeline

__all__ = ["PROGRAMS", "SAVINGS", "DrawnFigure", "drawn_rows", "figures_of", "file_names"]

#: The figure that opens the page.
SAVINGS = "savings"
PROGRAMS = "programs"
_Draw = Callable[[Texts], Optional[Drawing]]
#: What the processes that draw have in common with the one that asks: they are forked, so it need not be sent.
_jobs: dict[str, _Draw] = {}


@dataclass(frozen=True)
class DrawnFigure:
    """A figure in the first language, and what the other languages say in place of each of its texts."""

    drawing: Drawing
    said: Mapping[str, Mapping[str, str]]


def figures_of(groups: Sequence[Group], programs: Sequence[RecordedProgram] = ()) -> dict[str, DrawnFigure]:
    """Return every figure that there is something to draw for, by its name."""
    _jobs.clear()
    _jobs[SAVINGS] = partial(savings_figure, groups)
    for number, group in enumerate(groups):
        _jobs.update({f"{group_id(number)}-{name}": draw for name, draw in _of_group(group).items()})
    _jobs[PROGRAMS] = partial(programs_figure, programs)
    # What the processes share stays shared: a collection would write into every object.
    gc.freeze()
    workers = min(len(_jobs), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        drawn = zip(_jobs, pool.map(_draw, _jobs))
        return {name: figure for name, figure in drawn if figure is not None}


def file_names(groups: Sequence[Group], names: Iterable[str]) -> dict[str, str]:
    """Return, by the name of each figure, that of its file, which names the group in English."""
    words = dict(zip(map(group_id, range(len(groups))), labels(groups, texts_of(LANGUAGES[0]))))
    split = {name: name.partition("-") for name in names}
    return {name: f"{words.get(group, group)}{dash}{rest}" for name, (group, dash, rest) in split.items()}


def drawn_rows(group: Group) -> list[Row]:
    """Return the rows of the figures of a whole group: lines of more scenarios could not be told apart."""
    asked = next((rows for rows in group.questions.values() if any(row.measured for row in rows)), [])
    return [row for row in asked if not row.is_variant] or asked


def _draw(name: str) -> DrawnFigure | None:
    texts = FigureTexts.new()
    drawing = _jobs[name](texts)
    return DrawnFigure(drawing, texts.said) if drawing else None


def _of_group(group: Group) -> dict[str, _Draw]:
    rows = drawn_rows(group)
    jobs: dict[str, _Draw] = {
        "timeline": partial(timeline, rows),
        "npu_contexts": partial(npu_contexts, rows),
        "speed": partial(speed_figure, group),
    }
    if group.computes:
        jobs["contexts"] = partial(contexts, rows)
    for name, asked in group.questions.items():
        jobs[f"{name}-explanation"] = partial(explanation_figure, asked)
    jobs["copies"] = partial(copies_figure, group.questions.get("io_copies", []))
    jobs["resolutions"] = partial(resolutions_figure, group.questions.get("shared_weights", []))
    return jobs
