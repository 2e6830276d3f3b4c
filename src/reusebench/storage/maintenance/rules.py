"""The rules by which stored runs go or stay.

Runs go by age or by size; without such a rule all go. No run goes that a rule of numbers keeps:
the newest of each storage, and the newest of each series.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
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
        for series, runs in _runs_of_series(stored):
            for storage, own in by_storage(run for run in runs if run.is_finished).items():
                kept = own[-count:]
                self.paths.update(run.path for run in kept)
                if len(kept) == count:
                    self._oldest[storage, series] = kept[0].order

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


def _runs_of_series(stored: StoredRuns) -> Iterator[tuple[_Series, Sequence[RunSummary]]]:
    """Yield each series with its runs."""
    rows = stored.ask(
        "measured",
        lambda table: table.aggregate(
            f"{_SERIES_COLUMNS}, list(DISTINCT run)", _SERIES_COLUMNS
        ).fetchall(),
    )
    if rows is not None:
        for runtime, target, name, detail, models, board, chip, is_ok, positions in rows:
            configuration = Configuration(runtime, target, name, detail, tuple(models))
            runs = [stored.runs[position] for position in positions]
            yield (configuration, board, chip, is_ok), runs
        return

    found: dict[_Series, dict[Path, RunSummary]] = {}
    for run in stored.with_measured(stored.runs, metrics=()):
        for measured in run.measured:
            found.setdefault(_series_of(measured), {})[run.path] = run
    for series, by_path in found.items():
        yield series, list(by_path.values())


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
