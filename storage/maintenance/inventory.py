"""Everything that is in the storage of one board: its runs with their traces, damaged files, traces of no run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storage.maintenance.own_files import RUN_ID, own_files, own_folders
from storage.run_file import UNFINISHED_NAME, BadFile, StoredRun, read_storage
from storage.runs import Run, run_of
from storage.trace import TRACE_NAME, TRACES

__all__ = ["Inventory", "Leftover", "RunFiles", "take_inventory"]


@dataclass(frozen=True)
class RunFiles:
    """A run, and which files in the storage belong to it."""

    run: Run
    size_bytes: int
    #: Seconds since 1970.
    changed_at_s: float
    #: Of each repeat that has one, relative to the storage.
    traces: tuple[str, ...]


@dataclass(frozen=True)
class Leftover:
    """A file beside the runs."""

    path: Path
    size_bytes: int
    #: Seconds since 1970; of a trace, when the last one was written into its folder.
    changed_at_s: float


@dataclass(frozen=True)
class Inventory:
    """What there is in one storage."""

    #: By time.
    runs: Sequence[RunFiles]
    bad_files: Sequence[BadFile]
    #: Every trace, by its path relative to the storage.
    traces: Mapping[str, Leftover]
    #: Files that were being written: now, or when the power went off.
    unfinished: Sequence[Leftover]

    def size_bytes(self, stored: RunFiles) -> int:
        """Return what the run and its traces take."""
        return stored.size_bytes + sum(self.traces[name].size_bytes for name in stored.traces if name in self.traces)


def take_inventory(storage: Path) -> Inventory:
    """Read the storage; files that are not ours are passed over."""
    # The traces first: of a run that is stored meanwhile they are too new to go.
    traces = _stored_traces(storage)
    runs: list[RunFiles] = []
    bad_files: list[BadFile] = []
    for file in read_storage(storage):
        if isinstance(file, BadFile):
            bad_files.append(file)
        else:
            status = file.path.stat()
            runs.append(RunFiles(run_of(file), status.st_size, status.st_mtime, tuple(_traces(file))))
    runs.sort(key=lambda stored: stored.run.recorded_at)
    return Inventory(runs, bad_files, traces, list(_leftovers(own_files(storage, UNFINISHED_NAME))))


def _traces(file: StoredRun) -> Iterator[str]:
    for result in file.results:
        yield from (repeat.trace for repeat in result.info.repeats if repeat.trace)
    for program in file.programs:
        yield from (repeat.trace for repeat in program.repeats if repeat.trace)


def _stored_traces(storage: Path) -> dict[str, Leftover]:
    """Return every trace, changed when the last one was written into its folder."""
    traces: dict[str, Leftover] = {}
    for folder in own_folders(storage / TRACES, RUN_ID):
        files = list(_leftovers(own_files(folder, TRACE_NAME)))
        newest_s = max((file.changed_at_s for file in files), default=0.0)
        for file in files:
            traces[file.path.relative_to(storage).as_posix()] = replace(file, changed_at_s=newest_s)
    return traces


def _leftovers(paths: Iterable[Path]) -> Iterator[Leftover]:
    for path in paths:
        try:
            status = path.lstat()
        except FileNotFoundError:  # finished, and renamed, meanwhile
            continue
        yield Leftover(path, status.st_size, status.st_mtime)
