"""The boards that the user has named."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.targets.boards import Board, add_board, boards, remove_board
from reusebench.targets.errors import TargetError


@pytest.fixture(autouse=True)
def configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the file with the names."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "reusebench" / "boards.json"


def test_boards_are_remembered() -> None:
    """A board is kept as it was given until it is removed; a second one replaces it."""
    assert boards() == {}
    add_board("rv1106", Board("ssh:root@192.168.1.5", folder="/userdata"))
    add_board("rock", Board("adb:1234", python="/opt/venv/bin/python"))
    add_board("rv1106", Board("ssh:luckfox"))
    assert boards() == {
        "rv1106": Board("ssh:luckfox"),
        "rock": Board("adb:1234", python="/opt/venv/bin/python"),
    }
    remove_board("rv1106")
    assert list(boards()) == ["rock"]
    with pytest.raises(TargetError, match=r"there is no board 'rv1106'; known: rock$"):
        remove_board("rv1106")


@pytest.mark.parametrize("name", ["", "a b", "-x", "../x", "ssh", "python", "adb", "board"])
def test_names_that_cannot_be(name: str) -> None:
    """Values that --target takes by itself, and text that is not a plain word."""
    with pytest.raises(TargetError, match=r"cannot be a board's name; valid: "):
        add_board(name, Board("ssh:host"))


def test_a_file_that_cannot_be_read(configuration: Path) -> None:
    """The error names the file and says what to do."""
    configuration.parent.mkdir()
    configuration.write_text("{")
    with pytest.raises(TargetError, match=r"boards\.json, .* cannot be read: .*Mend or remove it$"):
        boards()
