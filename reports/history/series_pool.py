"""The changes of many series, found on all CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from reusebench.reports.base.worker_pool import worker_pool
from reusebench.reports.history.change_points import SeriesChanges, series_changes
from reusebench.reports.history.series_runs import SeriesRuns
from reusebench.storage.metrics import Metric

#: Number of runs of all series from which other processes take part; they begin in 0.1 s.
_MANY_RUNS = 10_000
#: Number of series that are sent together.
_SENT = 25


class SeriesJob(NamedTuple):
    """One series whose changes are looked for; series_changes() takes these."""

    metric: Metric
    runs: SeriesRuns
    seconds: np.ndarray | None
    #: Number of all series that can have a change.
    series_count: int


def changes_in(jobs: Sequence[SeriesJob]) -> Iterable[SeriesChanges]:
    """Return the changes of each series."""
    pool = None
    if sum(len(job.runs) for job in jobs) > _MANY_RUNS:
        pool = worker_pool(len(jobs))
    if pool is None:
        return [_changes(job) for job in jobs]
    with pool:
        return list(pool.map(_changes, jobs, chunksize=_SENT))


def _changes(job: SeriesJob) -> SeriesChanges:
    return series_changes(*job)
