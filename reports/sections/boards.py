"""Boards that have measured the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reusebench.reports.base.drawing import Draw
from reusebench.reports.boards.boards import ComparedBoards, board_names, compared_boards
from reusebench.reports.boards.figure import boards_figure
from reusebench.reports.boards.table import boards_table
from reusebench.reports.sections.section import Page, Section, Values


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
    """Return a sentence for each board that the newest shown run of several could not measure."""
    results = page.material.results
    shown = {row.file.path for row in page.rows}
    fleets = []
    for number in results.newest_first:
        run = results.runs[number]
        if len(run.boards) > 1 and run.path in shown:
            fleets.append(number)
    if not fleets:
        return []
    positions: dict[str, int] = {}
    for place, summary in results.summaries(fleets[:1]):
        if not summary.has_machine:
            positions.setdefault(summary.board, place.position)
    if not positions:
        return []
    file = results.read(fleets[0], set(positions.values()))
    sentences = []
    for stored in file.results:
        failure = stored.info.failure
        if failure:
            board = file.board_of(stored.info)
            reason = page.texts.message(failure.message)
            sentences.append(page.texts("boards_not_measured", board=board, reason=reason))
    return sentences
