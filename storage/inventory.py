"""Everything that is in the storage of one board: its runs with their traces, damaged files, traces of no run."""

from __future__ import annotations

import stat
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from storage.files import BadFile, StoredFile, read_file, run_files
from storage.journal import JOURNALS, journals_in
from storage.runs import Run, run_of
from storage.side_by_side import side_by_side
from storage.trace import TRACES
from storage.writing import UNFINISHED

__all__ = ["Inventory", "Leftover", "StoredRun", "take_inventory"]


@dataclass(frozen=True)
class StoredRun:
    """A run, and which files in the storage belong to it."""

    run: Run
    size_bytes: int
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
    runs: Sequence[StoredRun]
    bad_files: Sequence[BadFile]
    #: Every trace, by its path relative to the storage.
    traces: Mapping[str, Leftover]
    #: Files that were being written: now, or when the power went off.
    unfinished: Sequence[Leftover]
    #: Ids of runs that are not stored yet: of sessions that are under way, or were cut off.
    in_journals: Container[str] = ()

    def size_bytes(self, stored: StoredRun) -> int:
        """Return what the run and its traces take."""
        return stored.size_bytes + sum(self.traces[name].size_bytes for name in stored.traces if name in self.traces)


def take_inventory(storage: Path) -> Inventory:
    """Read the storage; files that are not ours are passed over."""
    # The journals and traces first: a run that is stored meanwhile is in its journal, or its traces are too new to go.
    in_journals = {journal.name for journal in journals_in(storage)}
    traces = _stored_traces(storage)
    found = [each for each in side_by_side(_read, run_files(storage)) if each]
    runs = sorted((each for each in found if isinstance(each, StoredRun)), key=lambda each: each.run.recorded_at)
    bad_files = [each for each in found if isinstance(each, BadFile)]
    unfinished = [file for above in (".", f"{JOURNALS}/*/") for file in _files(storage, f"{above}*{UNFINISHED}")]
    return Inventory(runs, bad_files, traces, unfinished, in_journals)


def _read(path: Path) -> StoredRun | BadFile | None:
    """Return the run; None where nothing of it is ours."""
    file = read_file(path, ())
    if isinstance(file, BadFile):
        return file
    return StoredRun(run_of(file), path.stat().st_size, tuple(_traces(file))) if file.is_ours else None


def _traces(file: StoredFile) -> Iterator[str]:
    infos: list[Mapping[str, Any]] = [*(result.info for result in file.results), *file.programs]
    for info in infos:
        yield from (repeat["trace"] for repeat in info["repeats"] if repeat["trace"])


def _stored_traces(storage: Path) -> dict[str, Leftover]:
    each = list(_files(storage, f"{TRACES}/*/*"))
    newest_s: dict[Path, float] = {}
    for file in each:
        newest_s[file.path.parent] = max(file.changed_at_s, newest_s.get(file.path.parent, 0.0))
    return {
        file.path.relative_to(storage).as_posix(): replace(file, changed_at_s=newest_s[file.path.parent])
        for file in each
    }


def _files(storage: Path, pattern: str) -> Iterator[Leftover]:
    for path in storage.glob(pattern):
        try:
            status = path.stat()
        except FileNotFoundError:  # finished, and renamed, meanwhile
            continue
        if stat.S_ISREG(status.st_mode):
            yield Leftover(path, status.st_size, status.st_mtime)
