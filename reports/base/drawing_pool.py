"""The processes that draw the figures of a page, on all CPUs of the machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Optional

import matplotlib as mpl

from reusebench.reports.base.drawing import Draw
from reusebench.system.processes import end_with

#: A figure on the pages of one language: the language, and the figure's name.
FigureKey = tuple[str, str]
Figures = Mapping[FigureKey, "Future[Optional[str]]"]
#: Shared with the processes that draw: they are forked, so it need not be sent.
_jobs: dict[FigureKey, Draw] = {}


def start_drawing(jobs: Mapping[FigureKey, Draw]) -> Figures:
    """Start to draw on all CPUs, and return the future figures.

    Without /dev/shm this process draws.
    """
    if not jobs:
        return {}
    _jobs.clear()
    _jobs.update(jobs)
    workers = min(len(_jobs), os.cpu_count() or 1)
    try:
        context = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(
            workers,
            context,
            initializer=_begin_worker,
            initargs=(os.getpid(),),
        )
    except OSError:
        # The locks between processes are files in /dev/shm, which small systems and containers
        # lack.
        return {key: _drawn_here(key) for key in _jobs}

    # A collection would write into every object that the processes share, and takes a quarter of
    # the time of drawing.
    gc.disable()
    figures = {key: pool.submit(_draw, key) for key in _jobs}
    pool.shutdown(wait=False)
    return figures


def finished(figures: Figures, language: str) -> dict[str, str]:
    """Return the figures of a language by their names; those with nothing to draw are left out."""
    drawn = {}
    for (figure_language, name), future in figures.items():
        if figure_language == language:
            svg = future.result()
            if svg is not None:
                drawn[name] = svg
    return drawn


def _begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    end_with(parent)


def _drawn_here(key: FigureKey) -> Future[Optional[str]]:
    figure: Future[Optional[str]] = Future()
    figure.set_result(_draw(key))
    return figure


def _draw(key: FigureKey) -> str | None:
    # Ids are digests of their contents and of this salt, so figures of one page share none.
    mpl.rcParams["svg.hashsalt"] = key[1]
    return _jobs[key]()
