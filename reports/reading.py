"""What a report is made from is read: the storages of one or several boards, all their runs or some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reports.comparison import Group, compare, newest_of_each
from reports.errors import NoResults, NoRun, NoStorage
from reports.material import Material
from reports.published import published_rows
from storage.board import board_storage
from storage.files import BadFile, StoredFile, read_storage
from storage.mechanisms import read_trials

__all__ = ["MOST_SHOWN", "read_material", "to_be_shown"]

#: Groups that the page has sections and figures of: more would make it too large to send and too slow to make.
MOST_SHOWN = 6
#: Files of runs in a storage. Their names begin with a number; those of other files, a board's trials too, do not.
_RUNS = "*/[0-9]*.json"
_LATEST = "latest"
#: Whose readings a report is made from; of the others it needs to know that there were any.
_PHASES = ("imported", "steady")


def read_material(storages: Sequence[Path] | None, runs: Sequence[str] | None) -> Material:
    """Return what the storages hold: where runs are named, these alone, each for itself; else the newest of all."""
    folders = [folder for storage in storages or [board_storage()] for folder in _boards(storage)]
    found = [each for folder in folders for each in read_storage(folder, _PHASES)]
    files = [each for each in found if isinstance(each, StoredFile)]
    bad_files = [each for each in found if isinstance(each, BadFile)]
    if not files:
        raise NoResults(folders, bad_files)
    groups = _of_runs(_chosen(files, runs)) if runs else compare(files)
    tried = [each for folder in folders for each in read_trials(folder)]
    return Material(groups, published_rows(), tried, bad_files, files)


def to_be_shown(groups: Sequence[Group]) -> list[Group]:
    """Return the groups of the page: the newest of each board, runtime and target, then the newest of the others."""
    first = newest_of_each(groups)
    others = [group for group in groups if group not in first]
    chosen = [*first, *others][:MOST_SHOWN]
    return [group for group in groups if group in chosen]


def _boards(folder: Path) -> list[Path]:
    """Return the storage of one board: the folder itself; or those of all boards inside it."""
    if not folder.is_dir():
        raise NoStorage(folder)
    boards = sorted({path.parent.parent for path in folder.glob(f"*/{_RUNS}")})
    return boards if boards and not any(folder.glob(_RUNS)) else [folder]


def _chosen(files: Sequence[StoredFile], runs: Iterable[str]) -> list[StoredFile]:
    """Return the runs that are named, in each storage that has them."""
    chosen = []
    for run in runs:
        named = [file for file in files if run in (_LATEST, _number(file), _number(file).lstrip("0"), file.path.name)]
        if not named:
            raise NoRun(run, [_number(file) for file in files])
        chosen += [max(named, key=lambda file: file.recorded_at)] if run == _LATEST else named
    return list({file.path: file for file in chosen}.values())


def _number(file: StoredFile) -> str:
    """Return the number that the run's file begins with."""
    return file.path.name.partition("_")[0]


def _of_runs(files: Sequence[StoredFile]) -> list[Group]:
    """Return the groups of each run for itself, the newest run first."""
    newest_first = sorted(files, key=lambda file: file.recorded_at, reverse=True)
    return [group for file in newest_first for group in compare([file])]
