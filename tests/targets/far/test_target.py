"""A remote board as the target of Rockchip's runtime: its driver, library and ledger."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reusebench.measured.runtimes import find_runtime
from reusebench.targets.boards import Board
from reusebench.targets.errors import RuntimeMissing, TargetError
from reusebench.targets.far import target as far
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.target import far_target
from reusebench.targets.protocol.base import PYTHON, C
from tests.helpers.far_shell import shell_at
from tests.helpers.support import make_plan, walk
from tests.targets.library_files import write_library

pytestmark = pytest.mark.process

_RKNN = find_runtime("rknn")
_VERSION = "librknnrt version: 2.3.2 (429f97ae6b@2025-04-09T09:09:27)"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FarMachine]:
    """Return this machine as a remote board, with this Python."""
    (tmp_path / "home").mkdir()
    machine = FarMachine(
        "here", Board(shell_at(tmp_path / "home"), python=sys.executable), lambda _: None
    )
    yield machine
    machine.close()


def test_the_drivers(machine: FarMachine, rknn_double: Callable[..., Path], tmp_path: Path) -> None:
    """The Python driver is preferred if the board has Python.

    Both drivers run a plan there with the pushed library.
    """
    library = rknn_double(_VERSION)
    (tmp_path / "model.rknn").write_text("9000 5000 1")
    plan = make_plan("full_dup", tmp_path / "model.rknn", runtime="rknn")
    by_itself = far_target(machine, library, _RKNN, None)
    assert by_itself.protocol.driver == PYTHON
    runs = {}
    for driver in (PYTHON, C):
        target = far_target(machine, library, _RKNN, driver)
        assert (target.protocol.driver, target.keeps_ledger, target.architecture) == (
            driver,
            True,
            machine.architecture,
        )
        assert driver == PYTHON or not target.decodes
        runs[driver] = walk(plan, target)
        assert runs[driver].failure is None, runs[driver].failure
    told = []
    for run in runs.values():
        told.append(
            [(barrier.phase, barrier.data.digest, barrier.data.account) for barrier in run.barriers]
        )
    assert told[0] == told[1]
    assert b'"mode":"pass-through"' in (runs[C].ledger or b"")


def test_a_board_without_python_has_the_driver_in_c(
    tmp_path: Path, rknn_double: Callable[..., Path]
) -> None:
    """The Python driver is refused there."""
    machine = FarMachine("here", Board(shell_at(tmp_path), python="/no/python"), lambda _: None)
    library = rknn_double(_VERSION)
    assert far_target(machine, library, _RKNN, None).protocol.driver == C
    with pytest.raises(
        TargetError, match=r"^--driver python: here has no Python from 3\.8 on\. Leave it out: "
    ):
        far_target(machine, library, _RKNN, PYTHON)
    machine.close()


def test_libraries_that_cannot_be(
    machine: FarMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing library, another architecture, and another chip each have their sentence."""
    monkeypatch.setattr(far, "usual_paths", lambda: [str(tmp_path / "none.so")])
    with pytest.raises(
        RuntimeMissing, match="here has no library of Rockchip's in the usual folders"
    ):
        far_target(machine, None, _RKNN, None)
    foreign = {"x86_64": "aarch64", "aarch64": "x86_64", "armhf": "x86_64"}[machine.architecture]
    other = write_library(tmp_path / "other.so", architecture=foreign)
    with pytest.raises(
        TargetError,
        match=f"is for {foreign}, and the programs of here are for {machine.architecture}",
    ):
        far_target(machine, other, _RKNN, None)
    monkeypatch.setattr(far, "chip_of", lambda _: "rv1106")
    own = write_library(tmp_path / "own.so", architecture=machine.architecture)
    with pytest.raises(TargetError, match="is librknnrt, and rv1106 needs librknnmrt"):
        far_target(machine, own, _RKNN, None)


def test_the_boards_own_library(
    machine: FarMachine,
    rknn_double: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It is found in the board's usual folders, and used in place."""
    own = tmp_path / "librknnrt.so"
    own.symlink_to(rknn_double(_VERSION))
    monkeypatch.setattr(far, "usual_paths", lambda: [str(tmp_path / "none.so"), str(own)])
    library = far.library_of_board(machine)
    assert (library.path, library.version) == (own, "2.3.2")
