"""The board in a namespace: programs run there as on a board of another architecture."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.targets import boards
from reusebench.targets.errors import TargetError
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.programs import DRIVER, PRELOAD, uclibc_preload
from reusebench.targets.programs import UCLIBC as FORM_OF_UCLIBC
from reusebench.targets.protocol.c_driver import C_PROTOCOL
from reusebench.targets.target import Target
from tests.helpers.adb_boards import NEW, OLD, AdbBoards
from tests.helpers.board import NPU_VARIABLES, UCLIBC, Board, running_board
from tests.helpers.far_servers import wait_until_idle
from tests.helpers.support import TIME_LIMIT_S, known, make_plan, walk

pytestmark = pytest.mark.process

_NPU_CLIENT = Path(__file__).parent.parent / "npu_client.py"


def test_it_is_a_small_board(board: Board) -> None:
    """It has BusyBox's shell on another processor, its own processes and root, and no Python."""
    printed = board.run(
        "uname -m; id -u; readlink -f /bin/sh; command -v python3 bash || echo none; echo"
        " /proc/[0-9]*"
    )
    machine, user, shell, others, processes = printed.splitlines()
    assert (machine, user, shell, others) == ("armv7l", "0", "/bin/busybox", "none")
    assert len(processes.split()) < 5
    wait_until_idle(board.processes)


@pytest.mark.parametrize(("form", "code"), [(NEW, 7), (OLD, 0)])
def test_adb_gives_its_shell(adb: AdbBoards, board: Board, form: str, code: int) -> None:
    """Either form of adbd works."""
    adb.connect(form, str(board.shell))
    done = adb.run("shell", "uname -m; exit 7")
    assert (done.stdout.strip(), done.returncode) == (b"armv7l", code)


def test_what_runs_ends_with_its_power(tmp_path: Path) -> None:
    """All its processes end at once; its disk keeps its content for the next start."""
    with running_board(tmp_path) as board:
        with subprocess.Popen(
            [board.shell, "-c", "sleep 1000 & echo; exec sleep 1000"], stdout=-1
        ) as session:
            known(session.stdout).readline()
            board.run("echo kept > /userdata/file")
            running = len(board.processes())
            board.switch_off()
            assert session.wait(TIME_LIMIT_S) != 0
        assert running == 2
        board.switch_on()
        wait_until_idle(board.processes)
        assert board.run("cat /userdata/file; ls /tmp") == "kept\n"


def test_its_npu_is_below_what_is_preloaded(python_board: Board) -> None:
    """The board's ledger lists the buffers that its NPU gave, as on hardware."""
    home = python_board.root / "root"
    shutil.copy(PRELOAD.path("armhf"), home / "preload.so")
    shutil.copy(_NPU_CLIENT, home)
    python_board.run(
        f"cd /root; {NPU_VARIABLES}_LEDGER=npu.jsonl REUSEBENCH_LEDGER=ledger.jsonl"
        " LD_PRELOAD=/root/preload.so python3 -c 'import npu_client;"
        " npu_client.Npu().create(5000)'"
    )
    modes = []
    buffers = []
    for name in ("npu.jsonl", "ledger.jsonl"):
        start, create, *_ = map(json.loads, (home / name).read_text(encoding="ascii").splitlines())
        modes.append(start["mode"])
        buffers.append((create["event"], create["bytes"]))
    assert modes == ["virtual", "pass-through"]
    assert buffers == [("create", 8192)] * 2


def test_the_driver_in_c_runs_on_uclibc(tmp_path: Path) -> None:
    """The driver starts with the ledger's library, and reports what it cannot load.

    Nothing runs on the board afterwards.
    """
    try:
        DRIVER.ensure(FORM_OF_UCLIBC, lambda _: None)
    except TargetError as error:
        pytest.skip(str(error))
    model = tmp_path / "model.rknn"
    model.write_bytes(b"RKNN")
    with running_board(tmp_path, UCLIBC, "rv1106") as board:
        machine = FarMachine("far", boards.Board(f"pipe:{board.shell}"), lambda _: None)
        driver, preload = (
            machine.push(str(path)) for path in (DRIVER.path(FORM_OF_UCLIBC), uclibc_preload())
        )
        environment = {LIBRARY_VARIABLE: "/lib/none.so", "LD_PRELOAD": preload}
        target = Target(
            "far",
            (driver,),
            Path("/"),
            environment,
            machine=machine,
            protocol=C_PROTOCOL,
            decodes=False,
        )
        run = walk(make_plan("no_reuse", model, runtime="rknn"), target)
        machine.close()
        message = known(run.failure).message
        assert isinstance(message, Message)
        assert message.code == "rknn_not_a_library"
        wait_until_idle(board.processes)
