"""A connection that breaks: in every phase there is one sentence, and no process stays."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reusebench.targets.errors import ConnectionLost, TargetError
from reusebench.targets.far.connection import Connection, connect
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.pushed_files import FarFiles
from tests.helpers.far_shell import connected, output_of, shell_at, wait_until_gone
from tests.helpers.support import TIME_LIMIT_S

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with connected(tmp_path) as connection:
        yield connection


@pytest.mark.parametrize("passed_bytes", [0, 10, 300, 900, 1500, 5000, 10_000, 15_000])
def test_a_connection_that_ends_while_it_is_made(tmp_path: Path, passed_bytes: int) -> None:
    """A sentence reports the end of the board's input, in a question or in the reader's program."""
    target = f'pipe:sh -c "dd bs=1 count={passed_bytes} 2>/dev/null | HOME={tmp_path} sh"'
    with pytest.raises(TargetError, match="`sh` ended") as caught:
        connect(target, print)
    assert not isinstance(caught.value, ConnectionLost)
    with connected(tmp_path):
        pass


_WORK: dict[str, Callable[[Connection, FarProcess, Path], object]] = {
    "a reading": lambda connection, _process, _path: FarHost(lambda: connection).read(
        "/proc/version"
    ),
    "a push": lambda connection, _process, path: FarFiles(connection).push(path),
    "a lock": lambda connection, _process, _path: FarFiles(connection).lock(),
    "an input": lambda _connection, process, _path: process.send(b"line"),
    "an output": lambda _connection, process, _path: process.receive(TIME_LIMIT_S),
    "an ending": lambda _connection, process, _path: process.ending(),
    "sampling": lambda connection, process, _path: FarHost(lambda: connection).sampler(
        process.pid, 0.1
    ),
}


@pytest.mark.parametrize("work", _WORK)
def test_a_board_that_is_gone(connection: Connection, tmp_path: Path, work: str) -> None:
    """Both of the reader's processes are killed, as by a restart; any next call reports it."""
    process = FarProcess(connection, ["sleep", "1000"], "/", {}, True)
    sampler = FarHost(lambda: connection).sampler(process.pid, 0.1)
    model = tmp_path / "model"
    model.write_bytes(bytes(100_000))
    for pid in (connection.keeper_pid, connection.reader_pid):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConnectionLost, match=r"the connection to pipe:.* was lost: "):
        _WORK[work](connection, process, model)
    assert process.ledger() == b""
    assert process.last_words() == ""
    sampler.close()
    process.close()
    wait_until_gone(process.pid)


def test_a_board_that_goes_silent(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent reader is not waited for; a reader that hears nothing ends its processes."""
    monkeypatch.setattr("reusebench.targets.far.connection._SILENCE_S", 0.3)
    monkeypatch.setattr("reusebench.targets.far.connection._PING_S", 0.1)
    monkeypatch.setattr("reusebench.targets.far.channel._END_S", 0.1)
    connection.set_patience(1.0)
    process = FarProcess(connection, ["sleep", "1000"], "/", {}, True)
    os.kill(connection.reader_pid, signal.SIGSTOP)
    with pytest.raises(ConnectionLost, match="no sign of life"):
        process.receive(TIME_LIMIT_S)
    os.kill(connection.reader_pid, signal.SIGCONT)
    connection.close()
    wait_until_gone(process.pid, connection.reader_pid)


def test_a_harness_that_is_gone(tmp_path: Path) -> None:
    """The end of its input ends the reader and all processes that it has started."""
    connection = connect(shell_at(tmp_path), print)
    process = FarProcess(
        connection, ["sh", "-c", "setsid sleep 1000 & exec sleep 1001"], "/", {}, False
    )
    connection.close()
    wait_until_gone(process.pid, connection.reader_pid, connection.keeper_pid)
    with pytest.raises(ConnectionLost, match="it was closed"):
        process.receive(0)


def test_a_process_that_writes_much(connection: Connection) -> None:
    """A reading may come between pieces of its output; nothing is lost."""
    process = FarProcess(connection, ["seq", "1000000"], "/", {}, False)
    assert FarHost(lambda: connection).read("/proc/version")
    assert output_of(process).split() == [b"%d" % number for number in range(1, 1000001)]
    # The flag for memory would be of any process on the machine that the kernel has killed
    # meanwhile.
    assert process.ending().exit_code == 0
    process.close()


def test_a_harness_that_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness reads nothing beyond the reader's patience, while output exceeds the pipes."""
    monkeypatch.setattr("reusebench.targets.far.connection._PING_S", 0.1)
    monkeypatch.setattr("reusebench.targets.far.connection._PATIENCE_S", 0.5)
    with connected(tmp_path) as connection:
        process = FarProcess(connection, ["seq", "100000"], "/", {}, False)
        time.sleep(1.0)
        assert output_of(process).split() == [b"%d" % number for number in range(1, 100001)]
        process.close()
