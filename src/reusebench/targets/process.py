"""A started driver and its pipes, on this machine or on a remote board."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import psutil

from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.system_memory import oom_kills
from reusebench.system import processes
from reusebench.system.cache import CacheError, OwnFolder
from reusebench.system.interrupts import uninterrupted
from reusebench.targets.errors import InputNotRead, TargetError
from reusebench.targets.oom_scores import OomScores
from reusebench.targets.outcome import Ending

__all__ = [
    "LAST_WORDS_BYTES",
    "LEDGER_VARIABLE",
    "SEND_LIMIT_S",
    "DriverProcess",
    "LocalProcess",
    "readable_words",
]

#: Variable with the path of the file to which the preload library writes its ledger.
LEDGER_VARIABLE = "REUSEBENCH_LEDGER"

#: Time for which a process may leave its input unread, unless the caller has another limit.
SEND_LIMIT_S = 10.0
#: Length of the end of standard error that is kept.
LAST_WORDS_BYTES = 4000
_READ_BYTES = 1 << 16
#: Name of the ledger in a folder of its own.
_LEDGER = "ledger.jsonl"
#: Escape sequences of coloured messages.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: Limit for a process that has closed its pipe to exit.
_LEAVE_S = 10.0


class DriverProcess(Protocol):
    """A started driver.

    If it runs on a remote board, every method but `close` may raise ConnectionLost.
    """

    pid: int
    #: Time of its start by the monotonic clock of its machine.
    started_ns: int

    def send(self, data: bytes, limit_s: float = SEND_LIMIT_S) -> int:
        """Write to its standard input, and return the time by its machine's clock.

        Nothing happens if the process has gone. Raises InputNotRead if it does not take all data
        within `limit_s`.
        """

    def receive(self, timeout_s: float) -> bytes | None:
        """Return bytes from its standard output, waiting up to `timeout_s`.

        None if no bytes came, b"" at the end of the output.
        """

    def ending(self) -> Ending:
        """Wait until it exits; kill it if it has closed its output but stays."""

    def last_words(self) -> str:
        """Return the end of its standard error."""

    def ledger(self) -> bytes | None:
        """Return the ledger of NPU buffers written so far; None if none is kept."""

    def close(self) -> None:
        """End it and its children, and release all that belongs to it."""


def readable_words(errors: bytes) -> str:
    """Return the end of standard error as text, without colours."""
    return _COLOURS.sub("", errors[-LAST_WORDS_BYTES:].decode(errors="replace")).strip()


class LocalProcess:
    """A process on this machine."""

    def __init__(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
    ) -> None:
        """Start `command` in `folder`, with `environment` added to the environment."""
        self._oom_kills = oom_kills(LOCAL_HOST)
        try:
            self._ledger_folder = OwnFolder() if keeps_ledger else None
        except CacheError as error:
            raise TargetError(f"the ledger of NPU buffers: {error}") from None
        try:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        except OSError as error:
            raise TargetError(
                "the errors of the measured process need a temporary file, and none can be made"
                f" ({error.strerror}); set TMPDIR to a folder that is writable and has room"
            ) from None
        variables = {**os.environ, **environment}
        if self._ledger_folder:
            variables[LEDGER_VARIABLE] = str(self._ledger_folder.path / _LEDGER)
        self.started_ns = time.monotonic_ns()
        try:
            self._popen = processes.start(command, folder, variables, self._errors)
        except OSError as error:
            self._errors.close()
            raise TargetError(f"{command[0]} cannot be started: {error.strerror}") from None
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._commands = self._popen.stdin
        os.set_blocking(self._commands.fileno(), False)
        self._messages = self._popen.stdout
        self.pid = self._popen.pid
        self._oom_scores = OomScores(self.pid)

    def send(self, data: bytes, limit_s: float = SEND_LIMIT_S) -> int:
        """Write to standard input, and return the time before the last part was written."""
        deadline = time.monotonic() + limit_s
        view = memoryview(data)
        while True:
            sent_ns = time.monotonic_ns()
            with contextlib.suppress(BlockingIOError):
                try:
                    view = view[os.write(self._commands.fileno(), view) :]
                except BrokenPipeError:
                    return sent_ns
            if not view:
                return sent_ns
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise InputNotRead(limit_s)
            select.select([], [self._commands], [], left_s)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return bytes from standard output, waiting up to `timeout_s`."""
        readable, _, _ = select.select([self._messages], [], [], timeout_s)
        return self._messages.read(_READ_BYTES) if readable else None

    def ending(self) -> Ending:
        """Wait until the process exits; kill it after _LEAVE_S."""
        try:
            code = self._popen.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        return Ending(code, oom_kills(LOCAL_HOST) > self._oom_kills)

    def last_words(self) -> str:
        """Return the last LAST_WORDS_BYTES of standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        return readable_words(self._errors.read())

    def ledger(self) -> bytes | None:
        """Return the ledger; it is empty if the process has written nothing yet."""
        if self._ledger_folder is None:
            return None
        file = self._ledger_folder.path / _LEDGER
        return file.read_bytes() if file.exists() else b""

    def close(self) -> None:
        """End it and its descendants, including those that have left its session."""
        with uninterrupted():
            self._oom_scores.restore()
            # RuntimeError: psutil tells processes apart by /proc/stat, which may be empty. The
            # process group is ended below.
            with contextlib.suppress(psutil.NoSuchProcess, RuntimeError):
                for process in psutil.Process(self.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
            processes.end(self._popen)
            self._errors.close()
            if self._ledger_folder:
                self._ledger_folder.close()
