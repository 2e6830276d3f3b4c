"""Processes that end with the process that started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reusebench.system import processes
from reusebench.system.interrupts import Interrupted
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S

pytestmark = pytest.mark.process

#: Starts sys.argv[1:], which writes a line when it is ready, and then waits for its own end.
_OWNER = """
import sys, time
from reusebench.system import processes

started = processes.start(sys.argv[1:])
started.stdout.readline()
print(flush=True)
time.sleep(600)
"""
#: Ignores all requests to end, is busy, has a child, and writes both ids.
_DEAF = """
import os, pathlib, signal, sys, time

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = os.fork()
if not child:
    time.sleep(600)
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child}")
print(flush=True)
if sys.argv[2] == "stopped":
    os.kill(child, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
while True:
    pass
"""


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIME_LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _has_gone(pid: int) -> bool:
    """Whether the process has ended, zombies included."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("state", ["busy", "stopped"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_it_ends_with_its_owner(number: int, state: str, tmp_path: Path) -> None:
    """A process and its descendants end with its owner, however the owner ends, even if stuck."""
    ids = tmp_path / "ids"
    words = [sys.executable, "-c", _OWNER, sys.executable, "-c", _DEAF, str(ids), state]
    with subprocess.Popen(words, cwd=CHECKOUT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"\n"
        owner.send_signal(number)
        owner.wait(TIME_LIMIT_S)
    _wait_until(lambda: all(map(_has_gone, map(int, ids.read_text().split()))))


def test_it_does_not_begin_without_its_owner() -> None:
    """The owner may have ended before the kernel was told to end its process."""
    pid = os.fork()
    if not pid:
        processes.end_with(parent=1 << 30)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_the_end_of_a_program_is_that_of_all_it_started() -> None:
    """Processes left behind in its session are killed; its output is returned."""
    done = processes.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!; echo no >&2; exit 3"])
    assert (done.returncode, done.stderr) == (3, "no\n")
    _wait_until(lambda: _has_gone(int(done.stdout)))


def test_a_program_that_takes_too_long(tmp_path: Path) -> None:
    """The program and its children are killed."""
    pids = tmp_path / "pids"
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(["sh", "-c", f"sleep 600 & echo $! $$ > {pids}; wait"], time_limit_s=0.5)
    _wait_until(lambda: all(map(_has_gone, map(int, pids.read_text().split()))))


def test_signals_are_passed_on() -> None:
    """A program in the terminal ends in its own way; then this one is interrupted."""
    with pytest.raises(Interrupted) as interrupt:
        processes.run_in_terminal(
            ["sh", "-c", f"trap 'exit 3' TERM; kill -TERM {os.getpid()}; sleep 600 & wait"]
        )
    assert interrupt.value.number == signal.SIGTERM


def _shells(mark: str) -> list[int]:
    """Return the processes with this text in their environment, without this one."""
    own = [process.pid for process in psutil.process_iter() if _is_marked(process, mark)]
    return [pid for pid in own if pid != os.getpid()]


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("REUSEBENCH_TEST") == mark
    except psutil.Error:
        return False


def test_the_shell_is_started_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The shell may be killed; it is no child of this process, and ends with it."""
    monkeypatch.setenv("REUSEBENCH_TEST", str(tmp_path))
    code = (
        "import os, signal, sys, psutil; from reusebench.system import processes;"
        " processes.watch_ends();assert not psutil.Process().children();print(flush=True);"
        " sys.stdin.readline(); assert processes.run(['true']).returncode == 0;print(flush=True);"
        " sys.stdin.readline()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=CHECKOUT, stdin=pipe, stdout=pipe
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"\n"
        (shell,) = set(_shells(str(tmp_path))) - {owner.pid}
        os.kill(shell, signal.SIGKILL)
        _wait_until(lambda: _has_gone(shell))
        owner.stdin.write(b"\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == b"\n"
        assert len(set(_shells(str(tmp_path))) - {owner.pid}) == 1
    _wait_until(lambda: not _shells(str(tmp_path)))
