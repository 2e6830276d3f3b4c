"""The runs that a command's arguments can name: those in its storages, and any by its path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.commands.reply import warn
from reusebench.storage.board_storage import board_storage
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.references import find_runs
from reusebench.storage.run_file import BadFile, check_storage, storages_in
from reusebench.storage.runs import RunSummary

__all__ = ["KnownRuns", "board_storages"]


def board_storages(folder: Path) -> list[Path]:
    """Return the folder itself if it is a board's storage, otherwise all storages inside it."""
    check_storage(folder)
    return storages_in(folder)


@dataclass
class KnownRuns:
    """The runs of the storages."""

    stored: StoredRuns
    #: The checkout whose git revisions may be named.
    project: Path
    #: Damaged files of the storages, and of files that were named by their paths.
    bad_files: list[BadFile] = field(default_factory=list)

    @classmethod
    def read(cls, storages: Iterable[Path], project: Path = Path()) -> KnownRuns:
        """Open the storages; damaged files are named on standard error."""
        boards = [board for folder in storages for board in board_storages(folder)]
        known = cls(StoredRuns.open(boards), project)
        for file in known.stored.bad_files:
            known.add_bad_file(file)
        return known

    @classmethod
    def read_if_any(cls, storages: Sequence[Path], project: Path) -> KnownRuns:
        """Open the storages, or this board's if it exists: files may also name runs."""
        if not storages:
            own = board_storage()
            storages = [own] if own.is_dir() else []
        return cls.read(storages, project)

    @property
    def runs(self) -> Sequence[RunSummary]:
        """The runs of the storages: by storage, then by number."""
        return self.stored.runs

    def find(self, reference: str) -> list[RunSummary]:
        """Return the runs that the reference names, the oldest first."""
        return find_runs(reference, self.runs, self.project, self.add_bad_file)

    def add_bad_file(self, file: BadFile) -> None:
        """Name a damaged file on standard error, and keep it."""
        warn(file)
        self.bad_files.append(file)
