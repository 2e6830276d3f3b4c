"""Drivers that are forks of one process which has imported their runtime: imports are most of what
a short walk takes.

For tests of what a driver does. What it imports and what its memory is can be told of one that is
started alone.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from reusebench.targets.machine import LocalMachine, Reach
from reusebench.targets.outcome import Ending
from reusebench.targets.process import DriverProcess
from reusebench.targets.standard_error import LAST_WORDS_BYTES, readable_words
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.support import CHECKOUT, SCRIPTED

__all__ = ["ONNX_FORKS", "RKNN_FORKS", "SCRIPTED_FORKS"]

_DRIVER = "reusebench.measured.driver"
_READ_BYTES = 1 << 16
#: Time in which a driver that closed its pipe must end.
_LEAVE_S = 10.0
#: Prefix of the loader's variables: they act at the start of a program, which a fork is not.
_OF_LOADER = "LD_"


def _forking(target: Target, program: str, *modules: str) -> Target:
    """Return the target, whose drivers are forks of a process that has imported the program and
    these modules.

    That process is started with the first driver. The program is a module with a `main`.
    """
    return replace(target, machine=_ForkingMachine(target.command, (program, *modules)))


class _ForkingMachine(LocalMachine):
    """This machine."""

    def __init__(self, command: tuple[str, ...], modules: tuple[str, ...]) -> None:
        self._command = command
        self._modules = modules
        self._requests: socket.socket | None = None

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,
    ) -> DriverProcess:
        """Have the driver forked; start what is another program, or is loaded in another way."""
        is_loaded_alike = not keeps_ledger and not any(
            name.startswith(_OF_LOADER) for name in environment
        )
        if command != self._command or not is_loaded_alike:
            return super().start(command, folder, environment, keeps_ledger, reach)
        if self._requests is None:
            self._requests = self._begin()
        return _ForkedDriver(self._requests, folder, environment)

    def _begin(self) -> socket.socket:
        """Start the process that forks, and return the socket that it reads."""
        requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.helpers.forks", *self._modules],
                cwd=CHECKOUT,
                # Else numpy would start threads, which a fork does not have.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=theirs.fileno(),
            )
        # Handlers run last to first: the server ends when there can be no more requests.
        atexit.register(server.wait)
        atexit.register(requests.close)
        return requests


class _ForkedDriver:
    """A driver that another process has forked."""

    def __init__(
        self, requests: socket.socket, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        stdin, self._commands = os.pipe()
        self._messages, stdout = os.pipe()
        ours, reports = socket.socketpair()
        self._reports = ours.makefile("r")
        request = json.dumps({"folder": str(folder), "environment": {**os.environ, **environment}})
        self.started_ns = time.monotonic_ns()
        socket.send_fds(
            requests, [request.encode()], [stdin, stdout, self._errors.fileno(), reports.fileno()]
        )
        for end in (stdin, stdout):
            os.close(end)
        for socket_ in (ours, reports):
            socket_.close()
        self.pid = self._reported("pid")

    def send(self, data: bytes, _limit_s: float = 0.0) -> int:
        """Write to its standard input."""
        sent_ns = time.monotonic_ns()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, data)
        return sent_ns

    def receive(self, timeout_s: float) -> bytes | None:
        """Return its standard output."""
        readable, _, _ = select.select([self._messages], [], [], timeout_s)
        return os.read(self._messages, _READ_BYTES) if readable else None

    def ending(self) -> Ending:
        """Return its exit code."""
        if not self._has_ended(_LEAVE_S):
            os.kill(self.pid, signal.SIGKILL)
        return Ending(self._reported("exit"), False)

    def last_words(self) -> str:
        """Return the end of standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        return readable_words(self._errors.read())

    def ledger(self) -> bytes | None:
        """Return None: there is none."""
        return None

    def close(self) -> None:
        """End it and what it has started, and wait for it."""
        if not self._has_ended(0):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._reports.read()
        self._reports.close()
        os.close(self._commands)
        os.close(self._messages)
        self._errors.close()

    def _has_ended(self, timeout_s: float) -> bool:
        """Wait up to `timeout` for its end, which is the next report."""
        readable, _, _ = select.select([self._reports], [], [], timeout_s)
        return bool(readable)

    def _reported(self, what: str) -> int:
        """Return the number of the next report."""
        name, _, number = self._reports.readline().partition(" ")
        assert name == what, "the process that forks drivers has ended"
        return int(number)


#: Forks for plans on the double of Rockchip's library.
RKNN_FORKS = _forking(THIS_INTERPRETER, _DRIVER, "reusebench.measured.runtimes.rknn.adapter")
#: Forks for plans on ONNX Runtime.
ONNX_FORKS = _forking(THIS_INTERPRETER, _DRIVER, "reusebench.measured.runtimes.onnxruntime.adapter")
#: Forks for plans on the scripted runtime.
SCRIPTED_FORKS = _forking(SCRIPTED, "tests.helpers.scripted_driver")


def _serve(requests: socket.socket) -> int:
    """Fork a driver for each request until there are no more; return the exit code, in a driver its
    own.
    """
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        _forget_ended(os.WNOHANG if request else 0)
        if not request:
            return 0
        if os.fork() == 0:
            requests.close()
            return _watch(json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _forget_ended(options: int) -> None:
    """Wait for ended processes, or for all processes."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _watch(request: dict[str, object], stdin: int, stdout: int, stderr: int, reports: int) -> int:
    """Fork the driver and report how it ended; return the exit code, in the driver its own."""
    child = os.fork()
    if child == 0:
        return _drive(request, stdin, stdout, stderr, reports)
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    # Its remaining processes are ended while no other process can have its number.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.write(reports, f"exit {os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _drive(request: dict[str, object], stdin: int, stdout: int, stderr: int, reports: int) -> int:
    """Be the driver."""
    os.setsid()
    for descriptor, number in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.write(reports, f"pid {os.getpid()}\n".encode())
    os.close(reports)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    exit_code: int = importlib.import_module(sys.argv[1]).main()
    return exit_code


def main() -> int:
    """Import the modules and serve."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()
    return _serve(socket.socket(fileno=os.dup(0)))


if __name__ == "__main__":
    sys.exit(main())
