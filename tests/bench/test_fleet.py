"""`pytest bench/` on several boards side by side: two boards that are this machine by other names,
and others that cannot be measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.storage.run_file import StoredRun
from reusebench.targets.boards import Board, add_board
from tests.bench.bench_process import Bench, Done, repeated, wait_for

pytestmark = pytest.mark.process

#: A shell with a host name of its own.
_BOARD = ("unshare", "--user", "--map-root-user", "--uts", "sh", "-c")
_BOARDS = ("rock5a", "rock5b")
_FLEET = ("-p", "xdist.plugin", "--runtime=onnxruntime", "bench/test_dup.py")
_ONE = "-k=shared_context"


@pytest.fixture(autouse=True)
def _boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give two boards names, one of them a second name, and a name to a board that is not there."""
    if subprocess.run([*_BOARD, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace with a host name here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    words = " ".join(_BOARD)
    for name in (*_BOARDS, "again"):
        host = _BOARDS[0] if name == "again" else name
        (tmp_path / name).mkdir()
        address = f"pipe:{words} 'hostname {host}; exec sh'"
        add_board(name, Board(address, folder=str(tmp_path / name), python=sys.executable))
    add_board("gone", Board("pipe:false"))


def _run(done: Done) -> StoredRun:
    (run,) = done.runs()
    return run


def _outcomes(run: StoredRun) -> dict[str, str]:
    return {run.board_of(stored.info): stored.info.outcome for stored in run.results}


def test_boards_are_measured_side_by_side_into_one_run(bench: Bench) -> None:
    """Each board has its results, lines and machine; one that is not there does not stop the
    others, and its results are there with the reason.
    """
    done = bench.run(*_FLEET, _ONE, *repeated("--target", (*_BOARDS, "gone")))
    run = _run(done)
    assert done.code == 1, done.words
    assert _outcomes(run) == {"rock5a": "ok", "rock5b": "ok", "gone": "not_measured"}
    for stored in run.results:
        board = run.board_of(stored.info)
        assert stored.info.target == board
        machine = run.machines[board]
        assert (machine is None) == (board == "gone")
        if machine is not None:
            assert machine.reusebench.board == board
            assert f"{board} onnxruntime" in done.words
            for repeat in stored.info.repeats:
                assert (bench.storage / repeat.trace).is_file()
        else:
            assert "`false` ended (exit code 1)" in str(stored.info.failure)
    assert run.is_finished
    assert len({stored.info.run for stored in run.results}) == 1
    assert "gone: not measured: pipe:false: `false` ended (exit code 1)" in done.words
    assert "2 passed" in done.words


def test_one_board_by_two_names(bench: Bench) -> None:
    """It would be measured twice at the same time: the session ends before anything is."""
    done = bench.run(*_FLEET, _ONE, *repeated("--target", (_BOARDS[0], "again")))
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert "are one board: leave one out" in done.words
    assert done.runs() == []


def test_an_interrupt_ends_all_boards(bench: Bench) -> None:
    """What was measured is stored, and the boards are given back."""
    process = bench.start(*_FLEET, *repeated("--target", _BOARDS))

    def written() -> bool:
        return any(bench.storage.glob("*/*.json"))

    wait_for(written)
    os.kill(process.pid, signal.SIGINT)
    done = bench.finish(process)
    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    run = _run(done)
    assert run.is_finished
    assert set(_outcomes(run).values()) == {"ok"}
    assert "Traceback" not in done.words
