"""The runs that a command's arguments can name: those in its storages, and any by its path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.commands.reply import warn
from reusebench.storage.board_storage import board_storage
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import BadFile, check_storage, storages_in
from reusebench.storage.runs import Run, read_runs

__all__ = ["KnownRuns", "board_storages"]


def board_storages(folder: Path) -> list[Path]:
    """Return the folder itself if it is a board's storage, otherwise all storages inside it."""
    check_storage(folder)
    return storages_in(folder)


@dataclass
class KnownRuns:
    """The runs of the storages."""

    #: The checkout whose git revisions may be named.
    project: Path
    runs: list[Run] = field(default_factory=list)
    #: Damaged files of the storages, and of files that were named by their paths.
    bad_files: list[BadFile] = field(default_factory=list)

    @classmethod
    def read(cls, storages: Iterable[Path], project: Path = Path()) -> KnownRuns:
        """Read the storages; damaged files are named on standard error."""
        known = cls(project)
        boards = [board for folder in storages for board in board_storages(folder)]
        for board in boards:
            for run in read_runs(board):
                if isinstance(run, Run):
                    known.runs.append(run)
                else:
                    known.add_bad_file(run)
        return known

    @classmethod
    def read_if_any(cls, storages: Sequence[Path], project: Path) -> KnownRuns:
        """Read the storages, or this board's if it exists: files may also name runs."""
        if not storages:
            own = board_storage()
            storages = [own] if own.is_dir() else []
        return cls.read(storages, project)

    def find(self, reference: str) -> list[Run]:
        """Return the runs that the reference names, the oldest first."""
        return find_runs(reference, self.runs, self.project, self.add_bad_file)

    def add_bad_file(self, file: BadFile) -> None:
        """Name a damaged file on standard error, and keep it."""
        warn(file)
        self.bad_files.append(file)
