"""The boards of a session with several --target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.harness.errors import UserError
from reusebench.storage.board_storage import far_board_name
from reusebench.targets.labgrid import is_tag
from reusebench.targets.resolve import is_far, is_virtual

__all__ = ["FleetBoard", "fleet_boards"]


@dataclass(frozen=True)
class FleetBoard:
    """One of the boards."""

    #: Value of --target.
    target: str
    #: Name of its worker, and in the names of its tests.
    label: str

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, or a virtual board on it."""
        return not is_far(self.target)


def fleet_boards(targets: Sequence[str]) -> tuple[FleetBoard, ...]:
    """Return the boards; raise UserError if two targets cannot be measured side by side.

    A labgrid tag may come several times: each takes another place.
    """
    counts: Counter[str] = Counter()
    boards = []
    for target in targets:
        name = far_board_name(target)
        counts[name] += 1
        if counts[name] > 1:
            if not is_tag(target):
                raise UserError(
                    f"--target {target} is named twice: a board is measured once. Leave one out"
                )
            name = f"{name}-{counts[name]}"
        boards.append(FleetBoard(target, name))

    here = [board.target for board in boards if board.is_local]
    real = [target for target in here if not is_virtual(target)]
    if real and len(here) > 1:
        other = next(target for target in here if target != real[0])
        raise UserError(
            f"--target {real[0]} and --target {other} are both on this machine, and would disturb"
            " each other: measure them in two sessions"
        )
    return tuple(boards)
