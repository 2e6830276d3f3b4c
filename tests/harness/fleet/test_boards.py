"""The boards of a session: which targets can be measured side by side."""

from __future__ import annotations

import pytest

from reusebench.harness.errors import UserError
from reusebench.harness.fleet.boards import fleet_boards


def test_each_board_has_a_name() -> None:
    """Names of tests have it; a labgrid tag that comes again takes another place."""
    targets = ("ssh:root@10.0.0.2", "labgrid:tag=rk3588", "labgrid:tag=rk3588", "vboard:rk3588")
    boards = fleet_boards(targets)
    assert [board.label for board in boards] == [
        "ssh-root-10.0.0.2",
        "labgrid-tag-rk3588",
        "labgrid-tag-rk3588-2",
        "vboard-rk3588",
    ]
    assert [board.is_local for board in boards] == [False, False, False, True]


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (("ssh:a", "ssh:a"), "--target ssh:a is named twice"),
        (("labgrid:a", "labgrid:a"), "--target labgrid:a is named twice"),
        (("python", "vboard:rk3588"), "are both on this machine"),
        (("vboard:rk3588", "board"), "are both on this machine"),
        (("python", "python:/usr/bin/python3"), "are both on this machine"),
    ],
)
def test_targets_that_cannot_be_measured_side_by_side(
    targets: tuple[str, ...], problem: str
) -> None:
    """A board is measured once; this machine is not measured beside a virtual board on it."""
    with pytest.raises(UserError, match=problem):
        fleet_boards(targets)


def test_this_machine_beside_remote_boards_and_virtual_boards_together() -> None:
    """Remote boards disturb nothing here; virtual boards take turns."""
    assert len(fleet_boards(("python", "ssh:a", "adb"))) == 3
    assert len(fleet_boards(("vboard:rk3588", "vboard:rk3566", "adb:1234"))) == 3
