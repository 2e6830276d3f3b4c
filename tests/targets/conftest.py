"""The preload library, compiled once for this machine's architecture, and clients that use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.targets.compilers import Compiler, find_compiler
from reusebench.targets.programs import PRELOAD
from reusebench.targets.rknn_library import architecture_of_this_python
from tests.helpers.support import made_once
from tests.targets.preload_support import Ended, RunOnBoard, run_client


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """Return this machine's C compiler."""
    compiler = find_compiler(architecture_of_this_python() or "")
    if compiler is None:
        pytest.skip(
            "no C compiler: the preload library cannot be compiled here (Debian: apt install gcc)"
        )
    return compiler


@pytest.fixture(scope="session")
def preload(compiler: Compiler, shared_folder: Path) -> Path:
    """Return the preload library."""
    return _compiled_preload(compiler, shared_folder / "preload")


@pytest.fixture(scope="session")
def lower_preload(compiler: Compiler, shared_folder: Path) -> Path:
    """Return a second copy that simulates the board below the first one.

    It has variables of its own (LOWER_BOARD, ...).
    """
    return _compiled_preload(compiler, shared_folder / "lower", '-DVARIABLES="LOWER"')


def _compiled_preload(compiler: Compiler, folder: Path, *options: str) -> Path:
    form = architecture_of_this_python() or ""

    def compile_into(new: Path) -> None:
        new.mkdir()
        PRELOAD.compile(compiler, form, new, "-Werror", *options)

    return made_once(folder, compile_into) / PRELOAD.main


@pytest.fixture
def on_board(preload: Path, tmp_path: Path) -> RunOnBoard:
    """Return a function that runs a script on the virtual board with a new ledger.

    The script must succeed.
    """

    def run(script: str, chip: str = "rk3588", faults: str = "", memory: str = "") -> Ended:
        ledger = tmp_path / "ledger.jsonl"
        ledger.unlink(missing_ok=True)
        board = {
            "REUSEBENCH_BOARD": chip,
            "REUSEBENCH_FAULTS": faults,
            "REUSEBENCH_NPU_MEMORY": memory,
        }
        ended = run_client(script, preload, ledger, **board)
        assert ended.code == 0, ended.errors
        return ended

    return run


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give the test an empty cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
