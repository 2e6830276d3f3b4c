"""Processes that do parts of the work of this one."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

from reusebench.system.processes import end_with

#: Objects that a process makes between two collections: those of about five figures. More take
#: memory; with fewer, collections take a quarter of the time.
_OBJECTS_AT_ONCE = 100_000


def worker_pool(jobs: int) -> ProcessPoolExecutor | None:
    """Return a pool for this number of jobs, with a process for each CPU at most.

    The processes are forked, so what is known here need not be sent. None without /dev/shm, which
    small systems and containers lack: the locks between processes are files in it.
    """
    workers = min(jobs, os.cpu_count() or 1)
    context = multiprocessing.get_context("fork")
    try:
        return ProcessPoolExecutor(
            workers, context, initializer=_begin_worker, initargs=(os.getpid(),)
        )
    except OSError:
        return None


def _begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    end_with(parent)
    # The parent's garbage is not collected here: a database or a runtime would wait for threads
    # that were not forked, or crash.
    gc.freeze()
    gc.set_threshold(_OBJECTS_AT_ONCE)
    gc.enable()
