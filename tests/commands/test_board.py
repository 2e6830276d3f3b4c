"""`reusebench board`: its options, sentences and mistakes; the installation itself is tested with the targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import board
from targets.rknn_library import architecture_of_this_python
from tests.support import Ended, Reusebench
from tests.targets.library_files import write_library


def test_the_virtual_board_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """The options arrive, and the chips that there are then are printed."""
    installed = []
    monkeypatch.setattr(board, "install_virtual_board", lambda *given: installed.append((given[0].path, given[1])))
    path = write_library(tmp_path / "library.so", "librknnmrt")
    done = reusebench("board", "install", "--rknn-library", path, "--apt-sources", "ports.list")
    assert done == Ended(0, "librknnmrt 1.6.0 (armhf) runs on vboard:rv1103, vboard:rv1106\n", "")
    done = reusebench("board", "install", "--rknn-library", path, "--chip", "rv1106")
    assert done == Ended(0, "librknnmrt 1.6.0 (armhf) runs on vboard:rv1106\n", "")
    assert installed == [(path, Path("ports.list")), (path, None)]


def test_the_ledger_is_compiled(monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench) -> None:
    """For this Python's processor; one that it is not made for is an error."""
    compiled = []
    monkeypatch.setattr(board, "ensure_preload", lambda architecture, _: compiled.append(architecture))
    assert reusebench("board", "install-ledger") == Ended(0, "--target board is ready\n", "")
    assert compiled == [architecture_of_this_python()]
    monkeypatch.setattr(board, "architecture_of_this_python", lambda: None)
    done = reusebench("board", "install-ledger")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith("Error: the library that keeps the ledger is not made for this Python's processor")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["install", "--rknn-library", "/none"], "Error: --rknn-library /none: No such file"),
        (
            ["install", "--rknn-library", "{library}", "--chip", "rv1106"],
            "this is librknnrt, and rv1106 needs librknnm",
        ),
        (["install", "--rknn-library", "{library}", "--chip", "moon"], "'moon' is not one of 'rk3562'"),
        (["install"], "Missing option '--rknn-library'"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_mistakes(tmp_path: Path, arguments: list[str], sentence: str, reusebench: Reusebench) -> None:
    """They end with exit code 2, and what is valid; nothing is installed."""
    library = write_library(tmp_path / "library.so")
    done = reusebench("board", *(argument.format(library=library) for argument in arguments))
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err
