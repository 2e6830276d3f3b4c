"""SSH servers on the loopback, for tests of remote boards: OpenSSH's and dropbear. They run as the
tests' user, with keys of their own in a temporary folder. nss_wrapper shows them a password file in
which that user has another home, so that nothing of the user's own is read or written. Who logs in
gets the shell that the server was given, whatever was asked for: that of this machine, or of a
board (tests/helpers/board.py).
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from reusebench.targets.rknn_library import architecture_of_this_python
from tests.helpers.board import Board
from tests.helpers.debian_packages import Program, find_program, unpacked_packages
from tests.helpers.support import TIME_LIMIT_S

__all__ = ["HOSTS", "LOOPBACK", "SshServer", "dropbear", "free_port", "openssh", "wait_until_idle"]


class Hosts(NamedTuple):
    """Names by which the client knows the server, as in --target ssh:board, and what is wrong with
    it by that name.
    """

    good: str = "board"
    without_key: str = "board-without-key"
    unknown: str = "board-unknown"
    changed: str = "board-changed"
    refused: str = "board-refused"


HOSTS = Hosts()
LOOPBACK = "127.0.0.1"
_SHELL = "/bin/sh"

#: OpenSSH's server wants this folder if it runs as root, which not every machine has.
_AS_ROOT = 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"'
_SESSION = """\
#!/bin/sh
exec {shell} ${{SSH_ORIGINAL_COMMAND:+-c "$SSH_ORIGINAL_COMMAND"}}
"""

#: The first value of an option that fits the host holds. Nothing listens on the discard port of the
#: loopback.
_CLIENT_CONFIG = """\
Host {names.without_key}
  PubkeyAuthentication no
Host {names.unknown}
  UserKnownHostsFile /dev/null
Host {names.changed}
  UserKnownHostsFile {folder}/known_hosts_changed
Host {names.refused}
  Port 9
Host *
  HostName {loopback}
  Port {port}
  User {user}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  IdentityAgent none
  GlobalKnownHostsFile /dev/null
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking ask
"""

_OPENSSH_CONFIG = """\
ListenAddress {loopback}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {home}/.ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication yes
"""


@dataclass(frozen=True)
class SshServer:
    """A server that listens."""

    name: str
    pid: int
    port: int
    folder: Path
    #: The board whose shell sessions get; None: this machine's.
    board: Board | None

    @property
    def home(self) -> Path:
        """Return the home of those who log in."""
        return self.folder / "home"

    @property
    def programs(self) -> Path:
        """Return a folder to begin PATH with: its `ssh` knows the server as `board`, and nothing of
        the user's.
        """
        return self.folder / "bin"

    @property
    def config(self) -> Path:
        """Return the client's configuration, to which a test may add hosts."""
        return self.folder / "ssh_config"

    def connections(self) -> list[psutil.Process]:
        """Return the server's own processes that serve connections."""
        children = psutil.Process(self.pid).children(recursive=True)
        return [child for child in children if child.name().startswith(("sshd", "dropbear"))]

    def run_there(self, script: str) -> str:
        """Return the output of a script run like a session's, without a connection."""
        if self.board:
            return self.board.run(script)
        return subprocess.run(
            [_SHELL, "-c", script], capture_output=True, text=True, check=True
        ).stdout

    def processes(self) -> dict[int, list[str]]:
        """Return the commands of what runs in sessions, or has been left behind by them, by their
        ids.
        """
        if self.board:
            return self.board.processes()
        commands = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.home):
                    commands[process.pid] = process.cmdline()
        return commands

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a client with these arguments, with pipes, as the harness would."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        command = ["ssh", "-T", "-o", "BatchMode=yes", *arguments]
        pipe = subprocess.PIPE
        environment = {**os.environ, "PATH": path}
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Return a client's exit code and output."""
        with self.start(*arguments) as client:
            output, errors = client.communicate(data, TIME_LIMIT_S)
        return subprocess.CompletedProcess(arguments, client.returncode, output, errors)

    def log(self) -> str:
        """Return the server's log."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


def wait_until_idle(processes: Callable[[], dict[int, list[str]]]) -> None:
    """Return when there are no processes any more; fail with those that are still there."""
    end = time.monotonic() + TIME_LIMIT_S
    while running := processes():
        assert time.monotonic() < end, f"still running on the board: {running}"
        time.sleep(0.02)


@contextmanager
def openssh(folder: Path, board: Board | None = None) -> Iterator[SshServer]:
    """Run OpenSSH's server; sessions have the board's shell or this machine's. Skips without it."""
    program = find_program("sshd", "openssh-server")
    with _server("openssh", program, folder, board, _openssh_command) as server:
        yield server


@contextmanager
def dropbear(folder: Path, board: Board | None = None) -> Iterator[SshServer]:
    """Run dropbear; sessions have the board's shell, or this machine's. Skips without it."""
    program = find_program("dropbear", "dropbear-bin")
    with _server("dropbear", program, folder, board, _dropbear_command) as server:
        yield server


def _openssh_command(program: Program, folder: Path, port: int) -> list[str]:
    _make_key(folder / "host_key")
    config = folder / "sshd_config"
    config.write_text(
        _OPENSSH_CONFIG.format(loopback=LOOPBACK, port=port, folder=folder, home=folder / "home"),
        encoding="utf-8",
    )
    return [str(program.path), "-D", "-e", "-f", str(config)]


def _dropbear_command(program: Program, folder: Path, port: int) -> list[str]:
    maker = program.path.parent.parent / "bin" / "dropbearkey"
    key = folder / "host_key"
    made = subprocess.run(
        [maker, "-t", "ed25519", "-f", key],
        env=program.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    public = next(line for line in made.stdout.splitlines() if line.startswith("ssh-ed25519 "))
    key.with_suffix(".pub").write_text(public + "\n", encoding="ascii")
    return [
        str(program.path),
        "-F",
        "-E",
        "-r",
        str(key),
        "-p",
        f"{LOOPBACK}:{port}",
        "-P",
        str(folder / "pid"),
    ]


@contextmanager
def _server(
    name: str,
    program: Program,
    folder: Path,
    board: Board | None,
    command: Callable[[Program, Path, int], list[str]],
) -> Iterator[SshServer]:
    environment = {**program.environment(), **_other_home(folder)}
    _allow_login(folder, str(board.shell) if board else _SHELL)
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*_entrance(), *command(program, folder, port)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    server = SshServer(name, process.pid, port, folder, board)
    try:
        _prepare_client(server)
        _wait_until_it_listens(server, process)
        yield server
    finally:
        _end(process)


def _entrance() -> list[str]:
    """Return the command that runs a server."""
    if os.getuid() != 0:
        return []
    enter = ["unshare", "--mount", "sh", "-c", _AS_ROOT, "sh"]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(
            "this root may not mount, so a server would need a folder of the machine's:"
            f" {tried.stderr.strip()}"
        )
    return enter


def _other_home(folder: Path) -> dict[str, str]:
    """Return the variables by which a program takes a folder below this one for the home of the
    tests' user.
    """
    library = next(Path("/usr/lib").glob("*/libnss_wrapper.so"), None)
    architecture = architecture_of_this_python()
    if library is None and architecture is not None:
        library = next(
            unpacked_packages(architecture, "libnss-wrapper", follow=False).glob(
                "usr/lib/*/*wrapper.so"
            )
        )
    user = pwd.getpwuid(os.getuid())
    lines = [
        f"{user.pw_name}:*:{user.pw_uid}:{user.pw_gid}::{folder / 'home'}:/bin/sh",
        "sshd:*:65534:65534::/:/bin/false",
    ]
    variables = {"LD_PRELOAD": str(library)}
    for name, text in (("PASSWD", "\n".join(lines)), ("GROUP", f"users:*:{user.pw_gid}:")):
        path = folder / name.lower()
        path.write_text(f"{text}\n", encoding="utf-8")
        variables[f"NSS_WRAPPER_{name}"] = str(path)
    return variables


def _allow_login(folder: Path, shell: str) -> None:
    """Make the key of the tests' user, who gets that shell."""
    _make_key(folder / "key")
    session = folder / "session"
    session.write_text(_SESSION.format(shell=shell), encoding="utf-8")
    session.chmod(0o755)
    keys = folder / "home" / ".ssh" / "authorized_keys"
    keys.parent.mkdir(mode=0o700, parents=True)
    keys.write_text(
        f'command="{session}" {(folder / "key.pub").read_text(encoding="ascii")}', encoding="ascii"
    )
    keys.chmod(0o600)


def _prepare_client(server: SshServer) -> None:
    folder = server.folder
    public = (folder / "host_key.pub").read_text(encoding="ascii").split()[:2]
    other = (folder / "key.pub").read_text(encoding="ascii").split()[:2]
    for name, key in (("known_hosts", public), ("known_hosts_changed", other)):
        (folder / name).write_text(
            f"[{LOOPBACK}]:{server.port} {' '.join(key)}\n", encoding="ascii"
        )
    user = pwd.getpwuid(os.getuid()).pw_name
    text = _CLIENT_CONFIG.format(
        loopback=LOOPBACK, port=server.port, user=user, folder=folder, names=HOSTS
    )
    server.config.write_text(text, encoding="utf-8")
    client = shutil.which("ssh")
    if client is None:
        pytest.skip("no ssh (Debian: apt install openssh-client)")
    server.programs.mkdir()
    wrapper = server.programs / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {client} -F {server.config} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)


def _make_key(path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen (Debian: apt install openssh-client)")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind((LOOPBACK, 0))
        return int(candidate.getsockname()[1])


def _wait_until_it_listens(server: SshServer, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < end:
        assert process.poll() is None, f"{server.name} ended: {server.log()}"
        with suppress(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, server.port)).close()
            return
        time.sleep(0.02)
    raise AssertionError(f"{server.name} does not listen: {server.log()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and what serves its connections; what runs in a session has lost its pipes
    then.
    """
    served = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.wait()
    for child in served:
        with suppress(psutil.NoSuchProcess):
            child.kill()
