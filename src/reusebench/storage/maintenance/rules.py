"""The rules by which stored runs go or stay.

Runs go by age or by size; without such a rule all go. No run goes that a rule of numbers keeps:
the newest of each storage, and the newest of each series.
"""

from __future__ import annotations

import datetime
import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.run_file import RunOrder
from reusebench.storage.runs import Configuration, Measured, RunSummary

__all__ = ["NewestOfSeries", "Rules", "by_storage", "is_before"]

#: What distinguishes the series of a storage. Results without figures are a series of their own,
#: as they must not take the place of those with figures.
_Series = tuple[Configuration, Optional[str], Optional[str], bool]
_SERIES_COLUMNS = "runtime, target, name, detail, models, board, chip, outcome = 'ok'"


@dataclass(frozen=True)
class Rules:
    """The rules that a user has given."""

    #: Runs before this moment go.
    before: datetime.datetime | None = None
    #: The oldest runs go until all storages together take no more, with traces.
    most_bytes: int | None = None
    #: The number of the newest runs of each storage that stay.
    keep: int | None = None
    #: The number of the newest runs of each series that stay.
    keep_each: int | None = None

    @property
    def is_by_age(self) -> bool:
        """Whether runs go by their dates."""
        return self.before is not None

    def is_old(self, run: RunSummary) -> bool:
        """Whether the run goes, whatever the size, if nothing keeps it."""
        if self.before is None:
            return self.most_bytes is None
        return is_before(run, self.before)


class NewestOfSeries:
    """The newest finished runs of each series of each storage.

    A series is a configuration on one board and chip, as in the history.
    """

    def __init__(self, stored: StoredRuns, count: int) -> None:
        """Find the newest `count` runs of each series, by the index if there is one."""
        #: Key: storage and series; value: the order of the oldest run that is kept for it.
        self._oldest: dict[tuple[Path, _Series], RunOrder] = {}
        self.paths: set[Path] = set()
        runs = stored.runs
        storages = list(dict.fromkeys(run.path.parent.parent for run in runs))
        numbers = {storage: number for number, storage in enumerate(storages)}
        # A million paths would take seconds to hash.
        storage_of = [numbers[run.path.parent.parent] for run in runs]
        by_order = sorted(range(len(runs)), key=lambda position: runs[position].order)
        ranks = {position: rank for rank, position in enumerate(by_order)}
        newest: set[int] = set()
        for series, positions in _runs_of_series(stored):
            of_storages: dict[int, list[int]] = {}
            for position in positions:
                if runs[position].is_finished:
                    of_storages.setdefault(storage_of[position], []).append(position)
            for number, own in of_storages.items():
                kept = heapq.nlargest(count, own, key=ranks.__getitem__)
                newest.update(kept)
                if len(kept) == count:
                    self._oldest[storages[number], series] = runs[kept[-1]].order
        self.paths.update(runs[position].path for position in newest)

    def keeps(self, run: RunSummary, measured: Iterable[Measured]) -> bool:
        """Whether the run, with what its file has, is among the newest of any of its series."""
        if not run.is_finished:
            return False
        storage = run.path.parent.parent
        for row in measured:
            oldest = self._oldest.get((storage, _series_of(row)))
            if oldest is None or run.order >= oldest:
                return True
        return False


def _runs_of_series(stored: StoredRuns) -> Iterator[tuple[_Series, Collection[int]]]:
    """Yield each series with the positions of its runs in `stored.runs`."""
    rows = stored.ask(
        "measured",
        lambda table: table.aggregate(
            f"{_SERIES_COLUMNS}, list(DISTINCT run)", _SERIES_COLUMNS
        ).fetchall(),
    )
    if rows is not None:
        for runtime, target, name, detail, models, board, chip, is_ok, positions in rows:
            configuration = Configuration(runtime, target, name, detail, tuple(models))
            yield (configuration, board, chip, is_ok), positions
        return

    found: dict[_Series, set[int]] = {}
    for position, run in enumerate(stored.with_measured(stored.runs, metrics=())):
        for measured in run.measured:
            found.setdefault(_series_of(measured), set()).add(position)
    yield from found.items()


def _series_of(measured: Measured) -> _Series:
    conditions = measured.conditions
    is_ok = measured.outcome == "ok"
    return measured.configuration, conditions["board"], conditions["chip"], is_ok


def by_storage(runs: Iterable[RunSummary]) -> dict[Path, list[RunSummary]]:
    """Return the runs of each storage, the oldest first."""
    storages: dict[Path, list[RunSummary]] = {}
    for run in sorted(runs, key=lambda run: run.order):
        storages.setdefault(run.path.parent.parent, []).append(run)
    return storages


def is_before(run: RunSummary, when: datetime.datetime) -> bool:
    """Whether the date of the run is before `when`, even if its clock was wrong."""
    recorded_at = datetime.datetime.fromisoformat(run.recorded_at)
    if not recorded_at.tzinfo:
        recorded_at = recorded_at.replace(tzinfo=datetime.timezone.utc)
    return recorded_at < when
