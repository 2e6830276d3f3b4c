"""The same plan on the same virtual board, driven locally in Python and remotely over ssh: equal
figures.

It runs if reusebench/rknn in the user's cache has librknnmrt, reusebench/models an .rknn file for
RV1106, and the virtual board was installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import pytest

from reusebench.accounting.ledger import read_ledger
from reusebench.measured.runtimes import find_runtime
from reusebench.samplers.observer import Observer
from reusebench.system.cache import cache_root
from reusebench.targets.boards import Board
from reusebench.targets.errors import TargetError
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.target import far_target
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.target import Target
from tests.helpers.board import PYTHON, running_board
from tests.helpers.far_servers import HOSTS, openssh
from tests.helpers.support import known, make_plan, walk

pytestmark = pytest.mark.process

# Read when the tests are collected, before any test has a cache of its own.
_LIBRARY = cache_root() / "rknn" / "librknnmrt.so"
_MODELS = sorted((cache_root() / "models").glob("mobilenet_v2-96-*-rv1106-*.rknn"))
_RKNN = find_runtime("rknn")
#: PSS counts in pages, and an emulator translates a little more or less from run to run.
_EQUAL = 0.01
_REPEATS = 3


@pytest.fixture(scope="module")
def near() -> Target:
    """Return the virtual board on this machine."""
    if not _LIBRARY.is_file() or not _MODELS:
        pytest.skip("needs librknnmrt and a model for RV1106 in the cache")
    try:
        return parse_target(Selection("vboard:rv1106", _LIBRARY), _RKNN)
    except TargetError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def machine(near: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarMachine]:
    """Return a board with Python and the NPU of an RV1106, over ssh."""
    assert near.chip == "rv1106"
    board_folder = tmp_path_factory.mktemp("board")
    server_folder = tmp_path_factory.mktemp("ssh")
    with ExitStack() as resources:
        board = resources.enter_context(running_board(board_folder, PYTHON, "rv1106"))
        server = resources.enter_context(openssh(server_folder, board))
        monkeypatch = resources.enter_context(pytest.MonkeyPatch.context())
        monkeypatch.setenv("PATH", str(server.programs), prepend=":")
        machine = FarMachine("far", Board(f"ssh:{HOSTS.good}"), lambda _: None)
        resources.callback(machine.close)
        yield machine


class _Figures:
    """Figures of some walks of one plan."""

    def __init__(self, target: Target) -> None:
        self.npu_bytes: set[int] = set()
        over_import = []
        plan = make_plan(
            "no_reuse_one_model", _MODELS[0], streams=2, contexts=3, runtime="rknn", cores=1
        )
        for _ in range(_REPEATS):
            run = walk(plan, target, Observer(target.machine.host, 200))
            assert run.failure is None, run.failure
            barriers = {barrier.phase: barrier for barrier in run.barriers}
            self.npu_bytes.add(read_ledger(known(run.ledger)).live_bytes(barriers["steady"].at_ns))
            over_import.append(
                barriers["trimmed"].process.pss_bytes - barriers["imported"].process.pss_bytes
            )
        self.over_import_bytes = median(over_import)


@pytest.mark.parametrize("driver", ["python", "c"])
def test_near_and_far(near: Target, machine: FarMachine, driver: str) -> None:
    """NPU memory is equal to the byte for both drivers; PSS over the import within 1 % for the same
    driver.
    """
    far = _Figures(far_target(machine, None, _RKNN, driver))
    here = _Figures(parse_target(Selection("vboard:rv1106", _LIBRARY, driver=driver), _RKNN))
    assert far.npu_bytes == here.npu_bytes == _Figures(near).npu_bytes
    assert len(far.npu_bytes) == 1
    assert far.over_import_bytes == pytest.approx(here.over_import_bytes, rel=_EQUAL)
