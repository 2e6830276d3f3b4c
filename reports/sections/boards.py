"""Boards that have measured the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reusebench.reports.base.drawing import Draw
from reusebench.reports.boards.boards import ComparedBoards, board_names, compared_boards
from reusebench.reports.boards.figure import boards_figure
from reusebench.reports.boards.table import boards_table
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.storage.run_file import StoredRun


class BoardsSection(Section):
    """Memory and latency of each configuration, board by board."""

    name = "boards"

    def applies(self, page: Page) -> bool:
        """Whether several boards have measured the same."""
        return bool(page.groups and _compared(page))

    def summary(self, page: Page) -> str:
        """Return the number of boards and of what they have measured."""
        compared = _compared(page)
        return page.texts(
            "boards_summary", boards=len(board_names(compared)), configurations=len(compared)
        )

    def values(self, page: Page) -> Values:
        """Return the table, the name of the figure, and the boards that were not measured."""
        compared = _compared(page)
        return {
            "table": boards_table(compared, page.texts),
            "figure": self.name,
            "sentences": _not_measured(page),
        }

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return the figure of all boards."""
        return {self.name: partial(boards_figure, _compared(page), page.texts)}


def _compared(page: Page) -> Sequence[ComparedBoards]:
    return compared_boards(page.material.groups)


def _not_measured(page: Page) -> list[str]:
    """Return a sentence for each board that the newest run of several boards could not measure."""
    files = [file for file in page.material.files if file.machines]
    newest = max(files, key=lambda file: file.order, default=None)
    if newest is None:
        return []
    return [
        page.texts("boards_not_measured", board=board, reason=_reason(newest, board, page))
        for board, machine in newest.machines.items()
        if machine is None
    ]


def _reason(file: StoredRun, board: str, page: Page) -> str:
    """Return the reason of a board that was not measured: all its results have the same."""
    for stored in file.results:
        failure = stored.info.failure
        if failure and file.board_of(stored.info) == board:
            return page.texts.message(failure.message)
    return ""
