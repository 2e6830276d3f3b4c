"""The files of a storage beside its runs: traces, and files that were never finished.

Only files in the inventory are ever removed: regular files with names that this project gives. No
links are followed.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.storage.compacted import UNFINISHED_FORM, plain_trace_name
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.run_file import (
    UNFINISHED_NAME,
    StoredRun,
    is_unfinished_run,
    is_written,
    read_run_file,
)
from reusebench.storage.runs import RunSummary
from reusebench.storage.trace import TRACE_NAME, TRACES, UNFINISHED_TRACE, is_trace

__all__ = [
    "LEFT_AFTER_S",
    "AuxiliaryFile",
    "TraceOwners",
    "inside",
    "left_traces",
    "own_files",
    "run_folders",
    "trace_folders",
    "unfinished_files",
]

#: Age since the last change at which an unfinished run, or a file without a run, counts as left
#: over. A younger one may belong to a session that is still measuring.
LEFT_AFTER_S = 24 * 60 * 60
#: Name of a folder of traces: the id of a session, which is the start of a UUID in hexadecimal
#: digits; or the time and the process of a recording.
_RUN_ID = re.compile(r"[0-9a-f]{12}|\d{8}_\d{6}-\d+")
_TRACE_FOLDER = re.compile(rf"{TRACES}/({_RUN_ID.pattern})")
_ANY_NAME = re.compile(".+", re.DOTALL)


@dataclass(frozen=True)
class AuxiliaryFile:
    """A file beside the runs."""

    path: Path
    size_bytes: int
    #: Seconds since 1970.
    changed_at_s: float

    @property
    def is_left(self) -> bool:
        """Whether it is so old that no session is still measuring what it belongs to."""
        return time.time() - self.changed_at_s > LEFT_AFTER_S


@dataclass
class TraceOwners:
    """The runs of a storage that each folder of traces belongs to.

    All traces in a folder belong to its runs, even those of skipped plans, which no run names. A
    copy of a run's file has the same traces.
    """

    storage: Path
    #: Key: folder, relative to the storage.
    runs: dict[str, set[Path]] = field(default_factory=dict)
    #: Key: folder; value: the largest number of traces that one of its runs names.
    named: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, storage: Path, stored: StoredRuns, runs: Iterable[RunSummary]) -> TraceOwners:
        """Return the owners by the index."""
        owners = cls(storage)
        for run in runs:
            file = stored.file_of(run)
            for name in file.trace_folders:
                folder = f"{TRACES}/{name}"
                owners.runs.setdefault(folder, set()).add(run.path)
                owners.named[folder] = max(owners.named.get(folder, 0), file.trace_count)
        return owners

    def give_up(self, run: Path, folders: Iterable[str], file: Path) -> list[AuxiliaryFile]:
        """Return the traces in these folders that belong to no other run, and forget the run.

        `file` is where the run is now. A file with the name of a trace that does not begin as one
        stays.
        """
        traces: list[AuxiliaryFile] = []
        if (self.storage / TRACES).is_symlink():
            return traces
        for folder in sorted(folders):
            others = self.runs.get(folder, set())
            others.discard(run)
            if not others:
                traces += self.traces_in(folder)
                traces += own_files(self.storage / folder, UNFINISHED_TRACE)
                continue
            names = _names_of([file]) - _names_of(others)
            for trace in self.traces_in(folder):
                if plain_trace_name(inside(self.storage, trace.path)) in names:
                    traces.append(trace)
        return traces

    def traces_in(self, folder: str) -> Iterator[AuxiliaryFile]:
        """Yield the traces in the folder, by name."""
        for file in own_files(self.storage / folder, TRACE_NAME):
            if is_trace(self.storage, inside(self.storage, file.path)):
                yield file


def left_traces(owners: TraceOwners) -> Iterator[AuxiliaryFile]:
    """Yield the old traces that no run has: of broken sessions, and of skipped plans."""
    storage = owners.storage
    for path in _own_paths(storage / TRACES, _RUN_ID):
        folder = inside(storage, path)
        runs = owners.runs.get(folder, set())
        if runs and _count(path, TRACE_NAME) <= owners.named[folder]:
            continue
        named = _names_of(runs)
        traces = list(own_files(path, TRACE_NAME))
        newest_s = max((trace.changed_at_s for trace in traces), default=0.0)
        if time.time() - newest_s <= LEFT_AFTER_S:
            continue
        for trace in traces:
            name = inside(storage, trace.path)
            if plain_trace_name(name) not in named and is_trace(storage, name):
                yield trace


def unfinished_files(storage: Path) -> Iterator[AuxiliaryFile]:
    """Yield the old files that were being written when a process was killed."""
    for file in own_files(storage, UNFINISHED_NAME):
        if file.is_left and _is_left(storage, file):
            yield file
    for folder in run_folders(storage):
        yield from filter(_is_old, own_files(folder, UNFINISHED_FORM))
    for folder in _own_paths(storage / TRACES, _RUN_ID):
        yield from filter(_is_old, own_files(folder, UNFINISHED_TRACE))


def _is_old(file: AuxiliaryFile) -> bool:
    return file.is_left


def _is_left(storage: Path, file: AuxiliaryFile) -> bool:
    """Whether the file is the beginning of a run, and no session is writing it now."""
    with suppress(FileNotFoundError):
        name = inside(storage, file.path)
        return is_unfinished_run(storage, name) and not is_written(storage, name)
    return False


def trace_folders(file: StoredRun) -> set[str]:
    """Return the folders of the run's traces, relative to the storage."""
    folders = {name.rpartition("/")[0] for name in _traces_of(file)}
    return {folder for folder in folders if _TRACE_FOLDER.fullmatch(folder)}


def _names_of(runs: Iterable[Path]) -> set[str]:
    """Return the names of the traces of these runs, as their files have them."""
    names: set[str] = set()
    for path in runs:
        file = read_run_file(path)
        if isinstance(file, StoredRun):
            names.update(_traces_of(file))
    return names


def _traces_of(file: StoredRun) -> Iterator[str]:
    for result in file.results:
        yield from (repeat.trace for repeat in result.info.repeats if repeat.trace)
    for program in file.programs:
        yield from (repeat.trace for repeat in program.repeats if repeat.trace)


def inside(storage: Path, path: Path) -> str:
    """Return the path relative to the storage."""
    return path.relative_to(storage).as_posix()


def run_folders(storage: Path) -> list[Path]:
    """Return the folders of the storage that may have runs; links are left out."""
    return _own_paths(storage, _ANY_NAME)


def own_files(folder: Path, name: re.Pattern[str]) -> Iterator[AuxiliaryFile]:
    """Yield the regular files in the folder whose names match, by name."""
    for path in _own_paths(folder, name):
        try:
            status = path.lstat()
        except FileNotFoundError:  # finished, and renamed, meanwhile
            continue
        if stat.S_ISREG(status.st_mode):
            yield AuxiliaryFile(path, status.st_size, status.st_mtime)


def _count(folder: Path, name: re.Pattern[str]) -> int:
    """Return the number of different traces in the folder, in either form."""
    return len({plain_trace_name(path.name) for path in _own_paths(folder, name)})


def _own_paths(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the paths in the folder whose names match, in order; none if the folder is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))
