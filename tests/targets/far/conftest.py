"""Boards to test against: servers on the loopback for the whole test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.adb_boards import AdbBoards, adb_boards
from tests.helpers.board import PYTHON, Board, running_board
from tests.helpers.far_servers import SshServer, dropbear, openssh

#: The program, and whether its sessions have the board's shell rather than this machine's.
_SERVERS = {
    "openssh": (openssh, False),
    "dropbear": (dropbear, False),
    "openssh-board": (openssh, True),
    "dropbear-board": (dropbear, True),
}


@pytest.fixture(scope="session", params=list(_SERVERS))
def ssh_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SshServer]:
    """Return each SSH server, whose sessions have the shell of this machine or of the board."""
    program, has_board = _SERVERS[request.param]
    board = request.getfixturevalue("board") if has_board else None
    with program(tmp_path_factory.mktemp("ssh"), board) as server:
        yield server


@pytest.fixture
def adb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbBoards]:
    """Return an adb to which no board is connected yet."""
    with adb_boards(tmp_path_factory.mktemp("adb")) as boards:
        yield boards


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Return a board without Python and without an NPU."""
    with running_board(tmp_path_factory.mktemp("board")) as board:
        yield board


@pytest.fixture(scope="session")
def python_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Return a board with Python and the NPU of an RV1106."""
    with running_board(tmp_path_factory.mktemp("board"), PYTHON, "rv1106") as board:
        yield board
