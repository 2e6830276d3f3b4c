"""What goes when old runs are removed: chosen first, without an effect, then removed."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from storage.maintenance.inventory import Inventory, Leftover, StoredRun
from storage.maintenance.own_files import is_regular

__all__ = ["Old", "Pruning", "before", "choose", "keep_newest", "remove"]

#: What belongs to no run may be of one that is being measured; after a day without a change it is not.
_LEFT_AFTER_S = 24 * 60 * 60


@dataclass(frozen=True)
class Pruning:
    """What goes, and what was asked for and stays."""

    runs: Sequence[StoredRun]
    #: Of these runs, also of repeats that they do not tell of.
    traces: Sequence[Leftover]
    #: Traces that belong to no run, and files that were never finished.
    leftovers: Sequence[Leftover]
    #: Runs that stay because they have a name.
    named: Sequence[StoredRun]
    #: Runs that stay because their file, or its folder, is a link.
    linked: Sequence[StoredRun]
    #: Traces of no run that stay because they may be of a damaged file.
    unclear: Sequence[Leftover]

    @property
    def freed_bytes(self) -> int:
        """Return what all that goes takes."""
        files = sum(each.size_bytes for each in (*self.traces, *self.leftovers))
        return files + sum(each.size_bytes for each in self.runs)


#: Chooses the old ones of the runs, which are in the order of time.
Old = Callable[[Sequence[StoredRun]], Sequence[StoredRun]]


def keep_newest(count: int) -> Old:
    """Return the choice of all runs but so many."""
    return lambda runs: runs[: max(0, len(runs) - count)]


def before(when: datetime.datetime) -> Old:
    """Return the choice of the runs that were recorded before this time."""
    return lambda runs: [each for each in runs if _recorded_at(each) < when]


def choose(inventory: Inventory, old: Old, with_named: bool, now_s: float) -> Pruning:
    """Return what goes; `now_s` are seconds since 1970."""
    chosen = [each for each in old(inventory.runs) if with_named or not each.run.is_named]
    going = {each.run.path for each in chosen if is_regular(each.run.path)}
    runs = [each for each in inventory.runs if each.run.path in going]
    traces, left = _split(inventory, going)
    left = [each for each in left if now_s - each.changed_at_s > _LEFT_AFTER_S]
    unfinished = [each for each in inventory.unfinished if now_s - each.changed_at_s > _LEFT_AFTER_S]
    return Pruning(
        runs=runs,
        traces=traces,
        leftovers=unfinished if inventory.bad_files else [*unfinished, *left],
        named=[each for each in old(inventory.runs) if each not in chosen],
        linked=[each for each in chosen if each.run.path not in going],
        unclear=left if inventory.bad_files else [],
    )


def remove(pruning: Pruning) -> None:
    """Remove what was chosen: runs before their traces, so that none is ever left without them."""
    for stored in pruning.runs:
        stored.run.path.unlink(missing_ok=True)
    for file in (*pruning.traces, *pruning.leftovers):
        file.path.unlink(missing_ok=True)
    for folder in {file.path.parent for file in (*pruning.traces, *pruning.leftovers)}:
        with contextlib.suppress(OSError):  # there are others in it
            folder.rmdir()


def _split(inventory: Inventory, going: Container[Path]) -> tuple[list[Leftover], list[Leftover]]:
    """Return the traces of the runs that go, and those of no run.

    All in a run's folder are its own, also those of plans that were passed over, which it does not tell of.
    """
    staying = {name for each in inventory.runs if each.run.path not in going for name in each.traces}
    gone = {name for each in inventory.runs if each.run.path in going for name in each.traces} - staying
    folders = _folders(gone) - _folders(staying)
    of_going = {name for name in inventory.traces if name in gone or _folder(name) in folders}
    left = {
        name
        for name in inventory.traces.keys() - staying - of_going
        if _folder(name).rpartition("/")[2] not in inventory.in_journals
    }
    return [inventory.traces[name] for name in sorted(of_going)], [inventory.traces[name] for name in sorted(left)]


def _folders(names: Iterable[str]) -> set[str]:
    return {_folder(name) for name in names}


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _recorded_at(stored: StoredRun) -> datetime.datetime:
    when = datetime.datetime.fromisoformat(stored.run.recorded_at)
    return when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)
