"""Names of boards, which are also the names of their storages."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from reusebench.samplers.host import LOCAL_HOST, LocalHost
from reusebench.storage.board_storage import board_name, board_storage


@pytest.mark.parametrize(
    ("host", "start"),
    [
        ("orangepi5", "orangepi5"),
        ("Orange Pi 5.local", "orange-pi-5-local"),
        ("../../etc", "etc"),
        ("板子", "board"),
        ("", "board"),
        ("--x--", "x"),
    ],
)
def test_the_name_is_a_safe_file_name(host: str, start: str, tmp_path: Path) -> None:
    """Every host name gives one plain folder."""
    board = _board(tmp_path, host, "0123456789abcdef\n")
    assert re.fullmatch(rf"{start}-[0-9a-f]{{6}}", board_name(board))
    assert board_storage(board) == Path(".benchmarks") / board_name(board)


def test_boards_of_one_image_have_different_names(tmp_path: Path) -> None:
    """A digest of the machine id, if there is one, tells boards with one host name apart."""
    names = []
    for machine in ("0123456789abcdef", "fedcba9876543210"):
        names.append(board_name(_board(tmp_path / machine, "rock5b", machine)))
        assert machine[:6] not in names[-1]
    assert len(set(names)) == 2
    assert board_name(_board(tmp_path / "missing", "rock5b", None)) == "rock5b"


def test_this_machine() -> None:
    """The name begins with the host's own name, or is `board` if it has none."""
    start = re.sub("[^a-z0-9-]+", "-", platform.node().lower()).strip("-")
    assert board_name().startswith(start or "board")
    assert board_storage() == board_storage(LOCAL_HOST)


def _board(root: Path, host: str, machine_id: str | None) -> LocalHost:
    """Return a machine with this host name."""
    texts = {"proc/sys/kernel/hostname": f"{host}\n"} | (
        {} if machine_id is None else {"etc/machine-id": machine_id}
    )
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    return LocalHost(root)
