"""What a report is made from: the storages of one or several boards, all their runs or some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reusebench.reports.errors import ReportError
from reusebench.reports.results.grouping import group_results, newest_groups
from reusebench.reports.results.programs import StoredProgram, newest_programs, programs_in
from reusebench.reports.results.published import PublishedRow, published_rows
from reusebench.reports.results.rows import Group
from reusebench.reports.versions.versions import VersionSet, versions_of
from reusebench.storage.board_storage import board_storage
from reusebench.storage.fit_answer import FitAnswer, read_answers
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import (
    BadFile,
    StoredRun,
    check_storage,
    read_run_file,
    read_storage,
    storages_in,
)
from reusebench.storage.runs import run_of

#: Groups that the page has sections and figures of, one for each runtime and some of plans: more
#: would make it too large to send and too slow to make.
MOST_SHOWN = 10


@dataclass(frozen=True)
class Material:
    """What the storages hold, and what others have published."""

    #: Newest first.
    groups: Sequence[Group]
    published: Sequence[PublishedRow] = ()
    bad_files: Sequence[BadFile] = ()
    #: Every run that could be read, also where a newer one stands in the groups.
    files: Sequence[StoredRun] = ()
    #: Recordings of programs that the page shows, newest first.
    programs: Sequence[StoredProgram] = ()
    #: What `reusebench fit` answered, the newest of each runtime and target.
    fits: Sequence[FitAnswer] = ()

    @property
    def shown(self) -> list[Group]:
        """The groups of the page: the newest of each board, runtime and target, then the newest of
        the others.

        They come newest first, those of plans behind those of scenarios.
        """
        newest = newest_groups(self.groups)
        others = [group for group in self.groups if group not in newest]
        chosen = [*newest, *others][:MOST_SHOWN]
        return sorted(
            (group for group in self.groups if group in chosen), key=lambda group: group.is_of_plans
        )

    @cached_property
    def versions(self) -> list[VersionSet]:
        """The versions of runtimes that have measured the same, of all groups."""
        return versions_of(self.groups)

    @property
    def of_scenarios(self) -> list[Group]:
        """The first of the shown groups: those which mechanisms and claims are judged by."""
        return [group for group in self.shown if not group.is_of_plans]


def read_material(storages: Sequence[Path] | None, runs: Sequence[str] | None) -> Material:
    """Return what the storages hold: where runs are named, these alone, each for itself; else the
    newest of all.
    """
    folders: list[Path] = []
    for storage in storages or [board_storage()]:
        check_storage(storage)
        folders += storages_in(storage)
    files: list[StoredRun] = []
    bad_files: list[BadFile] = []
    for file in (file for folder in folders for file in read_storage(folder)):
        if isinstance(file, StoredRun):
            files.append(file)
        else:
            bad_files.append(file)
    if not files:
        unreadable = "".join(f"\n{file}" for file in bad_files)
        raise ReportError(
            f"no results in {', '.join(map(str, folders))}. Run `pytest bench/` first, or name"
            f" another storage with --storage DIR{unreadable}"
        )
    if not runs:
        groups = group_results(files)
        programs = newest_programs(programs_in(files))
        fits = []
        for answer in (answer for folder in folders for answer in read_answers(folder)):
            if isinstance(answer, FitAnswer):
                fits.append(answer)
            else:
                bad_files.append(answer)
        return Material(groups, published_rows(), bad_files, files, programs, fits)
    chosen = sorted(_chosen(files, runs), key=lambda file: file.order, reverse=True)
    groups = [group for file in chosen for group in group_results([file])]
    return Material(groups, published_rows(), bad_files, files, programs_in(chosen))


def _chosen(files: Sequence[StoredRun], words: Iterable[str]) -> list[StoredRun]:
    """Return the runs that the words mean: of a number, those in each storage that has it."""
    known = {file.path.resolve(): file for file in files}
    runs = [run_of(file) for file in files]
    paths = [run.path for word in words for run in find_runs(word, runs, Path())]
    chosen = {path.resolve(): known.get(path.resolve()) or read_run_file(path) for path in paths}
    return [file for file in chosen.values() if isinstance(file, StoredRun)]
