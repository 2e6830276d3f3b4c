"""The sandbox: system calls that must fail in it, and a harness that reads and ends its process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from reusebench.targets import sandbox
from reusebench.targets.compilers import Compiler
from reusebench.targets.machine import Reach
from reusebench.targets.process import LocalProcess
from reusebench.targets.sandbox import (
    SandboxedMachine,
    ensure_sandbox,
    new_root,
    sandbox_problem,
    sandbox_program,
)
from tests.helpers.support import TIME_LIMIT_S, known

_INTRUDER = Path(__file__).with_name("intruder.c")
_GONE = "No such file or directory"
_FORBIDDEN = "Operation not permitted"
_NO_PROCESS = "No such process"


pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("own_cache", "compiler", "compiled_sandbox"),
]


@pytest.fixture
def compiled_sandbox() -> None:
    """Compile the sandbox; skip the test if the kernel does not let this user have one."""
    ensure_sandbox(lambda _: None)
    reason = sandbox_problem()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def intruder(compiler: Compiler, tmp_path: Path) -> Path:
    """Return the program that tries what must fail."""
    compiler.compile(["-O2", "-Wall", "-Werror", "-o", str(tmp_path / "intruder"), str(_INTRUDER)])
    return tmp_path / "intruder"


def _attempts(program: Path, *words: object, reach: Reach | None = None) -> list[str]:
    """Run attempts in the sandbox, each a kind and a subject, and return their results."""
    machine = SandboxedMachine(reach or Reach())
    command, _ = machine.confine((str(program), *map(str, words)), {}, Reach((str(program),)))
    done = subprocess.run(
        command, cwd="/", capture_output=True, text=True, check=True, timeout=TIME_LIMIT_S
    )
    kinds = [f"{kind} {subject} " for kind, subject in zip(words[::2], words[1::2])]
    lines = done.stdout.splitlines()
    assert len(lines) == len(kinds)
    return [line[len(kind) :] for line, kind in zip(lines, kinds)]


def test_devices_of_the_host_are_not_there(intruder: Path) -> None:
    """Direct system calls do not reach them, and root cannot make them again."""
    words = []
    for device in ("/dev/kmsg", "/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/mem"):
        if Path(device).exists():
            words += ["read", device]
    for device in ("/dev/dri", "/dev/rknpu", "/dev/dma_heap"):
        words += ["read", device]
    assert set(_attempts(intruder, *words)) == {_GONE}
    made = _attempts(intruder, "node", "/tmp/zero", "read", "/dev/zero", "write", "/dev/null")
    assert made == [_FORBIDDEN, "done", "done"]


def test_files_of_the_user_are_not_there(intruder: Path, tmp_path: Path) -> None:
    """Only needed files are there, writable if that is needed; /tmp is empty and its own."""
    model = tmp_path / "model"
    secret = tmp_path / "secret"
    folder = tmp_path / "made"
    for path in (model, secret):
        path.write_text("content")
    folder.mkdir()
    home = Path.home() / "any"
    words = (
        "read",
        model,
        "write",
        model,
        "read",
        secret,
        "read",
        home,
        "write",
        folder / "new",
        "write",
        "/usr/new",
    )
    reach = Reach((str(model), str(tmp_path / "missing")), (str(folder),))
    writing = "Read-only file system"
    assert _attempts(intruder, *words, reach=reach) == [
        "done",
        writing,
        _GONE,
        _GONE,
        "done",
        writing,
    ]
    assert (folder / "new").exists()
    assert _attempts(intruder, "write", "/tmp/reusebench-test", reach=reach) == ["done"]
    assert not Path("/tmp/reusebench-test").exists()


def test_a_link_leads_to_its_file(intruder: Path, tmp_path: Path) -> None:
    """The file is there under the link's name only."""
    target = tmp_path / "target"
    link = tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    assert _attempts(intruder, "read", link, "read", target, reach=Reach((str(link),))) == [
        "done",
        _GONE,
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read what is another user's")
def test_root_has_the_files_in_another_users_folder(intruder: Path, tmp_path: Path) -> None:
    """Only the needed files of a private home are there, as with sudo."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("model", "secret"):
        (home / name).touch()
    os.chown(home, 12345, 12345)
    home.chmod(0o700)
    words = ("read", home / "model", "read", home / "secret")
    assert _attempts(intruder, *words, reach=Reach((str(home / "model"),))) == ["done", _GONE]


def test_there_is_no_network(intruder: Path) -> None:
    """Loopback and abstract sockets of the host are not reachable."""
    name = f"reusebench-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0{name}")
        other.listen()
        results = _attempts(intruder, "connect", server.getsockname()[1], "connect", f"@{name}")
    assert results == ["Network is unreachable", "Connection refused"]


def test_other_processes_are_not_there(intruder: Path) -> None:
    """They cannot be seen or signalled, and a namespace of its own gives no rights again."""
    own = os.getpid()
    words = (
        "read",
        f"/proc/{own}/maps",
        "read",
        "/proc/1",
        "signal",
        own,
        "signal",
        -1,
        "limit",
        own,
        "trace",
        own,
    )
    results = _attempts(intruder, *words, "namespace", "unshare", "namespace", "clone")
    assert results == [*(_GONE,) * 2, *(_NO_PROCESS,) * 3, *(_FORBIDDEN,) * 3]
    assert _attempts(intruder, "read", "/proc/self/maps", "limit", 0) == ["done", "done"]


def test_no_capability_is_left() -> None:
    """Not even root has one, although it keeps its name."""
    command, _ = SandboxedMachine(Reach()).confine(("cat", "/proc/self/status"), {}, Reach())
    status = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout
    lines = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert {lines[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (lines["NoNewPrivs"], lines["Uid"].split()[0]) == ("1", str(os.geteuid()))


@pytest.fixture
def waiting() -> Iterator[LocalProcess]:
    """Return a sandboxed process that holds 20 MB and waits for its standard input."""
    script = (
        "import sys; held = bytearray(b'x') * 20_000_000; print('ready', end='', flush=True);"
        " sys.stdin.read()"
    )
    machine = SandboxedMachine(Reach((sys.base_prefix, sys.prefix)))
    process = machine.start(
        (sys.executable, "-S", "-c", script), Path("/"), {}, keeps_ledger=True, reach=Reach()
    )
    assert isinstance(process, LocalProcess)
    yield process
    process.close()


def test_the_harness_reads_its_memory(waiting: LocalProcess) -> None:
    """It has the process's id outside; the sandbox's two own processes are beside it, and small."""
    assert waiting.receive(TIME_LIMIT_S) == b"ready"
    process = psutil.Process(waiting.pid)
    assert process.children() == []
    assert process.memory_full_info().uss > 20_000_000
    starter = known(process.parent())
    assert starter.ppid() == os.getpid()
    (init,) = set(starter.children()) - {process}
    for other in (starter, init):
        assert other.memory_full_info().uss < 1_000_000
    folder = Path("/proc") / str(waiting.pid)
    for name in ("smaps_rollup", "maps", "statm", "status"):
        assert (folder / name).read_text(), name
    (folder / "clear_refs").write_text("5")
    assert list((folder / "fdinfo").iterdir())


def test_it_ends_as_it_would_elsewhere(intruder: Path, waiting: LocalProcess) -> None:
    """A signal from outside and an abort look the same as without a sandbox."""
    os.kill(waiting.pid, signal.SIGTERM)
    assert waiting.ending().exit_code == -signal.SIGTERM
    command, _ = SandboxedMachine(Reach((str(intruder),))).confine(
        (str(intruder), "abort", "self"), {}, Reach()
    )
    assert subprocess.run(command, cwd="/", check=False).returncode == -signal.SIGABRT


def test_variables_of_the_loader_are_the_programs_alone(tmp_path: Path) -> None:
    """The sandbox's own program does not load them; the ledger's folder is writable."""
    ledger = tmp_path / "ledger.jsonl"
    variables = {"LD_LIBRARY_PATH": "/nowhere", "REUSEBENCH_LEDGER": str(ledger)}
    script = 'echo "$LD_LIBRARY_PATH" > "$REUSEBENCH_LEDGER"'
    command, rest = SandboxedMachine(Reach()).confine(("sh", "-c", script), variables, Reach())
    assert rest == {"REUSEBENCH_LEDGER": str(ledger)}
    subprocess.run(command, cwd="/", env={**os.environ, **rest}, check=True)
    assert ledger.read_text() == "/nowhere\n"


def test_a_kernel_that_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The reason is the kernel's. Here a sandbox may not be made inside another one."""
    (tmp_path / "root").mkdir()
    confined = (
        f"{sandbox_program()} {new_root(sandbox_program())} -r {sandbox_program().parent} -r"
        f" {tmp_path / 'root'}"
    )
    script = tmp_path / "sandbox"
    script.write_text(f'#!/bin/sh\nexec {confined} -- {sandbox_program()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sandbox, "sandbox_program", lambda: script)
    assert sandbox_problem() == f"sandbox: making namespaces: {_FORBIDDEN}"


def test_a_program_that_is_not_there() -> None:
    """The sandbox reports this in one line."""
    command, _ = SandboxedMachine(Reach()).confine(("/no/such/program",), {}, Reach())
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert done.stderr == "sandbox: starting /no/such/program: No such file or directory\n"
