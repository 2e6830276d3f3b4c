"""What goes when old runs are removed: it is decided first, without an effect, then removed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.storage.maintenance.inventory import AuxiliaryFile, Inventory, RunFiles
from reusebench.storage.trace import is_trace
from reusebench.system.files import remove_inside

__all__ = ["Pruning", "plan_pruning", "remove", "runs_before"]

#: What belongs to no run, and a run that is not finished, may be of a session that is still
#: measuring; after a day without a change it is not.
_LEFT_AFTER_S = 24 * 60 * 60


@dataclass
class Pruning:
    """What goes, and what of the old stays."""

    runs: list[RunFiles] = field(default_factory=list)
    #: Of these runs, also of repeats that they do not name.
    traces: list[AuxiliaryFile] = field(default_factory=list)
    #: Traces that belong to no run, and files that were never finished.
    leftovers: list[AuxiliaryFile] = field(default_factory=list)
    #: Runs that stay because they have a name.
    named: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because it is not known when they were measured.
    undated: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because they may still be measured.
    growing: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because their file, or its folder, is a link.
    linked: list[RunFiles] = field(default_factory=list)
    #: Traces of no run that stay because they may be of a damaged file.
    unclear: list[AuxiliaryFile] = field(default_factory=list)

    @property
    def freed_bytes(self) -> int:
        """Return what all that goes takes."""
        files = sum(file.size_bytes for file in (*self.traces, *self.leftovers))
        return files + sum(run.size_bytes for run in self.runs)


def runs_before(runs: Sequence[RunFiles], when: datetime.datetime) -> list[RunFiles]:
    """Return the runs that were recorded before this time, also where the clock was wrong."""
    old = []
    for stored in runs:
        recorded_at = datetime.datetime.fromisoformat(stored.run.recorded_at)
        if (
            recorded_at if recorded_at.tzinfo else recorded_at.replace(tzinfo=datetime.timezone.utc)
        ) < when:
            old.append(stored)
    return old


def plan_pruning(
    inventory: Inventory,
    old: Sequence[RunFiles],
    with_named: bool,
    now_s: float,
    by_date: bool = False,
) -> Pruning:
    """Return what goes of these old runs, and what belongs to no run; `now_s` are seconds since
    1970.

    Where the runs are old by their date, those stay whose date cannot be right. All traces in a
    run's folder are its own, also those of plans that were passed over, which it does not name.
    What has the name of a trace and is none stays.
    """
    pruning = Pruning()
    for stored in old:
        if stored.run.is_named and not with_named:
            pruning.named.append(stored)
        elif by_date and not stored.run.is_dated:
            pruning.undated.append(stored)
        elif stored.is_written or (
            not stored.run.is_finished and now_s - stored.changed_at_s <= _LEFT_AFTER_S
        ):
            pruning.growing.append(stored)
        elif stored.is_linked:
            pruning.linked.append(stored)
        else:
            pruning.runs.append(stored)
    going = {stored.run.path for stored in pruning.runs}
    staying = {
        name for stored in inventory.runs if stored.run.path not in going for name in stored.traces
    }
    gone = {name for stored in pruning.runs for name in stored.traces} - staying
    folders = {_folder(name) for name in gone} - {_folder(name) for name in staying}
    for name, trace in sorted(inventory.traces.items()):
        is_of_run = name in gone or _folder(name) in folders
        is_left = name not in staying and now_s - trace.changed_at_s > _LEFT_AFTER_S
        if not (is_of_run or is_left) or not is_trace(inventory.storage, name):
            continue
        if is_of_run:
            pruning.traces.append(trace)
        else:
            (pruning.unclear if inventory.bad_files else pruning.leftovers).append(trace)
    pruning.leftovers += [
        file for file in inventory.unfinished if now_s - file.changed_at_s > _LEFT_AFTER_S
    ]
    return pruning


def remove(pruning: Pruning, storage: Path) -> None:
    """Remove what goes: runs before their traces, so that no run is ever left without them."""
    beside = [file.path for file in (*pruning.traces, *pruning.leftovers)]
    for path in (*(stored.run.path for stored in pruning.runs), *beside):
        with suppress(FileNotFoundError):
            remove_inside(storage, path.relative_to(storage).as_posix())
    for folder in {path.parent for path in beside} - {storage}:
        with suppress(OSError):  # there are others in it
            remove_inside(storage, folder.relative_to(storage).as_posix())


def _folder(name: str) -> str:
    return name.rpartition("/")[0]
