"""The material of a report: the runs of one or several storages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reusebench.reports.errors import ReportError
from reusebench.reports.results.grouping import group_results, newest_groups
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.reports.results.programs import StoredProgram, newest_programs, programs_in
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

#: Groups on the page: one for each runtime, and some of plans. With more the page would be too
#: large to send and too slow to make.
MOST_SHOWN = 10


@dataclass(frozen=True)
class Material:
    """Stored results by group, and files that could not be read."""

    #: Newest first.
    groups: Sequence[Group]
    bad_files: Sequence[BadFile] = ()
    #: Every readable run, even if the groups have newer results of the same.
    files: Sequence[StoredRun] = ()
    #: Recordings of programs that the page shows, newest first.
    programs: Sequence[StoredProgram] = ()
    #: Answers of `reusebench fit`, the newest of each runtime and target.
    fits: Sequence[FitAnswer] = ()

    @property
    def shown(self) -> list[Group]:
        """The groups of the page, newest first, scenarios before plans.

        The newest of each board, runtime and target come before other groups if there are too many.
        """
        newest = newest_groups(self.groups)
        older = [group for group in self.groups if group not in newest]
        chosen = [*newest, *older][:MOST_SHOWN]
        newest_first = [group for group in self.groups if group in chosen]
        return sorted(newest_first, key=lambda group: group.is_of_plans)

    @cached_property
    def versions(self) -> list[VersionSet]:
        """Versions of runtimes that have measured the same, in all groups."""
        return versions_of(self.groups)

    @property
    def of_scenarios(self) -> list[Group]:
        """The shown groups without plans: mechanisms and claims are judged by them.

        They are the first of the shown groups.
        """
        return [group for group in self.shown if not group.is_of_plans]


def read_material(
    storages: Sequence[Path] | None,
    runs: Sequence[str] | None,
    leak_limits: LeakLimits = DEFAULT_LEAK_LIMITS,
) -> Material:
    """Return the newest results of the storages; if runs are named, each of these for itself."""
    folders: list[Path] = []
    for storage in storages or [board_storage()]:
        check_storage(storage)
        folders += storages_in(storage)
    files, bad_files = _read_files(folders)
    if runs:
        chosen = sorted(_chosen(files, runs), key=lambda file: file.order, reverse=True)
        groups: list[Group] = []
        for file in chosen:
            groups += group_results([file], leak_limits)
        return Material(groups, bad_files, files, programs_in(chosen))
    fits = []
    for folder in folders:
        for answer in read_answers(folder):
            if isinstance(answer, FitAnswer):
                fits.append(answer)
            else:
                bad_files.append(answer)
    programs = newest_programs(programs_in(files))
    groups = group_results(files, leak_limits)
    return Material(groups, bad_files, files, programs, fits)


def _read_files(folders: Sequence[Path]) -> tuple[list[StoredRun], list[BadFile]]:
    """Return the runs of the folders, and the files that could not be read."""
    files: list[StoredRun] = []
    bad_files: list[BadFile] = []
    for folder in folders:
        for file in read_storage(folder):
            if isinstance(file, StoredRun):
                files.append(file)
            else:
                bad_files.append(file)
    if not files:
        unreadable = "".join(f"\n{file}" for file in bad_files)
        raise ReportError(
            f"no results in {', '.join(map(str, folders))}. Run `reusebench bench` first, or"
            f" name another storage with --storage DIR{unreadable}"
        )
    return files, bad_files


def _chosen(files: Sequence[StoredRun], words: Iterable[str]) -> list[StoredRun]:
    """Return the runs that the user named; a number names a run in each storage."""
    known = {file.path.resolve(): file for file in files}
    runs = [run_of(file) for file in files]
    chosen: dict[Path, StoredRun | BadFile | None] = {}
    for word in words:
        for run in find_runs(word, runs, Path()):
            path = run.path.resolve()
            chosen[path] = known.get(path) or read_run_file(run.path)
    return [file for file in chosen.values() if isinstance(file, StoredRun)]
