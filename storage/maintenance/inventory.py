"""Everything that is in the storage of one board: its runs with their traces, damaged files, traces of no run."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from storage.files import BadFile, StoredFile, read_file, run_files
from storage.journal import JOURNALS, RESULT_NAME, SKELETON, journals_in
from storage.maintenance.own_files import RUN_ID, own_files, own_folders
from storage.parallel import side_by_side
from storage.runs import Run, run_of
from storage.trace import TRACE_NAME, TRACES
from storage.writing import UNFINISHED

__all__ = ["Inventory", "Leftover", "StoredRun", "take_inventory"]

#: What is being written, in the storage and in a journal.
_UNFINISHED = re.compile(rf"\.\d+{re.escape(UNFINISHED)}")
_UNFINISHED_IN_JOURNAL = re.compile(rf"({re.escape(SKELETON)}|{RESULT_NAME.pattern}){re.escape(UNFINISHED)}")


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
    return Inventory(runs, bad_files, traces, list(_unfinished(storage)), in_journals)


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
    each = [
        file for folder in own_folders(storage / TRACES, RUN_ID) for file in _leftovers(own_files(folder, TRACE_NAME))
    ]
    newest_s: dict[Path, float] = {}
    for file in each:
        newest_s[file.path.parent] = max(file.changed_at_s, newest_s.get(file.path.parent, 0.0))
    return {
        file.path.relative_to(storage).as_posix(): replace(file, changed_at_s=newest_s[file.path.parent])
        for file in each
    }


def _unfinished(storage: Path) -> Iterator[Leftover]:
    yield from _leftovers(own_files(storage, _UNFINISHED))
    for journal in own_folders(storage / JOURNALS):
        yield from _leftovers(own_files(journal, _UNFINISHED_IN_JOURNAL))


def _leftovers(paths: Iterable[Path]) -> Iterator[Leftover]:
    for path in paths:
        try:
            status = path.lstat()
        except FileNotFoundError:  # finished, and renamed, meanwhile
            continue
        yield Leftover(path, status.st_size, status.st_mtime)
