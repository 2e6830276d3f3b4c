"""The material of a report: the runs of one or several storages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reusebench.reports.errors import ReportError
from reusebench.reports.results.grouping import (
    Place,
    gatherings_of,
    group_results,
    groups_of,
    newest_groups,
)
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.reports.results.programs import StoredProgram, programs_in
from reusebench.reports.results.rows import Group
from reusebench.reports.results.stored_results import StorageChanged, StoredResults, read_stored
from reusebench.reports.versions.versions import VersionSet, versions_of
from reusebench.storage.board_storage import board_storage
from reusebench.storage.fit_answer import FitAnswer, read_answers
from reusebench.storage.fit_sessions import SessionsAnswer, read_session_answers
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.references import find_runs
from reusebench.storage.result_summary import ResultSummary
from reusebench.storage.run_file import BadFile, StoredRun, check_storage, storages_in

#: Groups on the page: one for each runtime, and some of plans. With more the page would be too
#: large to send and too slow to make.
MOST_SHOWN = 10
#: Groups, and sets of versions, with figures if there are more groups than the page shows: drawing
#: takes most of the time.
MOST_DRAWN = 3
#: Runs may be measured or deleted while they are read.
_TRIES = 3


@dataclass(frozen=True)
class Material:
    """Stored results by group, and files that could not be read."""

    #: Newest first.
    groups: Sequence[Group]
    bad_files: Sequence[BadFile] = ()
    #: Those of every readable run, even if the groups have newer ones of the same.
    results: StoredResults = field(default_factory=StoredResults)
    #: Recordings of programs that the page shows, newest first.
    programs: Sequence[StoredProgram] = ()
    #: Answers of `reusebench fit`, the newest of each runtime and target.
    fits: Sequence[FitAnswer] = ()
    #: Those of `reusebench fit --sessions`.
    session_fits: Sequence[SessionsAnswer] = ()
    #: Networks by the name of a model, given by the user: names of one network's files may differ.
    networks: Mapping[str, str] = field(default_factory=dict)

    @cached_property
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
    def drawn(self) -> list[Group]:
        """The shown groups that have figures: all, or the newest if not all groups are shown."""
        if len(self.groups) <= MOST_SHOWN:
            return self.shown
        newest = newest_groups(self.groups)[:MOST_DRAWN]
        return [group for group in self.shown if group in newest]

    @property
    def told_boards(self) -> set[str]:
        """The boards whose history is told beside the page; empty for all, if all are on it."""
        if len(self.groups) <= MOST_SHOWN:
            return set()
        programs = {program.file.board for program in self.programs}
        return programs | {group.board for group in self.shown}

    @cached_property
    def versions(self) -> list[VersionSet]:
        """Versions of runtimes that have measured the same, in all groups."""
        return versions_of(self.groups)

    @property
    def shown_versions(self) -> list[VersionSet]:
        """The sets of versions on the page, newest first."""
        return self.versions[:MOST_SHOWN]

    @property
    def drawn_versions(self) -> list[VersionSet]:
        """The sets of versions that have a figure; see `drawn`."""
        most = MOST_SHOWN if len(self.groups) <= MOST_SHOWN else MOST_DRAWN
        return self.versions[:most]

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
    for _ in range(_TRIES):
        with contextlib.suppress(StorageChanged):
            return _material(folders, runs or (), leak_limits)
    raise ReportError(
        f"the runs in {', '.join(map(str, folders))} change while they are read. Try again when"
        " nothing writes there"
    )


def _material(folders: Sequence[Path], words: Sequence[str], leak_limits: LeakLimits) -> Material:
    stored = StoredRuns.open(folders)
    bad_files = list(stored.bad_files)
    if not stored.runs:
        unreadable = "".join(f"\n{file}" for file in bad_files)
        raise ReportError(
            f"no results in {', '.join(map(str, folders))}. Run `reusebench bench` first, or"
            f" name another storage with --storage DIR{unreadable}"
        )
    results = StoredResults(stored)
    if words:
        chosen = _chosen(stored, words)
        groups: list[Group] = []
        for file in chosen:
            groups += group_results([file], leak_limits)
        return Material(groups, bad_files, results, programs_in(chosen))
    fits = []
    session_fits = []
    for folder in folders:
        for answer in (*read_answers(folder), *read_session_answers(folder)):
            if isinstance(answer, FitAnswer):
                fits.append(answer)
            elif isinstance(answer, SessionsAnswer):
                session_fits.append(answer)
            else:
                bad_files.append(answer)
    groups = _newest_groups(results, leak_limits)
    programs = _newest_programs(results)
    return Material(groups, bad_files, results, programs, fits, session_fits)


def _newest_groups(results: StoredResults, leak_limits: LeakLimits) -> list[Group]:
    """Return the groups of the newest result of every configuration; no others are read."""
    summaries: dict[Place, ResultSummary] = {}
    by_run: dict[int, list[tuple[Place, ResultSummary]]] = {}
    for place, summary in results.summaries(results.newest_contents()):
        summaries[place] = summary
        by_run.setdefault(place.run, []).append((place, summary))
    gatherings = gatherings_of(by_run.values())
    shown = {}
    for gathering in gatherings:
        for place in gathering.members.values():
            shown[place] = summaries[place]
    return groups_of(gatherings, results.load(shown), leak_limits)


def _newest_programs(results: StoredResults) -> list[StoredProgram]:
    """Return the newest recording of each program on each board, newest first."""
    programs: list[StoredProgram] = []
    for place, summary in results.newest_programs():
        file = results.read(place.run)
        named = [info for info in file.programs if info.name == summary.scenario]
        programs += [StoredProgram(info, file) for info in named[:1]]
    return programs


def _chosen(stored: StoredRuns, words: Iterable[str]) -> list[StoredRun]:
    """Return the runs that the user named, newest first; a number names one in each storage."""
    chosen: dict[Path, StoredRun] = {}
    for word in words:
        for run in find_runs(word, stored.runs, Path()):
            path = run.path.resolve()
            if path not in chosen:
                chosen[path] = read_stored(run, None)
    return sorted(chosen.values(), key=lambda file: file.order, reverse=True)
