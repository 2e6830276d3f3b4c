"""The name of a board is that of its storage."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from storage import board
from storage.board import board_name, board_storage


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
def test_the_name_is_a_safe_file_name(host: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the host is called, the storage is one plain folder."""
    monkeypatch.setattr(platform, "node", lambda: host)
    assert re.fullmatch(rf"{start}(-[0-9a-f]{{6}})?", board_name())
    assert board_storage() == Path(".benchmarks") / board_name()


def test_boards_of_one_image_have_different_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They have the same host name, but a machine id of their own, which is not in the name; it may be missing."""
    monkeypatch.setattr(platform, "node", lambda: "rock5b")
    names = []
    for machine in ("0123456789abcdef", "fedcba9876543210"):
        path = tmp_path / machine
        path.write_text(machine)
        monkeypatch.setattr(board, "_MACHINE_ID", path)
        names.append(board_name())
        assert machine[:6] not in names[-1]
    assert len(set(names)) == 2
    monkeypatch.setattr(board, "_MACHINE_ID", tmp_path / "missing")
    assert board_name() == "rock5b"
