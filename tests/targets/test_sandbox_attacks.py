"""Attacks of a hostile library: on other processes, the kernel, its files and its harness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from reusebench.accounting.ledger import LedgerError, read_ledger
from reusebench.targets import ledger_file, standard_error
from reusebench.targets.compilers import Compiler
from reusebench.targets.machine import LOCAL, LocalMachine, Reach
from reusebench.targets.process import LocalProcess
from reusebench.targets.sandbox import SandboxedMachine, ensure_sandbox, sandbox_problem
from reusebench.targets.standard_error import LAST_WORDS_BYTES
from tests.helpers.support import TIME_LIMIT_S, known

_ATTACKS = Path(__file__).with_name("attacks.c")

#: Attacks of attacks.c on another process.
_ON_PROCESSES = (
    "affinity",
    "attach",
    "compare",
    "io_priority",
    "kill",
    "kill_group",
    "limit",
    "owner",
    "owner_by_file_call",
    "owner_by_socket_call",
    "owner_extended",
    "owner_group",
    "owner_group_extended",
    "owner_signal",
    "owner_thread",
    "pages",
    "pidfd",
    "priority",
    "queue",
    "queue_to_thread",
    "read_memory",
    "robust_list",
    "scheduler",
    "seize",
    "session",
    "tgkill",
    "timer",
    "tkill",
    "write_memory",
)
#: Attacks on the kernel, on what processes share in it, and on the sandbox.
_ON_KERNEL = (
    "aio",
    "alg",
    "bpf",
    "can",
    "chroot",
    "fanotify",
    "handle",
    "hidden",
    "inotify",
    "io_uring",
    "join",
    "key",
    "key_socket",
    "keyring",
    "lease",
    "lock",
    "made_set_user_id",
    "message_queue",
    "mount",
    "netlink",
    "notify",
    "packet",
    "perf",
    "posix_queue",
    "raw",
    "record_lock",
    "seccomp_listener",
    "secret_memory",
    "semaphore",
    "set_user_id",
    "shared_memory",
    "sibling",
    "system_log",
    "user_namespace",
    "user_namespace_of_child",
    "user_namespace_of_child_3",
    "userfaultfd",
    "vsock",
)

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("sandbox")]


@pytest.fixture(scope="module")
def sandbox(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # noqa: ARG001  needed
    """Compile the sandbox; skip the tests if the kernel does not let this user have one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        ensure_sandbox(lambda _: None)
        reason = sandbox_problem()
        if reason:
            pytest.skip(reason)
        yield


@pytest.fixture(scope="module")
def attacks(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that attacks."""
    program = tmp_path_factory.mktemp("attacks") / "attacks"
    compiler.compile(["-O2", "-Wall", "-Werror", "-o", str(program), str(_ATTACKS)])
    return program


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """Return another process of the user."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def _start(machine: LocalMachine, *command: str, keeps_ledger: bool = False) -> LocalProcess:
    started = machine.start(command, Path("/"), {}, keeps_ledger, Reach(command[:1]))
    assert isinstance(started, LocalProcess)
    return started


def _shell(script: str, machine: LocalMachine | None = None) -> LocalProcess:
    return _start(machine or SandboxedMachine(Reach()), "/bin/sh", "-c", script, keeps_ledger=True)


def _result(program: Path, *words: object) -> str:
    """Return the printed line of the program in the sandbox."""
    command, _ = SandboxedMachine(Reach()).confine(
        (str(program), *map(str, words)), {}, Reach((str(program),))
    )
    done = subprocess.run(
        command, cwd="/", capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S
    )
    return done.stdout.strip()


def _state(pid: int) -> dict[str, object]:
    other = psutil.Process(pid)
    return {
        "affinity": other.cpu_affinity(),
        "priority": other.nice(),
        "policy": os.sched_getscheduler(pid),
        "limit": other.rlimit(psutil.RLIMIT_CPU),
    }


@pytest.mark.parametrize("attack", _ON_PROCESSES)
def test_no_other_process_is_reached(
    attacks: Path, victim: subprocess.Popen[bytes], attack: str
) -> None:
    """No call, and no signal that the kernel sends, has an effect on a process outside."""
    before = _state(victim.pid)
    assert _result(attacks, attack, victim.pid).isdigit()
    assert victim.poll() is None
    assert _state(victim.pid) == before


@pytest.mark.parametrize("attack", _ON_KERNEL)
def test_the_kernel_refuses(attacks: Path, attack: str) -> None:
    """Calls that no program on the virtual board needs are refused."""
    assert _result(attacks, attack).isdigit()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -ABRT $$", -signal.SIGABRT),
        ("kill -SEGV $$", -signal.SIGSEGV),
        ("kill -KILL $$", -signal.SIGKILL),
        ("kill -TERM $$", -signal.SIGTERM),
        ("kill -40 $$", -40),
        ("kill -KILL 0", -signal.SIGKILL),
        ("kill -KILL 1; kill -STOP 1; exit 3", 3),
    ],
)
def test_the_ending_is_told_exactly(script: str, code: int) -> None:
    """It is the process's own, whatever it does to its group and to the init of its namespace."""
    shell = _shell(script)
    try:
        assert shell.receive(TIME_LIMIT_S) == b""
        assert shell.ending().exit_code == code
    finally:
        shell.close()


@pytest.mark.parametrize("ends_itself", [True, False])
@pytest.mark.parametrize(
    "leaving",
    ["sleep {mark} &", "setsid sleep {mark} &", "(setsid sh -c 'sleep {mark} & sleep {mark}' &)"],
)
def test_nothing_is_left_behind(leaving: str, ends_itself: bool) -> None:
    """Processes in a session of their own, or without a parent, end with the measured one."""
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    script = leaving.format(mark=mark) + "\necho ready; " + ("" if ends_itself else "read line")
    shell = _shell(script)
    assert shell.receive(TIME_LIMIT_S) == b"ready\n"
    if ends_itself:
        assert shell.ending().exit_code == 0
    shell.close()
    left = [one.pid for one in psutil.process_iter(["cmdline"]) if mark in str(one.info["cmdline"])]
    assert left == []


def test_it_ends_with_a_harness_that_is_killed() -> None:
    """All processes of the sandbox end, also those that have left the session."""
    script = (
        "from pathlib import Path; from reusebench.targets.machine import Reach;"
        " from reusebench.targets.sandbox import SandboxedMachine;"
        " command = ('/bin/sh', '-c', 'setsid sleep 1000 & echo ready; read line');"
        " started = SandboxedMachine(Reach()).start(command, Path('/'), {}, False, Reach());"
        " started.receive(60); print(started.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        measured = psutil.Process(int(harness.stdout.readline()))
        family = [
            measured,
            *measured.children(recursive=True),
            *known(measured.parent()).children(),
        ]
        assert len(family) >= 3
        harness.kill()
        _, alive = psutil.wait_procs(family, TIME_LIMIT_S)
    assert alive == []


@pytest.mark.parametrize("is_sandboxed", [False, True])
def test_standard_error_without_end_is_not_kept(is_sandboxed: bool) -> None:
    """Only its end is on disk; the process goes on meanwhile and answers."""
    machine = SandboxedMachine(Reach()) if is_sandboxed else LOCAL
    shell = _shell("yes 'a flood of words' >&2 & read line; echo $line; read line", machine)
    file = shell._errors.file.fileno()
    try:
        while os.fstat(file).st_size < 1 << 30:
            assert shell.receive(0.1) is None
        assert os.fstat(file).st_blocks * 512 < 1 << 29
        assert 0 < len(shell.last_words()) <= LAST_WORDS_BYTES
        assert "a flood of words" in shell.last_words()
        shell.send(b"go\n")
        assert shell.receive(TIME_LIMIT_S) == b"go\n"
    finally:
        shell.close()


def test_a_flood_that_stays_on_disk_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds if the file system cannot punch holes, and if the process closes its
    output.
    """
    monkeypatch.setattr(standard_error, "_punch_hole", lambda *_: None)
    monkeypatch.setattr(standard_error, "_MOST_BYTES", 1 << 24)
    for script in ("yes words >&2", "exec >&-; exec yes words >&2"):
        shell = _shell(script)
        try:
            while shell.receive(0.1) is None:
                pass
            assert shell.ending().exit_code == -signal.SIGKILL
            assert "words\nwords\n" in shell.last_words()
        finally:
            shell.close()


@pytest.mark.parametrize("is_sandboxed", [False, True])
@pytest.mark.parametrize(
    "replacing",
    [
        "ln -sf {secret} $REUSEBENCH_LEDGER",
        "rm -f $REUSEBENCH_LEDGER; mkfifo $REUSEBENCH_LEDGER",
        "rm -f $REUSEBENCH_LEDGER; mkdir $REUSEBENCH_LEDGER",
        "rm -f $REUSEBENCH_LEDGER",
        "cp {secret} $REUSEBENCH_LEDGER.new; mv -f $REUSEBENCH_LEDGER.new $REUSEBENCH_LEDGER",
        "mv $(dirname $REUSEBENCH_LEDGER) $(dirname $REUSEBENCH_LEDGER).old",
    ],
)
def test_nothing_takes_the_place_of_the_ledger(
    tmp_path: Path, is_sandboxed: bool, replacing: str
) -> None:
    """The harness reads the file that it has made, and follows no link."""
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    machine = SandboxedMachine(Reach()) if is_sandboxed else LOCAL
    shell = _shell(f"echo own > $REUSEBENCH_LEDGER; {replacing.format(secret=secret)}", machine)
    try:
        assert shell.receive(TIME_LIMIT_S) == b""
        shell.ending()
        assert shell.ledger() == b"own\n"
    finally:
        shell.close()


@pytest.mark.parametrize(
    "filling",
    [
        "exec yes '{}' >> $REUSEBENCH_LEDGER",
        "truncate -s 1T $REUSEBENCH_LEDGER; read line",
        "trap '' TERM; exec 1<&-; exec yes '{}' >> $REUSEBENCH_LEDGER",
    ],
)
def test_a_ledger_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch, filling: str) -> None:
    """Its process is killed, and no more is read than a ledger may have."""
    most_bytes = 1 << 20
    monkeypatch.setattr(ledger_file, "MOST_BYTES", most_bytes)
    shell = _shell(filling)
    try:
        deadline = time.monotonic() + TIME_LIMIT_S
        while shell.receive(0.1) is None:
            assert time.monotonic() < deadline
        assert shell.ending().exit_code == -signal.SIGKILL
        assert len(known(shell.ledger())) == most_bytes + 1
    finally:
        shell.close()


def test_a_ledger_that_is_too_large_is_refused() -> None:
    """It is not read at all."""
    with pytest.raises(LedgerError, match=r"it has more than 128 MiB"):
        read_ledger(bytes(ledger_file.MOST_BYTES + 1))
