"""The processes that draw the figures of a page, on all CPUs of the machine."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Optional

import matplotlib as mpl

from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.paper import PAPERS, WIDE, Paper
from reusebench.reports.base.worker_pool import worker_pool

#: A figure on the pages of one language: the language, and the figure's name.
FigureKey = tuple[str, str]
Figures = Mapping[tuple[FigureKey, Paper], "Future[Optional[str]]"]
#: Shared with the processes that draw: they are forked, so it need not be sent.
_jobs: dict[FigureKey, Draw] = {}


def start_drawing(jobs: Mapping[FigureKey, Draw], papers: Sequence[Paper] = PAPERS) -> Figures:
    """Start to draw on all CPUs, each figure on each paper, and return the future figures.

    Without /dev/shm this process draws.
    """
    if not jobs:
        return {}
    _jobs.clear()
    _jobs.update(jobs)
    drawings = list(itertools.product(_jobs, papers))
    pool = worker_pool(len(drawings))
    if pool is None:
        return {drawing: _drawn_here(*drawing) for drawing in drawings}

    # A collection would write into every object that the processes share. Theirs leave these out.
    gc.disable()
    gc.freeze()
    figures = {drawing: pool.submit(_draw, *drawing) for drawing in drawings}
    pool.shutdown(wait=False)
    return figures


def finished(figures: Figures, language: str, paper: Paper = WIDE) -> dict[str, str]:
    """Return the figures of a language by their names; those with nothing to draw are left out."""
    drawn = {}
    for ((figure_language, name), figure_paper), future in figures.items():
        if (figure_language, figure_paper) == (language, paper):
            svg = future.result()
            if svg is not None:
                drawn[name] = svg
    return drawn


def _drawn_here(key: FigureKey, paper: Paper) -> Future[Optional[str]]:
    figure: Future[Optional[str]] = Future()
    figure.set_result(_draw(key, paper))
    return figure


def _draw(key: FigureKey, paper: Paper) -> str | None:
    # Ids are digests of their contents and of this salt, so figures of one page share none.
    mpl.rcParams["svg.hashsalt"] = f"{key[1]} {paper.name}"
    return _jobs[key](paper)
