"""`reusebench board`: its options, sentences and mistakes; the installation itself is tested with
the targets.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reusebench.commands import board
from reusebench.targets.programs import NativeProgram
from reusebench.targets.rknn_library import architecture_of_this_python
from tests.helpers.far_shell import shell_at
from tests.helpers.support import Ended, Reusebench
from tests.targets.library_files import write_library

pytestmark = pytest.mark.process


def test_the_virtual_board_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """The options arrive, and the chips that there are then are printed."""
    installed = []
    monkeypatch.setattr(
        board,
        "install_virtual_board",
        lambda *given: installed.append((given[0].library, given[1])),
    )
    path = write_library(tmp_path / "library.so", "librknnmrt")
    done = reusebench("board", "install", "--rknn-library", path, "--apt-sources", "ports.list")
    assert done == Ended(0, "librknnmrt 1.6.0 (armhf) runs on vboard:rv1103, vboard:rv1106\n", "")
    done = reusebench("board", "install", "--rknn-library", path, "--chip", "rv1106")
    assert done == Ended(0, "librknnmrt 1.6.0 (armhf) runs on vboard:rv1106\n", "")
    assert installed == [(path, Path("ports.list")), (path, None)]


def test_the_ledger_is_compiled(monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench) -> None:
    """The ledger is built for this Python's processor; an unsupported one is an error."""
    compiled = []
    monkeypatch.setattr(
        NativeProgram, "ensure", lambda program, form, _: compiled.append((program.name, form))
    )
    assert reusebench("board", "install-ledger") == Ended(0, "--target board is ready\n", "")
    assert compiled == [("preload", architecture_of_this_python())]
    monkeypatch.setattr(board, "architecture_of_this_python", lambda: None)
    done = reusebench("board", "install-ledger")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith(
        "Error: the library that keeps the ledger is not made for this Python's processor"
    )


def test_a_board_far_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reusebench: Reusebench
) -> None:
    """It is reached before it has a name; what was put there is removed again."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    (tmp_path / "home").mkdir()
    address = shell_at(tmp_path / "home")
    done = reusebench("board", "add", "here", address, "--python", sys.executable)
    assert (done.exit_code, done.err) == (0, "")
    assert "ONNX Runtime: measured by the driver in Python" in done.out
    assert "--target here is ready" in done.out
    name, listed = reusebench("board", "list").out.splitlines()[-1].split(maxsplit=1)
    assert (name, listed.endswith(sys.executable)) == ("here", True)
    pushed = tmp_path / "home" / ".cache" / "reusebench-board"
    assert (pushed / "files").is_dir()
    done = reusebench("board", "clean", "here")
    assert (done.exit_code, f"{pushed} is removed" in done.out, pushed.exists()) == (0, True, False)
    assert reusebench("board", "remove", "here").exit_code == 0
    assert "no board has a name yet" in reusebench("board", "list").out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["install", "--rknn-library", "/none"], "Error: --rknn-library /none: it does not exist"),
        (
            ["install", "--rknn-library", "{library}", "--chip", "rv1106"],
            "this is librknnrt, and rv1106 needs librknnm",
        ),
        (
            ["install", "--rknn-library", "{library}", "--chip", "moon"],
            "'moon' is not one of 'rk3562'",
        ),
        (["install"], "give a board (its name, or ssh:HOST, adb, adb:SERIAL, "),
        (["install", "moon"], "Error: moon is not a remote board; valid: ssh:HOST, "),
        (["clean", "moon"], "Error: moon is not a remote board"),
        (["remove", "moon"], "Error: there is no board 'moon'; known: none"),
        (["add", "ssh", "pipe:sh"], "Error: 'ssh' cannot be a board's name"),
        (["add", "moon", "pipe:false"], "`false` ended (exit code 1)"),
        (["add", "moon", "tcp:1"], "Error: 'tcp:1' is not a remote board; valid are ssh:HOST, "),
        (["fly"], "there is no command 'fly'; valid: "),
    ],
)
def test_mistakes(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    sentence: str,
    reusebench: Reusebench,
) -> None:
    """They end with exit code 2, and what is valid; nothing is installed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    library = write_library(tmp_path / "library.so")
    done = reusebench("board", *(argument.format(library=library) for argument in arguments))
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err
