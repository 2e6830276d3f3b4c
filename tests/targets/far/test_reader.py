"""The reader, spoken to over a pipe and over the terminal of an old adbd."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from reusebench.samplers.host import LOCAL_HOST, PageRange
from reusebench.targets.errors import ConnectionLost, InputNotRead, TargetError
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.program import FarProgram
from reusebench.targets.far.pushed_files import FarFiles
from tests.helpers.far_shell import TERMINAL, connected, has_gone, output_of, wait_until_gone
from tests.helpers.support import TIME_LIMIT_S

pytestmark = pytest.mark.process

_ALL_BYTES = bytes(range(256))

#: Starts a child that leaves its session and its parent, and writes the numbers of all.
_WITH_ORPHAN = "(setsid sh -c 'echo $$; exec sleep 1000' &); echo $$; exec sleep 1001"


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture(params=["", TERMINAL], ids=["pipe", "terminal"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    with connected(tmp_path, request.param) as connection:
        yield connection


@pytest.fixture
def host(connection: Connection) -> FarHost:
    return FarHost(lambda: connection)


def _start(
    connection: Connection, *command: str, folder: str = "/", ledger: bool = False, **variables: str
) -> FarProcess:
    return FarProcess(connection, command, folder, variables, ledger)


def _lines(process: FarProcess, count: int) -> list[str]:
    output = b""
    while output.count(b"\n") < count:
        output += process.receive(TIME_LIMIT_S) or b""
    return output.decode().split()


def test_every_byte_passes_both_ways(connection: Connection) -> None:
    """Input and output of a process pass unchanged, whatever the transport."""
    process = _start(connection, "cat")
    data = _ALL_BYTES * 300  # more than a pipe holds
    process.send(data)
    received = b""
    while len(received) < len(data):
        received += process.receive(TIME_LIMIT_S) or b""
    assert received == data
    process.close()


def test_files_hold_every_byte(host: FarHost, tmp_path: Path) -> None:
    """A file is read unchanged, also if it takes several frames."""
    file = tmp_path / "file"
    file.write_bytes(_ALL_BYTES * 1000)
    assert host.read(str(file)) == file.read_bytes()


def test_pages_are_told_as_on_this_machine(host: FarHost) -> None:
    """Flags of all pages of a mapping, also if they take several frames, and errors in place."""
    with mmap.mmap(-1, 5000 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[: 100 * mmap.PAGESIZE] = bytes(100 * mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        pages = PageRange(os.getpid(), address // mmap.PAGESIZE, 5000)
        nobody = PageRange(1 << 22, 0, 1)
        told, error = host.page_flags([pages, nobody])
        assert told == LOCAL_HOST.page_flags([pages])[0]
        assert isinstance(told, bytes)
        assert sum(flags >= 0x80 for flags in told) >= 100
        assert isinstance(error, FileNotFoundError)


def test_many_files_are_one_round_trip(host: FarHost, tmp_path: Path) -> None:
    """One call reads 200 files in order; a missing file among them is its own error."""
    paths = [tmp_path / f"file{index}" for index in range(200)]
    for path in paths:
        path.write_text(path.name * 50, encoding="utf-8")
    paths[100].unlink()
    contents = host.read_all([str(path) for path in paths])
    missing = contents.pop(100)
    assert isinstance(missing, FileNotFoundError)
    assert missing.filename == str(paths.pop(100))
    assert contents == [path.read_bytes() for path in paths]


def test_a_folder_and_its_links(host: FarHost, tmp_path: Path) -> None:
    """Names, links and inodes are this machine's; errors have their number."""
    names = [f"a name of some length {index}" for index in range(1000)]
    for name in names:
        (tmp_path / "folder" / name).mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder")
    assert sorted(host.names(str(link))) == sorted(names)
    assert host.links([str(link)]) == [str(tmp_path / "folder")]
    assert host.statuses([str(link)]) == LOCAL_HOST.statuses([str(tmp_path / "folder")])
    with pytest.raises(NotADirectoryError):
        host.names("/proc/version")
    (error,) = host.links(["/proc/version"])
    assert isinstance(error, OSError)


def test_a_file_that_never_ends_is_refused(connection: Connection) -> None:
    """A request bounds the size that it reads; the reader continues."""
    with pytest.raises(OSError, match="too large"):
        connection.request(Request("r", struct.pack("<I", 1000) + b"/dev/zero"))
    assert FarHost(lambda: connection).read("/proc/self/comm")


def test_a_write_is_one_to_a_file_that_exists(host: FarHost, tmp_path: Path) -> None:
    """Kernel files take a write as a command; no file is created."""
    file = tmp_path / "file"
    file.write_bytes(b"before")
    host.write(str(file), b"af")
    assert file.read_bytes() == b"affore"
    with pytest.raises(FileNotFoundError):
        host.write(str(tmp_path / "none"), b"")


def test_what_the_host_is(host: FarHost) -> None:
    """Its page size, user, processors and clock are this machine's."""
    assert host.page_bytes == os.sysconf("SC_PAGE_SIZE")
    assert host.user_id == os.geteuid()
    assert host.usable_cpus() == len(os.sched_getaffinity(0))
    assert host.now_ns() <= host.now_ns()


def test_an_unknown_request_is_an_error(connection: Connection) -> None:
    """A reader answers an unknown request with an error."""
    with pytest.raises(OSError, match="not implemented"):
        connection.request(Request("?"))


def test_a_process_is_what_was_asked_for(connection: Connection, tmp_path: Path) -> None:
    """It has its own folder and session, and its variables replace the reader's."""
    script = "pwd; echo $HOME $MORE; cut -d' ' -f6 /proc/$$/stat"
    process = _start(
        connection, "sh", "-c", script, folder=str(tmp_path), HOME="/elsewhere", MORE="more"
    )
    assert output_of(process).decode().splitlines() == [
        str(tmp_path),
        "/elsewhere more",
        str(process.pid),
    ]
    process.close()


def test_a_program_is_looked_for_as_shells_do(connection: Connection, tmp_path: Path) -> None:
    """Files in PATH that cannot be run, and entries that are no folders, are skipped.

    If no other is found, the reason is reported.
    """
    (tmp_path / "echo").write_text("not a program", encoding="utf-8")
    (tmp_path / "file").touch()
    process = _start(
        connection, "echo", "run", PATH=f"{tmp_path}:{tmp_path}/file:{os.environ['PATH']}"
    )
    assert output_of(process) == b"run\n"
    process.close()
    with pytest.raises(TargetError, match="no permission"):
        _start(connection, "echo", PATH=str(tmp_path))


def test_an_exit_code_is_true(connection: Connection) -> None:
    """The exit code is true even if the transport has none."""
    process = _start(connection, "sh", "-c", "exit 7")
    assert output_of(process) == b""
    assert process.ending().exit_code == 7
    process.close()


def test_a_signal_is_true(connection: Connection) -> None:
    """The result has the signal's number, as subprocess gives it."""
    process = _start(connection, "sleep", "1000")
    process.signal(signal.SIGSEGV)
    assert process.receive(TIME_LIMIT_S) == b""
    assert process.ending().exit_code == -signal.SIGSEGV
    process.signal(signal.SIGSEGV)  # nothing is there any more
    assert process.send(b"text") >= 0
    process.close()


def test_streams_are_kept_apart(connection: Connection) -> None:
    """Output, errors and ledger are separate; output comes after the other two."""
    script = 'echo event > "$REUSEBENCH_LEDGER"; echo words >&2; echo line; read line'
    process = _start(connection, "sh", "-c", script, ledger=True)
    assert process.receive(TIME_LIMIT_S) == b"line\n"
    assert process.last_words() == "words"
    assert process.ledger() == b"event\n"
    process.close()


def test_errors_are_always_drained(connection: Connection) -> None:
    """A process may write errors without end; the last ones are kept."""
    process = _start(connection, "sh", "-c", "seq 100000 >&2; echo done")
    assert output_of(process) == b"done\n"
    assert process.last_words().endswith("\n99999\n100000")
    assert process.ledger() is None
    process.close()


def test_errors_are_a_file_that_the_process_can_read(connection: Connection) -> None:
    """A driver finds its library's messages there; they are passed on even after a crash."""
    script = "echo 'E RKNN: one' >&2; grep -c RKNN /proc/self/fd/2; echo two >&2; kill -SEGV $$"
    process = _start(connection, "sh", "-c", script)
    assert output_of(process) == b"1\n"
    assert process.ending().exit_code == -signal.SIGSEGV
    assert process.last_words().split("\n") == ["E RKNN: one", "two"]
    process.close()


def test_a_process_that_does_not_read_is_no_end(connection: Connection) -> None:
    """Its input is given up at the limit, and the error says so; the connection stays."""
    process = _start(connection, "sleep", "1000")
    with pytest.raises(InputNotRead, match=r"has not read its input within 0\.1 s"):
        process.send(bytes(1 << 20), 0.1)
    assert process.receive(0) is None
    process.close()
    assert has_gone(process.pid)


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (None, 0, "not there"),
        # An ELF file of an unknown machine.
        (
            b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\xff\xff" + bytes(100),
            0o755,
            "made for another machine",
        ),
        (b"#!/bin/sh\n", 0o644, "no permission"),
        (b"#!/no/such/interpreter\n", 0o755, "the loader that it names is not"),
    ],
)
def test_a_program_that_cannot_be_run(
    connection: Connection, tmp_path: Path, content: bytes | None, mode: int, reason: str
) -> None:
    """The start reports the reason, and the next program can be started."""
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(mode)
    with pytest.raises(TargetError, match=f"program cannot be started in /: .*{reason}"):
        _start(connection, str(program))
    process = _start(connection, "true")
    assert output_of(process) == b""
    process.close()


def test_there_is_one_process_at_a_time(connection: Connection) -> None:
    """A second process is refused until the first is closed."""
    process = _start(connection, "sleep", "1000")
    with pytest.raises(TargetError, match="the process before it"):
        _start(connection, "true")
    process.close()
    _start(connection, "true").close()


def test_the_first_victim_where_memory_runs_out(connection: Connection, host: FarHost) -> None:
    """The kernel ends the measured process before all others, and then the reader."""
    process = _start(connection, "sleep", "1000")
    assert host.read(f"/proc/{process.pid}/oom_score_adj") == b"1000\n"
    assert int(host.read(f"/proc/{connection.reader_pid}/oom_score_adj")) <= 0
    process.close()


def test_a_program_of_the_users_is_no_victim(connection: Connection, host: FarHost) -> None:
    """A recorded program is as likely to be killed as without the reader."""
    program = FarProgram(connection, ["sleep", "1000"], {}, has_marks=False)
    assert (
        host.read(f"/proc/{program.pid}/oom_score_adj")
        == Path("/proc/self/oom_score_adj").read_bytes()
    )
    program.close()


def test_samples_come_at_their_rate(connection: Connection, host: FarHost) -> None:
    """Times rise by the interval, or a multiple if one was missed; the RSS is the process's."""
    process = _start(connection, "sleep", "1000")
    sampler = host.sampler(process.pid, 0.005)
    samples = sampler.take()
    while len(samples) < 50:
        connection.wait(lambda: False, 0.05)
        samples += sampler.take()
    times_ns = [sample.time_ns for sample in samples]
    assert times_ns == sorted(set(times_ns))
    spacing_ns = (times_ns[-1] - times_ns[0]) / (len(times_ns) - 1)
    assert spacing_ns >= 0.99 * 5e6
    statm = host.read(f"/proc/{process.pid}/statm").split()
    # The kernel's counter is folded in batches.
    assert samples[-1].rss_bytes == pytest.approx(int(statm[1]) * host.page_bytes, abs=1 << 20)
    assert samples[-1].system_bytes > samples[-1].rss_bytes
    sampler.set_interval(1000.0)
    sampler.take()
    process.close()
    sampler.close()
    with pytest.raises(ProcessLookupError):
        host.sampler(process.pid, 0.005)


def test_samples_are_there_at_a_barrier(connection: Connection, host: FarHost) -> None:
    """Samples taken before a process wrote a line arrive before the line."""
    process = _start(connection, "sh", "-c", "sleep 0.05; echo; read line")
    sampler = host.sampler(process.pid, 0.001)
    assert _lines(process, 1) == []
    assert sampler.take()
    sampler.close()
    process.close()


def test_closing_ends_all_descendants(connection: Connection) -> None:
    """Descendants that left the process's session and their parent end too."""
    process = _start(connection, "sh", "-c", _WITH_ORPHAN)
    pids = map(int, _lines(process, 2))
    process.close()
    assert all(map(has_gone, pids))


def test_a_word_from_a_signal_handler(connection: Connection) -> None:
    """Ctrl-C tells a process to stop while its output is waited for."""
    process = _start(connection, "cat")
    previous = signal.signal(signal.SIGALRM, lambda *_: process.send(b"stop\n"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert process.receive(TIME_LIMIT_S) == b"stop\n"
    finally:
        signal.signal(signal.SIGALRM, previous)
    process.close()


def test_an_interrupted_message_is_the_last(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later data would be taken for the rest of half a message, so the connection is unusable.

    Its reader ends.
    """

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("reusebench.targets.far.channel._END_S", 0.5)
    process = _start(connection, "sleep", "1000")
    os.kill(connection.reader_pid, signal.SIGSTOP)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            connection.requests([Request("i", bytes(1 << 15))] * 10)
    finally:
        signal.signal(signal.SIGALRM, previous)
        os.kill(connection.reader_pid, signal.SIGCONT)
    with pytest.raises(ConnectionLost, match="interrupted"):
        process.send(b"word")
    process.close()
    connection.close()


@pytest.mark.parametrize("victim", ["reader_pid", "keeper_pid"])
def test_a_killed_reader_leaves_nothing(connection: Connection, victim: str) -> None:
    """If one of the reader's two processes is killed, the other ends everything.

    The loss is reported.
    """
    process = _start(connection, "sh", "-c", _WITH_ORPHAN)
    pids = map(int, _lines(process, 2))
    os.kill(getattr(connection, victim), signal.SIGKILL)
    with pytest.raises(ConnectionLost, match="was lost"):
        process.receive(TIME_LIMIT_S)
    wait_until_gone(*pids, connection.reader_pid, connection.keeper_pid)
    process.close()


def test_an_impatient_reader_ends_all(connection: Connection) -> None:
    """A harness that is silent, as behind a pulled cable, is not waited for."""
    process = _start(connection, "sh", "-c", _WITH_ORPHAN)
    pids = map(int, _lines(process, 2))
    connection.set_patience(0.2)  # less than the interval of pings
    wait_until_gone(*pids, connection.reader_pid, connection.keeper_pid)


def test_the_program_is_small(connection: Connection) -> None:
    """It fits a small board's flash, and needs no loader."""
    (program,) = Path(connection.folder).glob("reader-*")
    content = program.read_bytes()
    assert len(content) <= 20 << 10
    assert b"ld-linux" not in content


def test_a_watched_file_tells_of_itself(connection: Connection, tmp_path: Path) -> None:
    """The file is created or emptied; writing to it comes as an event. There is one at a time.

    Text written before the watch began is reported first.
    """
    files = FarFiles(connection)
    old = tmp_path / "old"
    path = tmp_path / "marks"
    path.write_text("of before\n")
    before = files.watch(str(old))
    watched = files.watch(str(path))
    assert (old.read_bytes(), path.read_bytes()) == (b"", b"")
    assert (before.changed(), watched.changed()) == (b"", b"")
    # Emptying the file is another change, and may come as another event.
    with path.open("a") as file:
        file.write("load\n")
    deadline = time.monotonic() + TIME_LIMIT_S
    while (content := watched.changed()) is None:
        connection.wait_for_event(TIME_LIMIT_S)
        assert time.monotonic() < deadline, "no event came"
    assert content == b"load\n"
    old.write_text("ignored\n")
    connection.wait_for_event(0.1)
    assert (before.changed(), watched.changed()) == (None, None)
    with pytest.raises(OSError, match="/proc/none"):
        files.watch("/proc/none")


def test_a_program_whose_output_is_passed_on(connection: Connection) -> None:
    """Each piece comes once, with its file descriptor; the input ends on request."""
    program = FarProgram(
        connection, ["sh", "-c", "cat; echo three >&3; echo two >&2; exit 4"], {}, has_marks=True
    )
    assert program.write(b"one\n") == 4
    assert program.write(b"") == 0
    assert program.write(b"too late") == 8
    pieces: dict[int, bytes] = {}
    while not program.has_ended():
        connection.wait_for_event(TIME_LIMIT_S)
    for descriptor, data in program.written():
        pieces[descriptor] = pieces.get(descriptor, b"") + data
    assert pieces == {1: b"one\n", 2: b"two\n", 3: b"three\n"}
    assert program.ending().exit_code == 4
    assert program.peak_rss_bytes > 0
    program.close()


@pytest.mark.parametrize("words", ["read -r answer <&3; echo $answer", "exit"])
def test_a_program_reads_answers_where_it_marks(connection: Connection, words: str) -> None:
    """A program that reads no answers, or has ended, is not waited for, however many there are."""
    program = FarProgram(connection, ["sh", "-c", f"echo load >&3; {words}"], {}, has_marks=True)
    written: list[tuple[int, bytes]] = []
    while (3, b"load\n") not in written:
        connection.wait_for_event(TIME_LIMIT_S)
        written += program.written()
    program.answer(b"one\n")
    for _ in range(100):
        program.answer(b"two\n" * 1000)
    while not program.has_ended():
        connection.wait_for_event(TIME_LIMIT_S)
    written += program.written()
    assert b"".join(data for descriptor, data in written if descriptor == 1) == (
        b"" if words == "exit" else b"one\n"
    )
    assert program.ending().exit_code == 0
    program.close()


def test_a_signal_is_for_the_group(connection: Connection) -> None:
    """A terminal signals the group as well: a shell that waits for a program ends only then."""
    process = _start(connection, "sh", "-c", "sleep 1000 & echo $!; wait; echo $?; exit 6")
    (child,) = map(int, _lines(process, 1))
    process.signal(signal.SIGTERM)
    assert process.ending().exit_code == -signal.SIGTERM
    wait_until_gone(child)
    process.close()


def test_the_clocks_of_a_board(host: FarHost) -> None:
    """Both clocks advance; readings take CPU time of the reader."""
    before = host.clocks()
    for _ in range(20):
        host.read("/proc/self/smaps")
    after = host.clocks()
    assert before.time_ns < after.time_ns
    assert 0 < before.cpu_ns < after.cpu_ns <= before.cpu_ns + after.time_ns - before.time_ns
