"""The removal of old runs: first the choice by rules and by what must stay, then run by run.

A run that goes gets a name that readers pass over. Its traces are removed next, its file last:
after a kill the next removal finds by it what is left to remove.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.storage.compacted import compacted_name, plain_name
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.maintenance.exclusion import excluding_others
from reusebench.storage.maintenance.inventory import (
    LEFT_AFTER_S,
    AuxiliaryFile,
    TraceOwners,
    inside,
    left_traces,
    own_files,
    run_folders,
    trace_folders,
    unfinished_files,
)
from reusebench.storage.maintenance.rules import NewestOfSeries, Rules, by_storage
from reusebench.storage.run_file import REMOVED, StoredRun, is_written, read_run_file
from reusebench.storage.runs import RunSummary, run_of
from reusebench.storage.trace import TRACES
from reusebench.system.files import folder_inside, remove_inside

__all__ = [
    "BASELINE",
    "CHANGED",
    "GROWING",
    "LINKED",
    "NAMED",
    "UNDATED",
    "Choice",
    "Removal",
    "Removed",
    "choose",
    "moved_files",
]

#: Name of a run's file while its traces are removed.
_MOVED = re.compile(rf"{re.escape(REMOVED)}.+\.json(\.xz)?", re.DOTALL)
#: The reasons for which runs stay that a rule names: a user's name; a baseline; a date that cannot
#: be right; they may still be measured; they are behind links; their files are not as expected.
NAMED = "named"
BASELINE = "baseline"
UNDATED = "undated"
GROWING = "growing"
LINKED = "linked"
CHANGED = "changed"


@dataclass
class Choice:
    """The runs that go, the oldest first, and those that stay although a rule names them."""

    runs: list[RunSummary] = field(default_factory=list)
    #: Key: reason.
    kept: dict[str, list[RunSummary]] = field(default_factory=dict)
    #: Size of all that stays, traces included; 0 without a rule of size.
    left_bytes: int = 0
    #: None without a rule of series.
    newest: NewestOfSeries | None = None

    def keep(self, run: RunSummary, reason: str) -> None:
        """Keep the run for this reason."""
        self.kept.setdefault(reason, []).append(run)


def choose(
    stored: StoredRuns, rules: Rules, baselines: Collection[Path], with_named: bool
) -> Choice:
    """Return the runs that go by the rules; the paths in `baselines` stay."""
    choice = Choice()
    newest = _newest(stored, rules, choice)
    old = []
    for run in sorted(stored.runs, key=lambda run: run.order):
        if run.path in newest:
            continue
        if not rules.is_old(run):
            old.append(run)
        elif rules.is_by_age and not run.is_dated:
            choice.keep(run, UNDATED)
            old.append(run)
        else:
            _judge(stored, run, baselines, with_named, choice)
    if rules.most_bytes is not None:
        sizes = _Sizes(stored)
        choice.left_bytes = sizes.total_bytes - sum(sizes.freed_bytes(run) for run in choice.runs)
        for run in old:
            if choice.left_bytes <= rules.most_bytes:
                break
            if _judge(stored, run, baselines, with_named, choice):
                choice.left_bytes -= sizes.freed_bytes(run)
        choice.runs.sort(key=lambda run: run.order)
        going = {run.path for run in choice.runs}
        undated = choice.kept.get(UNDATED, [])
        undated[:] = [run for run in undated if run.path not in going]
    return choice


def _newest(stored: StoredRuns, rules: Rules, choice: Choice) -> set[Path]:
    """Return the paths of the runs that the rules of numbers keep."""
    newest: set[Path] = set()
    if rules.keep:
        for runs in by_storage(stored.runs).values():
            newest.update(run.path for run in runs[-rules.keep :])
    if rules.keep_each:
        choice.newest = NewestOfSeries(stored, rules.keep_each)
        newest |= choice.newest.paths
    return newest


def _judge(
    stored: StoredRuns,
    run: RunSummary,
    baselines: Collection[Path],
    with_named: bool,
    choice: Choice,
) -> bool:
    """Add the run to those that go, or to those that stay for a reason; return whether it goes."""
    if run.path in baselines:
        choice.keep(run, BASELINE)
    elif run.is_named and not with_named:
        choice.keep(run, NAMED)
    elif not run.is_finished and _may_grow(run, stored.file_of(run).changed_ns / 1e9):
        choice.keep(run, GROWING)
    elif run.path.is_symlink() or run.path.parent.is_symlink():
        choice.keep(run, LINKED)
    else:
        choice.runs.append(run)
        return True
    return False


def _may_grow(run: RunSummary, changed_at_s: float) -> bool:
    """Whether a session may still be measuring this unfinished run."""
    if time.time() - changed_at_s <= LEFT_AFTER_S:
        return True
    storage = run.path.parent.parent
    with suppress(OSError):  # removed meanwhile, or behind a link
        return is_written(storage, inside(storage, run.path))
    return False


class _Sizes:
    """The sizes of runs with their traces; traces of several runs count once."""

    def __init__(self, stored: StoredRuns) -> None:
        self._stored = stored
        self._owners: dict[tuple[Path, str], int] = {}
        self.total_bytes = 0
        for run in stored.runs:
            file = stored.file_of(run)
            self.total_bytes += file.size_bytes
            keys = self._folders(run)
            if not any(key in self._owners for key in keys):
                self.total_bytes += file.trace_bytes
            for key in keys:
                self._owners[key] = self._owners.get(key, 0) + 1
        for bad in stored.bad_files:
            with suppress(OSError):
                self.total_bytes += bad.path.stat().st_size

    def freed_bytes(self, run: RunSummary) -> int:
        """Return the size that becomes free with the run, and count it as gone."""
        file = self._stored.file_of(run)
        keys = self._folders(run)
        for key in keys:
            self._owners[key] -= 1
        is_last = not any(self._owners[key] for key in keys)
        return file.size_bytes + (file.trace_bytes if is_last else 0)

    def _folders(self, run: RunSummary) -> Sequence[tuple[Path, str]]:
        storage = run.path.parent.parent
        return [(storage, name) for name in self._stored.file_of(run).trace_folders]


@dataclass
class Removed:
    """A run that went, or would go, with its traces."""

    run: RunSummary
    traces: list[AuxiliaryFile]
    #: Size of the run and its traces.
    size_bytes: int


class Removal:
    """The removal of runs from storages, or a dry run of it, which only tells the files.

    Every run is read once more before it goes: a wrong index removes no run that the rules keep.
    """

    def __init__(
        self, storages: Sequence[Path], stored: StoredRuns, choice: Choice, is_dry_run: bool
    ) -> None:
        """Take the storages and their runs, and list the files that no run has."""
        self._stored = stored
        self._choice = choice
        self._is_dry_run = is_dry_run
        runs = by_storage(stored.runs)
        self._owners = {
            storage: TraceOwners.of(storage, stored, runs.get(storage, ())) for storage in storages
        }
        bad = {_storage_of(file.path) for file in stored.bad_files}
        #: Old traces without a run, and files that were never finished, to remove.
        self.leftovers: list[AuxiliaryFile] = []
        #: Traces without a run that stay, as they may belong to a damaged file.
        self.unclear: list[AuxiliaryFile] = []
        for storage, owners in self._owners.items():
            self.leftovers += unfinished_files(storage)
            traces = self.unclear if storage in bad else self.leftovers
            traces += left_traces(owners)

    def runs(self) -> Iterator[Removed]:
        """Remove the runs one after the other; yield each when it is gone."""
        if self._is_dry_run:
            yield from map(self._plan, self._choice.runs)
            return
        for storage in self._owners:
            self._go_on(storage)
        for run in self._choice.runs:
            removed = self._remove(run)
            if removed is not None:
                yield removed

    def remove_leftovers(self) -> None:
        """Remove what no run has, unless this is a dry run."""
        if self._is_dry_run:
            return
        for file in self.leftovers:
            storage = next(storage for storage in self._owners if storage in file.path.parents)
            with excluding_others(storage):
                _remove_files(storage, [file])

    def _plan(self, run: RunSummary) -> Removed:
        """Return the files that go with the run, by the index."""
        owners = self._owners[run.path.parent.parent]
        file = self._stored.file_of(run)
        folders = [f"{TRACES}/{name}" for name in file.trace_folders]
        traces = owners.give_up(run.path, folders, run.path)
        return _removed(run, file.size_bytes, traces)

    def _remove(self, run: RunSummary) -> Removed | None:
        storage = run.path.parent.parent
        with excluding_others(storage):
            file = read_run_file(run.path)
            if not isinstance(file, StoredRun) or not self._is_as_chosen(run, file):
                self._choice.keep(run, CHANGED)
                return None
            size_bytes = file.path.stat().st_size
            moved = _moved_away(storage, file.path)
            traces = self._finish(storage, run.path, moved, file)
        return _removed(run, size_bytes, traces)

    def _is_as_chosen(self, run: RunSummary, file: StoredRun) -> bool:
        """Whether the rules would choose the run by what its file has now, too."""
        now = run_of(file)
        if (now.name, now.recorded_at, now.is_finished) != (
            run.name,
            run.recorded_at,
            run.is_finished,
        ):
            return False
        newest = self._choice.newest
        return newest is None or not newest.keeps(run, now.measured)

    def _go_on(self, storage: Path) -> None:
        """Remove what a killed removal has left."""
        with excluding_others(storage):
            for moved in moved_files(storage):
                file = read_run_file(moved)
                self._finish(storage, moved, moved, file if isinstance(file, StoredRun) else None)

    def _finish(
        self, storage: Path, run: Path, moved: Path, file: StoredRun | None
    ) -> list[AuxiliaryFile]:
        """Remove the traces of a run that was moved away, and its file; return the traces."""
        folders = trace_folders(file) if file else set()
        traces = self._owners[storage].give_up(run, folders, moved)
        _remove_files(storage, traces, folders)
        remove_inside(storage, inside(storage, moved))
        return traces


def _removed(run: RunSummary, size_bytes: int, traces: list[AuxiliaryFile]) -> Removed:
    return Removed(run, traces, size_bytes + sum(trace.size_bytes for trace in traces))


def _storage_of(path: Path) -> Path:
    """Return the storage of a damaged file, or of a folder of runs that cannot be read."""
    return path.parent if path.is_dir() else path.parent.parent


def _moved_away(storage: Path, path: Path) -> Path:
    """Rename the run's file, so that no reader takes it for a run; return its new path.

    A full disk has room for that.
    """
    other = compacted_name(path.name)
    if path.name != plain_name(path.name):
        other = plain_name(path.name)
    try:
        with folder_inside(storage, inside(storage, path)) as (folder, name):
            # Both forms are there after a compaction that was killed.
            with suppress(FileNotFoundError):
                os.unlink(other, dir_fd=folder)
            os.rename(name, REMOVED + name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    return path.with_name(REMOVED + path.name)


def moved_files(storage: Path) -> list[Path]:
    """Return the files of runs whose removal was begun and not ended."""
    return [file.path for folder in run_folders(storage) for file in own_files(folder, _MOVED)]


def _remove_files(
    storage: Path, files: Sequence[AuxiliaryFile], folders: Iterable[str] = ()
) -> None:
    """Remove the files, and the folders of traces that are empty then: theirs and others."""
    for file in files:
        with suppress(FileNotFoundError):
            remove_inside(storage, inside(storage, file.path))
    for folder in {*folders, *(inside(storage, file.path.parent) for file in files)}:
        with suppress(OSError):  # other files are in it
            if folder.startswith(f"{TRACES}/"):
                remove_inside(storage, folder)
