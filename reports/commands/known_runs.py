"""The runs that a command may speak of: those of its storages, and those that a user names by a path."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.commands.options import add_storage
from reports.page.reading import boards_in
from storage.board import board_storage
from storage.references import RunsError, find_runs
from storage.run_file import BadFile
from storage.runs import Run, read_runs

__all__ = ["KnownRuns", "add_run_options"]


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare where runs are looked for."""
    add_storage(parser)
    parser.add_argument(
        "--project",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="checkout whose git revisions may be named; default: the working folder",
    )


@dataclass(frozen=True)
class KnownRuns:
    """The runs of the storages."""

    runs: Sequence[Run]
    #: Also of a storage that was named by its path.
    bad_files: list[BadFile]
    project: Path

    @classmethod
    def of(cls, options: argparse.Namespace) -> KnownRuns:
        """Read the storages that the options name; this board's need not be there: runs may be named by their files."""
        here = [path for path in [board_storage()] if path.is_dir()]
        return cls.read(options.storage or here, options.project)

    @classmethod
    def read(cls, storages: Iterable[Path], project: Path = Path()) -> KnownRuns:
        """Read the storages; damaged files are named on standard error."""
        found = [each for storage in storages for folder in boards_in(storage) for each in read_runs(folder)]
        known = cls([each for each in found if isinstance(each, Run)], [], project)
        for each in found:
            if isinstance(each, BadFile):
                known.tell(each)
        return known

    def find(self, words: str) -> list[Run]:
        """Return the runs that the words mean, the oldest first, or raise StorageError."""
        return find_runs(words, self.runs, self.project, self.tell)

    def tell(self, file: BadFile) -> None:
        """Name a damaged file."""
        print(f"reports: {file}", file=sys.stderr)
        self.bad_files.append(file)
