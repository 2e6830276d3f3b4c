"""What a report is made from is read: the storages of one or several boards, all their runs or some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reports.errors import ReportError
from reports.page.material import Material
from reports.results.published import published_rows
from reports.results.rows import Group, compare, newest_of_each
from reports.sections.programs import newest_programs, programs_in
from storage.board import board_storage
from storage.references import find_runs
from storage.run_file import BadFile, StoredRun, read_run_file, read_storage, storages_in
from storage.runs import run_of

#: Groups that the page has sections and figures of: more would make it too large to send and too slow to make.
MOST_SHOWN = 6


def read_material(storages: Sequence[Path] | None, runs: Sequence[str] | None) -> Material:
    """Return what the storages hold: where runs are named, these alone, each for itself; else the newest of all."""
    folders = [folder for storage in storages or [board_storage()] for folder in boards_in(storage)]
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
            f"no results in {', '.join(map(str, folders))}. Run `pytest bench/` first, or name another "
            f"storage with --storage DIR{unreadable}"
        )
    chosen = _chosen(files, runs) if runs else files
    groups = _of_runs(chosen) if runs else compare(chosen)
    programs = programs_in(chosen) if runs else newest_programs(programs_in(chosen))
    return Material(groups, published_rows(), bad_files, files, programs)


def to_be_shown(groups: Sequence[Group]) -> list[Group]:
    """Return the groups of the page: the newest of each board, runtime and target, then the newest of the others."""
    first = newest_of_each(groups)
    others = [group for group in groups if group not in first]
    chosen = [*first, *others][:MOST_SHOWN]
    return [group for group in groups if group in chosen]


def boards_in(folder: Path) -> list[Path]:
    """Return the storage of one board: the folder itself; or those of all boards inside it."""
    if not folder.is_dir():
        raise ReportError(
            f"no storage at {folder}. Run `pytest bench/` first, or name another storage with --storage DIR"
        )
    return storages_in(folder)


def _chosen(files: Sequence[StoredRun], words: Iterable[str]) -> list[StoredRun]:
    """Return the runs that the words mean: of a number, those in each storage that has it."""
    known = {file.path.resolve(): file for file in files}
    runs = [run_of(file) for file in files]
    paths = [run.path for each in words for run in find_runs(each, runs, Path())]
    chosen = {path.resolve(): known.get(path.resolve()) or read_run_file(path) for path in paths}
    return [file for file in chosen.values() if isinstance(file, StoredRun)]


def _of_runs(files: Sequence[StoredRun]) -> list[Group]:
    """Return the groups of each run for itself, the newest run first."""
    newest_first = sorted(files, key=lambda file: file.recorded_at, reverse=True)
    return [group for file in newest_first for group in compare([file])]
