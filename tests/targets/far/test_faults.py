"""Faults of real connections: no process stays on the board, and a sentence reports the fault."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from reusebench.targets.errors import ConnectionLost, TargetError
from reusebench.targets.far import connection as far_connection
from reusebench.targets.far.connection import Connection, Request, connect
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.pushed_files import FarFiles
from tests.helpers.adb_boards import NEW, OLD, UNAUTHORIZED, AdbBoards
from tests.helpers.board import Board
from tests.helpers.far_servers import HOSTS, SshServer, wait_until_idle
from tests.helpers.support import TIME_LIMIT_S

pytestmark = pytest.mark.process

_TARGET = f"ssh:{HOSTS.good}"
#: A measured process that reports its start.
_COMMAND = ("/bin/sh", "-c", "echo begun; exec sleep 1000")
#: A process with a child that has left its session. qemu 7.2 does not let the reader adopt such
#: orphans (it refuses PR_SET_CHILD_SUBREAPER), so only servers of this machine use it.
_COMMAND_WITH_ORPHAN = ("/bin/sh", "-c", "setsid sleep 1000 & echo begun; exec sleep 1000")


#: The field of an ELF header that names the machine, little-endian.
_ELF_MACHINE_AT = 18
_ELF_MACHINE_MIPS = 8

#: Memory control groups of version 1 and 2, and the file with their limit.
_MEMORY_GROUPS = (
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
)


@pytest.fixture
def server(ssh_server: SshServer, monkeypatch: pytest.MonkeyPatch) -> SshServer:
    """Return an SSH server, which the harness's `ssh` knows."""
    _put_first_in_path(ssh_server.programs, monkeypatch)
    return ssh_server


@pytest.fixture
def own_adb(adb: AdbBoards, monkeypatch: pytest.MonkeyPatch) -> AdbBoards:
    """Return the harness's adb."""
    _put_first_in_path(adb.programs, monkeypatch)
    return adb


def _put_first_in_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def _ssh(server: SshServer) -> AbstractContextManager[Connection]:
    """Connect; a board gets the harness's choice of a folder, this machine one of the test's."""
    return _reached(_TARGET, None if server.board else str(server.home))


@contextmanager
def _reached(target: str, folder: str | None = None) -> Iterator[Connection]:
    connection = connect(target, print, folder)
    try:
        yield connection
    finally:
        connection.close()


def _begin(connection: Connection, command: tuple[str, ...] = _COMMAND) -> FarProcess:
    """Start the measured process; return once it has started."""
    process = FarProcess(connection, command, "/", {}, False)
    assert process.receive(TIME_LIMIT_S) == b"begun\n"
    return process


def _kill_client(_server: SshServer, _connection: Connection) -> None:
    for client in psutil.Process().children():
        if client.name() == "ssh":
            client.kill()


def _kill_session(server: SshServer, _connection: Connection) -> None:
    for process in server.connections():
        process.kill()


def _kill_reader(server: SshServer, connection: Connection) -> None:
    server.run_there(f"kill -9 {connection.reader_pid}")


def _kill_keeper(server: SshServer, connection: Connection) -> None:
    server.run_there(f"kill -9 {connection.keeper_pid}")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_kill_client, "`ssh` ended .signal 9"),
        (
            _kill_session,
            r"the connection was closed \(.*\); did the board restart, or its network break",
        ),
        (_kill_reader, "the reader on the board was killed"),
        (_kill_keeper, "the reader on the board was killed"),
    ],
)
def test_a_connection_that_ends_ends_all(
    server: SshServer, fault: Callable[[SshServer, Connection], None], words: str
) -> None:
    """If any part of it is killed, the loss is reported and no process stays.

    The board can be reached again.
    """
    with _ssh(server) as connection:
        process = _begin(connection, _COMMAND if server.board else _COMMAND_WITH_ORPHAN)
        fault(server, connection)
        with pytest.raises(ConnectionLost, match=f"the connection to {_TARGET} was lost: {words}"):
            process.receive(TIME_LIMIT_S)
        process.close()
        wait_until_idle(server.processes)
    with _ssh(server):
        assert server.processes()
    wait_until_idle(server.processes)


def test_a_connection_that_ends_while_a_file_is_pushed(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is reported; the next session pushes the whole file."""
    file = tmp_path / "model.rknn"
    file.write_bytes(os.urandom(1 << 20) * 8)
    with _ssh(server) as connection:
        send = connection.requests
        parts = 0

        def send_and_fail(requests: Sequence[Request]) -> list[bytes | OSError]:
            nonlocal parts
            parts += len(requests)
            if parts > 100:
                _kill_session(server, connection)
            return send(requests)

        monkeypatch.setattr(connection, "requests", send_and_fail)
        with pytest.raises(ConnectionLost):
            FarFiles(connection).push(file)
    wait_until_idle(server.processes)
    with _ssh(server) as connection:
        files = FarFiles(connection)
        host = FarHost(lambda: connection)
        assert host.names(f"{files.folder}/files")[0].endswith(".unfinished")
        pushed = host.read(files.push(file))
        files.clean()
    assert pushed == file.read_bytes()


def test_a_killed_process_is_no_loss(server: SshServer) -> None:
    """Its ending has the signal's number; its descendants end with it.

    Measuring on the board can continue.
    """
    with _ssh(server) as connection:
        process = _begin(connection)
        server.run_there(f"kill -9 {process.pid}")
        assert process.receive(TIME_LIMIT_S) == b""
        assert process.ending().exit_code == -signal.SIGKILL
        process.close()
        again = _begin(connection)
        again.close()
    wait_until_idle(server.processes)


def test_memory_that_runs_out(server: SshServer) -> None:
    """The kernel kills the measured process, not the reader, and the result says so.

    Measuring on the board can continue.
    """
    if server.board:
        pytest.skip("a limit is set for processes of this machine")
    with (
        _ssh(server) as connection,
        _memory_limit(32 << 20, connection.keeper_pid, connection.reader_pid),
    ):
        process = FarProcess(connection, ("tail", "/dev/zero"), "/", {}, False)
        assert process.receive(TIME_LIMIT_S) == b""
        ending = process.ending()
        process.close()
        assert (ending.exit_code, ending.memory_ran_out) == (-signal.SIGKILL, True)
        _begin(connection).close()
    wait_until_idle(server.processes)


@contextmanager
def _memory_limit(limit_bytes: int, *pids: int) -> Iterator[None]:
    """Limit the memory of these processes and their descendants; skip if that is impossible."""
    for hierarchy, file in _MEMORY_GROUPS:
        group = Path(hierarchy) / f"reusebench-test-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            if (group / file).exists():
                break
            group.rmdir()
    else:
        pytest.skip(
            "no control group for memory can be made (root alone may, where the kernel has them)"
        )
    try:
        (group / file).write_text(str(limit_bytes), encoding="ascii")
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        yield
    finally:
        for pid in pids:
            (group.parent / "cgroup.procs").write_text(str(pid), encoding="ascii")
        group.rmdir()


def test_a_network_that_goes_silent(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither side waits forever: the reader ends its processes, the harness reports the loss."""
    monkeypatch.setattr(far_connection, "_PING_S", 0.1)
    monkeypatch.setattr(far_connection, "_SILENCE_S", 1.0)
    with _ssh(server) as connection:
        connection.set_patience(0.5)
        process = _begin(connection)
        tunnel = server.connections()
        for part in tunnel:
            part.suspend()
        try:
            with pytest.raises(ConnectionLost, match="no sign of life"):
                process.receive(TIME_LIMIT_S)
            wait_until_idle(server.processes)
        finally:
            for part in tunnel:
                part.resume()
        process.close()


def test_a_board_that_restarts(server: SshServer) -> None:
    """The loss is reported; after the restart the reader is there, and no old process runs."""
    board = server.board
    if board is None:
        pytest.skip("this machine is not restarted")
    with _ssh(server) as connection:
        process = _begin(connection)
        board.switch_off()
        board.switch_on()
        with pytest.raises(ConnectionLost):
            process.receive(TIME_LIMIT_S)
        process.close()
    wait_until_idle(board.processes)
    with _ssh(server) as connection:
        _begin(connection).close()
    wait_until_idle(server.processes)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (HOSTS.without_key, "and the harness types no password: run `ssh-copy-id"),
        (HOSTS.unknown, "ssh has not seen the key of .* before; run `ssh .*` once by hand"),
        (HOSTS.changed, "is not the one that ssh has seen before"),
        (HOSTS.refused, "cannot be reached .Connection refused.; is the board on"),
    ],
)
def test_a_board_that_cannot_be_reached(server: SshServer, host: str, words: str) -> None:
    """The sentence says why and what to do; nothing has run there."""
    with pytest.raises(TargetError, match=f"^ssh:{host}: .*{words}") as error:
        connect(f"ssh:{host}", print)
    assert not isinstance(error.value, ConnectionLost)
    wait_until_idle(server.processes)


def test_two_sessions_on_one_board(server: SshServer) -> None:
    """The second is told the holder, and gets the board when the first ends, even by force."""
    with _ssh(server) as first, _ssh(server) as second:
        FarFiles(first).lock()
        with pytest.raises(
            TargetError, match=rf"{_TARGET} is in use by .*process {os.getpid()}, since \d"
        ):
            FarFiles(second).lock()
        server.run_there(f"kill -9 {first.reader_pid}")
        end = time.monotonic() + TIME_LIMIT_S
        while not _is_locked(second):
            assert time.monotonic() < end
    wait_until_idle(server.processes)


def _is_locked(connection: Connection) -> bool:
    try:
        FarFiles(connection).lock()
    except TargetError:
        return False
    return True


def test_a_disk_that_is_full(board: Board, tmp_path: Path) -> None:
    """Room is checked before a file is pushed; existing files stay."""
    # An overlay has the room of its upper folder, wherever that is mounted.
    board.run(
        "mkdir -p /mnt/small && mount -t tmpfs -o size=1m none /mnt/small && mkdir /mnt/small/upper"
        " /mnt/small/work && mkdir -p /media && mount -t overlay -o"
        " lowerdir=/userdata,upperdir=/mnt/small/upper,workdir=/mnt/small/work,userxattr none"
        " /media && umount -l /mnt/small"
    )
    small = tmp_path / "small.rknn"
    large = tmp_path / "large.rknn"
    small.write_bytes(os.urandom(1000))
    large.write_bytes(os.urandom(2 << 20))
    try:
        with _reached(f"pipe:{board.shell}", "/media") as connection:
            files = FarFiles(connection)
            pushed = files.push(small)
            with pytest.raises(
                TargetError,
                match=r"no room for large.rknn: 2\.0 MiB are needed in .*, [01]\.\d MiB",
            ):
                files.push(large)
            assert FarHost(lambda: connection).read(pushed) == small.read_bytes()
    finally:
        board.run("umount /media")


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (
            "mount -o bind /userdata /userdata && mount -o remount,bind,ro /userdata",
            "mounted read-only",
        ),
        (
            "mount -o bind /userdata /userdata && mount -o remount,bind,noexec /userdata",
            "mounted noexec",
        ),
        ("mount -t tmpfs none /userdata", "in memory .tmpfs."),
    ],
)
def test_a_folder_that_cannot_be_used(board: Board, mount: str, words: str) -> None:
    """The sentence says why, and to give another folder; nothing was written there."""
    board.run(mount)
    try:
        with pytest.raises(TargetError, match=f"/userdata .*{words}.*give another"):
            connect(f"pipe:{board.shell}", print, "/userdata")
    finally:
        board.run("umount /userdata")
    assert list((board.root / "userdata").iterdir()) == []


def test_a_program_of_another_machine(board: Board, tmp_path: Path) -> None:
    """Its start reports the wrong machine; the next program can be started."""
    program = tmp_path / "driver"
    content = bytearray((board.root / "bin" / "busybox").read_bytes())
    content[_ELF_MACHINE_AT] = _ELF_MACHINE_MIPS
    program.write_bytes(content)
    program.chmod(0o755)
    with _reached(f"pipe:{board.shell}") as connection:
        pushed = FarFiles(connection).push(program)
        with pytest.raises(
            TargetError, match=r"driver cannot be started.*it was made for another machine"
        ):
            FarProcess(connection, (pushed,), "/", {}, False)
        _begin(connection).close()


@pytest.mark.parametrize("form", [NEW, OLD])
def test_a_cable_that_is_pulled(own_adb: AdbBoards, board: Board, form: str) -> None:
    """The loss is reported, and the reader ends its processes.

    Once it is plugged in again, the board can be reached.
    """
    serial = own_adb.connect(form, str(board.shell))
    with _reached(f"adb:{serial}") as connection:
        process = _begin(connection)
        own_adb.disconnect(serial)
        with pytest.raises(ConnectionLost, match=f"the connection to adb:{serial} was lost"):
            process.receive(TIME_LIMIT_S)
        process.close()
    wait_until_idle(board.processes)
    own_adb.connect(form, str(board.shell))
    with _reached("adb") as connection:
        _begin(connection).close()
    wait_until_idle(board.processes)


def test_adb_without_the_board(own_adb: AdbBoards) -> None:
    """Each error message of adb becomes a remedy."""
    with pytest.raises(TargetError, match=r"adb sees no board; is its cable plugged in"):
        connect("adb", print)
    own_adb.connect(UNAUTHORIZED)
    with pytest.raises(TargetError, match="the board does not know this computer's adb key"):
        connect("adb", print)
    own_adb.connect(NEW)
    with pytest.raises(TargetError, match=r"adb sees several boards; name one as adb:SERIAL"):
        connect("adb", print)
    with pytest.raises(TargetError, match=r"adb sees no board other"):
        connect("adb:other", print)
