"""Figures drawn side by side on the machine's CPUs, each once for all languages."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Optional

from reports.base.drawing import Drawing
from reports.base.languages import FigureTexts
from reports.base.texts import Texts

#: What draws a figure; nothing where there is nothing to draw.
Draw = Callable[[Texts], Optional[Drawing]]
#: What the processes that draw have in common with the one that asks: they are forked, so it need not be sent.
_jobs: dict[str, Draw] = {}


@dataclass(frozen=True)
class DrawnFigure:
    """A figure in the first language, and what the other languages say in place of each of its texts."""

    drawing: Drawing
    said: Mapping[str, Mapping[str, str]]


def draw_all(jobs: Mapping[str, Draw]) -> dict[str, DrawnFigure]:
    """Return every figure that there is something to draw for, by its name."""
    if not jobs:
        return {}
    _jobs.clear()
    _jobs.update(jobs)
    # What the processes share stays shared: a collection would write into every object.
    gc.freeze()
    workers = min(len(_jobs), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        drawn = zip(_jobs, pool.map(_draw, _jobs))
        return {name: figure for name, figure in drawn if figure is not None}


def _draw(name: str) -> DrawnFigure | None:
    texts = FigureTexts.new()
    drawing = _jobs[name](texts)
    return DrawnFigure(drawing, texts.said) if drawing else None
