"""Configurations that several boards have measured: the rows of each, board by board."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reusebench.reports.results.rows import Group, Row

#: Beginning of the targets that are virtual boards.
_VIRTUAL = "vboard:"
_Key = tuple[str, str, int, int, tuple[str, ...]]


@dataclass(frozen=True)
class ComparedBoards:
    """One configuration, and the newest result of each board that has it."""

    #: Key: the name of the board.
    rows: dict[str, Row]

    @property
    def first(self) -> Row:
        """The row of one board: all are of the same scenario, runtime and models."""
        return next(iter(self.rows.values()))


def compared_boards(groups: Iterable[Group]) -> list[ComparedBoards]:
    """Return the configurations that two or more boards have; the groups come newest first."""
    rows: dict[_Key, dict[str, Row]] = {}
    for group in groups:
        for row in group.rows:
            rows.setdefault(_key(row), {}).setdefault(board_name(row), row)
    compared = []
    for boards in rows.values():
        if len(boards) > 1 and any(row.measured for row in boards.values()):
            compared.append(ComparedBoards(dict(sorted(boards.items()))))
    return sorted(compared, key=lambda boards: boards.first.stored_scenario.sort_key)


def board_names(compared: Iterable[ComparedBoards]) -> list[str]:
    """Return the names of all compared boards."""
    names: set[str] = set()
    for boards in compared:
        names.update(boards.rows)
    return sorted(names)


def board_name(row: Row) -> str:
    """Return the board of a row; virtual boards of one machine are told apart by their chips."""
    target = row.info.target
    return target if target.startswith(_VIRTUAL) else row.file.board


def _key(row: Row) -> _Key:
    info = row.info
    models = tuple(model.digest for model in info.models)
    return info.runtime, row.scenario, info.streams, info.contexts, models
