"""What changed on each board of a fleet, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.history.series import History, LevelChange, changes_of


@dataclass(frozen=True)
class BoardCounts:
    """The numbers of series of one board, by what they have."""

    name: str
    series: int
    #: Change points, and series with one.
    changes: int
    changed: int
    newest: LevelChange | None
    #: Series with a drift or a wave, and those with outliers.
    trends: int
    outliers: int

    @property
    def is_changed(self) -> bool:
        """Whether there is anything beside noise."""
        return bool(self.changed or self.trends or self.outliers)


def counts_by_board(histories: Sequence[History]) -> list[BoardCounts]:
    """Return the numbers of each board, those with most change points first."""
    members: dict[str, list[History]] = {}
    for history in histories:
        members.setdefault(history.series.board, []).append(history)
    boards = []
    for name, of_board in members.items():
        changes = changes_of(of_board)
        boards.append(
            BoardCounts(
                name,
                series=len(of_board),
                changes=len(changes),
                changed=sum(bool(history.changes) for history in of_board),
                newest=changes[0] if changes else None,
                trends=sum(history.has_trend for history in of_board),
                outliers=sum(bool(history.course.outliers) for history in of_board),
            )
        )
    return sorted(boards, key=lambda board: (-board.changes, -board.trends, -board.outliers))
