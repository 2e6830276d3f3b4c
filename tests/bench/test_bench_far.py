"""`pytest bench/` on a remote board whose connection breaks: a real server with a real runtime."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.system.cache import cache_root
from reusebench.targets.boards import Board, add_board
from reusebench.targets.far.connection import connect
from reusebench.targets.far.pushed_files import FarFiles
from tests.bench.bench_process import Bench, wait_for
from tests.helpers import board
from tests.helpers.far_servers import HOSTS, SshServer, openssh, wait_until_idle
from tests.helpers.support import known

pytestmark = pytest.mark.process

_ON_FAR_BOARD = ("--target=far", "--runtime=onnxruntime", "bench/test_dup.py")

#: Points at which the connection breaks: by configuration the phase, and whether the client ends or
#: the server's process.
_BREAKS = {
    "partial_dup": ("imported", True),
    "full_dup": ("context", False),
    "shared_context": ("steady", True),
}
#: All measured configurations, in order.
_OUTCOMES = {
    "no_reuse": "ok",
    **dict.fromkeys(_BREAKS, "connection_lost"),
    "full_dup_internal_reuse": "ok",
}

#: A board of another machine, and configurations with different plans that its library measures.
_CHIP = "rv1106"
_RESTARTED = ("--runtime=rknn", "-k=external_internal or in_turn or lean_internal")
# Read when the tests are collected, before any test has a cache of its own.
_CACHE = cache_root()

#: A plugin that breaks something: by the number of the measured process, the event that it waits
#: for and the code that breaks.
_BREAK = """
import os, psutil
from reusebench.targets.far.process import FarProcess

breaks = {breaks!r}
receive = FarProcess.receive
measured = []

def receive_and_break(self, timeout_s):
    output = receive(self, timeout_s)
    if b"barrier" in (output or b"") and self.pid not in measured:
        measured.append(self.pid)
    words, action = breaks.get(len(measured), (None, None))
    if words and words in (output or b""):
        del breaks[len(measured)]
        exec(action)
    return output

FarProcess.receive = receive_and_break
"""
_KILL_SSH_OF = (
    "[child.kill() for child in psutil.Process({pid}).children() if child.name().startswith('ssh')]"
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """Return a server of a board that has the name, and this Python."""
    (tmp_path / "ssh").mkdir()
    with openssh(tmp_path / "ssh") as server:
        monkeypatch.setenv("PATH", str(server.programs), prepend=":")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
        add_board("far", Board(f"ssh:{HOSTS.good}", folder=str(server.home), python=sys.executable))
        yield server


def test_a_connection_that_breaks_is_a_result(bench: Bench, server: SshServer) -> None:
    """The configuration fails during which the connection broke; the others are measured, and no
    process is left.

    No model is named: a built-in network is measured.
    """
    breaks = {}
    for number, (phase, is_client) in enumerate(_BREAKS.values(), 2):
        kill = _KILL_SSH_OF.format(pid="os.getpid()" if is_client else server.pid)
        breaks[number] = (f'"phase": "{phase}"'.encode(), kill)
    plugin = bench.plugin("breaks", _BREAK.format(breaks=breaks))
    done = bench.run(*_ON_FAR_BOARD, "-k=not one_model", *plugin)
    assert done.code == 1
    assert done.outcomes() == _OUTCOMES, done.words
    for name, (phase, is_client) in _BREAKS.items():
        assert known(done.results()[name].failure).phase == phase
        cause = (
            r"`ssh` ended \(signal 9\)"
            if is_client
            else r"the connection was closed \(.*\); did the board restart"
        )
        assert re.search(
            f"connection lost in phase '{phase}.*ssh:{HOSTS.good} was lost: {cause}", done.words
        )
    assert "Traceback" not in done.words
    wait_until_idle(server.processes)


def test_a_board_that_another_session_holds(bench: Bench, server: SshServer) -> None:
    """Nothing is measured at the same time; the other session's owner is told."""
    connection = connect(f"ssh:{HOSTS.good}", print, str(server.home))
    try:
        FarFiles(connection).lock()
        done = bench.run(*_ON_FAR_BOARD)
    finally:
        connection.close()
    assert done.code not in (0, 1)
    assert re.search(r"is in use by .*, since \d.*wait until it has ended", done.words)
    assert "Traceback" not in done.words
    assert done.runs() == []
    wait_until_idle(server.processes)


def test_a_board_that_is_off(bench: Bench, server: SshServer) -> None:
    """The session ends at once, with a remedy."""
    add_board("far", Board(f"ssh:{HOSTS.refused}"))
    done = bench.run(*_ON_FAR_BOARD)
    assert done.code not in (0, 1)
    assert "cannot be reached (Connection refused); is the board on" in done.words
    assert "Traceback" not in done.words
    assert server.processes() == {}


@pytest.fixture
def small_board(tmp_path: Path) -> Iterator[board.Board]:
    """Return a board with Rockchip's library and an NPU, but without Python."""
    with board.running_board(tmp_path, board.GLIBC, _CHIP) as small_board:
        if not list((small_board.root / "oem").rglob("librknn*.so")):
            pytest.skip(f"no library of Rockchip's for {_CHIP} in the user's cache")
        yield small_board


def test_a_board_that_restarts(bench: Bench, small_board: board.Board) -> None:
    """The configuration in progress is lost; the rest is measured when the board is back."""
    models = list((_CACHE / "models").glob(f"*-{_CHIP}-*.rknn"))
    if not models:
        pytest.skip(f"no model for {_CHIP} in {_CACHE / 'models'}")
    model = min(models, key=lambda path: path.stat().st_size)
    plugin = _BREAK.format(breaks={2: (b"steady", f"os.kill({small_board.init}, 9)")})
    target = (f"--target=pipe:{small_board.shell}", f"--model={model}", *_RESTARTED)
    process = bench.start(*target, *bench.plugin("breaks", plugin), cache=_CACHE.parent)
    wait_for(small_board.is_off)
    small_board.switch_off()
    small_board.switch_on()
    done = bench.finish(process)
    assert Counter(done.outcomes().values()) == {"ok": 2, "connection_lost": 1}, done.words
    wait_until_idle(small_board.processes)
