"""`python -m reports`: the comparison of stored runs, in the terminal, as one HTML page and as tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from reports.comparison import Group, compare
from reports.errors import NoResults, NoStorage, OutputNotWritable, ReportError, SeveralBoards
from reports.material import Material
from reports.page import write_pages
from reports.published import published_rows
from reports.tables import write_tables
from reports.terminal import print_group
from reports.texts import texts_of
from storage.board import board_storage
from storage.files import BadFile, StoredFile, read_storage
from storage.mechanisms import read_trials

__all__ = ["main"]

_OUTPUT = Path("out/report")
#: Files of runs in a storage. Their names begin with a number; those of other files, a board's trials too, do not.
_RUNS = "*/[0-9]*.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report; exit code 1 where a stored file could not be read, 2 where there is no report."""
    options = _parser().parse_args(arguments)
    console = Console()
    try:
        bad_files = _report(options.storage, options.output, console)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2
    for file in bad_files:
        print(f"reports: {file}", file=sys.stderr)
    return 1 if bad_files else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m reports", description="Report on stored runs; runs nothing itself.")
    parser.add_argument("--storage", type=Path, metavar="DIR", help="storage of one board; default: this board's")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", default=_OUTPUT, help=f"folder of the report; default: {_OUTPUT}"
    )
    return parser


def _report(storage: Path | None, output: Path, console: Console) -> list[BadFile]:
    """Write everything into the output folder and return the stored files that could not be read."""
    folder = _one_board(storage or board_storage())
    found = list(read_storage(folder))
    files = [file for file in found if isinstance(file, StoredFile)]
    bad_files = [file for file in found if isinstance(file, BadFile)]
    material = Material(compare(files), published_rows(), read_trials(folder), bad_files)
    if not material.groups:
        for file in bad_files:
            print(f"reports: {file}", file=sys.stderr)
        raise NoResults(folder)
    try:
        page = write_pages(material, output)
        write_tables(material, output / "tables")
    except OSError as error:
        raise OutputNotWritable(output, error) from None
    for group in _of_newest_run(material.groups):
        print_group(group, texts_of("en"), console)
    console.print(f"\nReport: {page}", highlight=False, soft_wrap=True)
    return bad_files


def _one_board(folder: Path) -> Path:
    """Return the storage of one board: the folder itself, or the only one inside it."""
    if not folder.is_dir():
        raise NoStorage(folder)
    if any(folder.glob(_RUNS)):
        return folder
    boards = sorted({path.parent.parent for path in folder.glob(f"*/{_RUNS}")})
    if len(boards) > 1:
        raise SeveralBoards(folder, boards)
    return boards[0] if boards else folder


def _of_newest_run(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that the newest run has measured; the page shows the older ones too."""
    newest = groups[0].newest.path
    return [group for group in groups if any(row.file.path == newest for row in group.rows)]


if __name__ == "__main__":
    sys.exit(main())
