"""What goes when old runs are removed: chosen first, without an effect, then removed."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from storage.maintenance.inventory import Inventory, Leftover, RunFiles
from storage.maintenance.own_files import is_regular

__all__ = ["Old", "Pruning", "before", "choose", "keep_newest", "remove"]

#: What belongs to no run, and a run that is not finished, may be of a session that is still measuring; after a day
#: without a change it is not.
_LEFT_AFTER_S = 24 * 60 * 60


@dataclass
class Pruning:
    """What goes, and what was chosen and stays."""

    runs: list[RunFiles] = field(default_factory=list)
    #: Of these runs, also of repeats that they do not tell of.
    traces: list[Leftover] = field(default_factory=list)
    #: Traces that belong to no run, and files that were never finished.
    leftovers: list[Leftover] = field(default_factory=list)
    #: Runs that stay because they have a name.
    named: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because they may still be measured.
    growing: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because their file, or its folder, is a link.
    linked: list[RunFiles] = field(default_factory=list)
    #: Traces of no run that stay because they may be of a damaged file.
    unclear: list[Leftover] = field(default_factory=list)

    @property
    def freed_bytes(self) -> int:
        """Return what all that goes takes."""
        files = sum(file.size_bytes for file in (*self.traces, *self.leftovers))
        return files + sum(run.size_bytes for run in self.runs)


#: Chooses the old ones of the runs, which are in the order of time.
Old = Callable[[Sequence[RunFiles]], Sequence[RunFiles]]


def keep_newest(count: int) -> Old:
    """Return the choice of all runs but so many."""
    return lambda runs: runs[: max(0, len(runs) - count)]


def before(when: datetime.datetime) -> Old:
    """Return the choice of the runs that were recorded before this time."""
    return lambda runs: [stored for stored in runs if _recorded_at(stored) < when]


def choose(inventory: Inventory, old: Old, with_named: bool, now_s: float) -> Pruning:
    """Return what goes; `now_s` are seconds since 1970."""
    pruning = Pruning()
    for stored in old(inventory.runs):
        if stored.run.is_named and not with_named:
            pruning.named.append(stored)
        elif not stored.run.is_finished and now_s - stored.changed_at_s <= _LEFT_AFTER_S:
            pruning.growing.append(stored)
        elif not is_regular(stored.run.path):
            pruning.linked.append(stored)
        else:
            pruning.runs.append(stored)
    _choose_traces(pruning, inventory, now_s)
    pruning.leftovers += [file for file in inventory.unfinished if now_s - file.changed_at_s > _LEFT_AFTER_S]
    return pruning


def _choose_traces(pruning: Pruning, inventory: Inventory, now_s: float) -> None:
    """Add the traces of the runs that go, and those of no run.

    All in a run's folder are its own, also those of plans that were passed over, which it does not tell of.
    """
    going = {stored.run.path for stored in pruning.runs}
    staying = {name for stored in inventory.runs if stored.run.path not in going for name in stored.traces}
    gone = {name for stored in pruning.runs for name in stored.traces} - staying
    folders = {_folder(name) for name in gone} - {_folder(name) for name in staying}
    for name, trace in sorted(inventory.traces.items()):
        if name in gone or _folder(name) in folders:
            pruning.traces.append(trace)
        elif name not in staying and now_s - trace.changed_at_s > _LEFT_AFTER_S:
            (pruning.unclear if inventory.bad_files else pruning.leftovers).append(trace)


def remove(pruning: Pruning) -> None:
    """Remove what was chosen: runs before their traces, so that none is ever left without them."""
    for stored in pruning.runs:
        stored.run.path.unlink(missing_ok=True)
    for file in (*pruning.traces, *pruning.leftovers):
        file.path.unlink(missing_ok=True)
    for folder in {file.path.parent for file in (*pruning.traces, *pruning.leftovers)}:
        with contextlib.suppress(OSError):  # there are others in it
            folder.rmdir()


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _recorded_at(stored: RunFiles) -> datetime.datetime:
    when = datetime.datetime.fromisoformat(stored.run.recorded_at)
    return when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)
