"""The removal of old runs: first a plan of the files to remove, then its execution."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.storage.compacted import compacted_name, plain_name, plain_trace_name
from reusebench.storage.maintenance.exclusion import excluding_others
from reusebench.storage.maintenance.inventory import (
    LEFT_AFTER_S,
    AuxiliaryFile,
    Inventory,
    RunFiles,
)
from reusebench.storage.runs import RunSummary
from reusebench.storage.trace import is_trace
from reusebench.system.files import remove_inside

__all__ = ["Pruning", "by_storage", "is_before", "plan_pruning", "remove"]


@dataclass
class Pruning:
    """The files to remove, and the old ones that stay."""

    #: Runs to remove.
    runs: list[RunFiles] = field(default_factory=list)
    #: All traces of these runs to remove, including those that a run does not name.
    traces: list[AuxiliaryFile] = field(default_factory=list)
    #: Traces without a run, and files that were never finished, to remove.
    leftovers: list[AuxiliaryFile] = field(default_factory=list)
    #: Runs that stay because they have a name.
    named: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because their date is unknown.
    undated: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because they may still be measured.
    growing: list[RunFiles] = field(default_factory=list)
    #: Runs that stay because their file, or its folder, is a link.
    linked: list[RunFiles] = field(default_factory=list)
    #: Traces without a run that stay because they may belong to a damaged file.
    unclear: list[AuxiliaryFile] = field(default_factory=list)

    @property
    def freed_bytes(self) -> int:
        """Size of all files to remove."""
        files = sum(file.size_bytes for file in (*self.traces, *self.leftovers))
        return files + sum(run.size_bytes for run in self.runs)


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


def plan_pruning(
    inventory: Inventory,
    old: Sequence[RunFiles],
    with_named: bool,
    now_s: float,
    by_date: bool = False,
) -> Pruning:
    """Return the files to remove of these old runs, and files that belong to no run.

    `now_s` are seconds since 1970. If the runs are old `by_date`, those whose date cannot be right
    stay.
    """
    pruning = Pruning()
    for stored in old:
        is_recent = now_s - stored.changed_at_s <= LEFT_AFTER_S
        if stored.run.is_named and not with_named:
            pruning.named.append(stored)
        elif by_date and not stored.run.is_dated:
            pruning.undated.append(stored)
        elif stored.is_written or (not stored.run.is_finished and is_recent):
            pruning.growing.append(stored)
        elif stored.is_linked:
            pruning.linked.append(stored)
        else:
            pruning.runs.append(stored)
    _plan_traces(inventory, pruning, now_s)
    pruning.leftovers += [
        file for file in inventory.unfinished if now_s - file.changed_at_s > LEFT_AFTER_S
    ]
    return pruning


def _plan_traces(inventory: Inventory, pruning: Pruning, now_s: float) -> None:
    """Add the traces of the runs to remove, and those without a run.

    All traces in the folder of a run belong to it, even those of skipped plans, which it does not
    name. A file with the name of a trace that does not begin as one stays.
    """
    removed = {stored.run.path for stored in pruning.runs}
    kept_traces: set[str] = set()
    for stored in inventory.runs:
        if stored.run.path not in removed:
            kept_traces.update(stored.traces)
    removed_traces: set[str] = set()
    for stored in pruning.runs:
        removed_traces.update(stored.traces)
    removed_traces -= kept_traces
    removed_folders = set(map(_folder, removed_traces)) - set(map(_folder, kept_traces))

    for name, trace in sorted(inventory.traces.items()):
        is_of_run = name in removed_traces or _folder(name) in removed_folders
        is_left = name not in kept_traces and now_s - trace.changed_at_s > LEFT_AFTER_S
        if not (is_of_run or is_left):
            continue
        if not is_trace(inventory.storage, _inside(inventory.storage, trace.path)):
            continue
        if is_of_run:
            pruning.traces.append(trace)
        elif inventory.bad_files:
            pruning.unclear.append(trace)
        else:
            pruning.leftovers.append(trace)


def remove(pruning: Pruning, storage: Path) -> None:
    """Remove the planned files, runs first, so that no run is ever left without its traces."""
    runs = [_inside(storage, stored.run.path) for stored in pruning.runs]
    traces = [_inside(storage, trace.path) for trace in pruning.traces]
    leftovers = [_inside(storage, file.path) for file in pruning.leftovers]
    plain = [*map(plain_name, runs), *map(plain_trace_name, traces)]
    with excluding_others(storage):
        for name in (*plain, *map(compacted_name, plain), *leftovers):
            with suppress(FileNotFoundError):
                remove_inside(storage, name)
    for folder in set(map(_folder, (*traces, *leftovers))) - {""}:
        with suppress(OSError):  # other files are in it
            remove_inside(storage, folder)


def _inside(storage: Path, path: Path) -> str:
    return path.relative_to(storage).as_posix()


def _folder(name: str) -> str:
    return name.rpartition("/")[0]
