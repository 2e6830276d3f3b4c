"""A started driver and its pipes, near or far."""

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
from typing import IO, Protocol

import psutil

from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.system_memory import oom_kills
from reusebench.system import processes
from reusebench.system.cache import CacheError, OwnFolder
from reusebench.system.interrupts import uninterrupted
from reusebench.targets.errors import TargetError
from reusebench.targets.oom_scores import OomScores
from reusebench.targets.outcome import Ending

__all__ = ["LAST_WORDS_BYTES", "LEDGER_VARIABLE", "DriverProcess", "LocalProcess", "readable_words"]

#: Names the file to which the preload library of targets/preload writes its ledger of NPU buffers.
LEDGER_VARIABLE = "REUSEBENCH_LEDGER"

#: What is kept of the end of standard error.
LAST_WORDS_BYTES = 4000
_READ_BYTES = 1 << 16
#: Escape sequences with which runtimes colour their messages.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: How long a process that closed its pipe may take to leave.
_LEAVE_S = 10.0


class DriverProcess(Protocol):
    """A started driver. Every method but close may raise ConnectionLost where it runs on a far
    board.
    """

    pid: int
    #: By the monotonic clock of its machine.
    started_ns: int

    def send(self, data: bytes) -> int:
        """Write to its standard input; return when, by its machine's clock. Nothing happens where
        it has gone.
        """

    def receive(self, timeout_s: float) -> bytes | None:
        """Return what it wrote to its standard output, waiting so long; None if nothing came,
        b"" at its end.
        """

    def ending(self) -> Ending:
        """Return how it ended; one that has closed its output and does not leave is killed."""

    def last_words(self) -> str:
        """Return the end of what it wrote to standard error."""

    def ledger(self) -> bytes | None:
        """Return the ledger of its NPU buffers as far as it is written; None if none is kept."""

    def close(self) -> None:
        """End it, if it has not left, and its children, and release all that belongs to it."""


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
        """Start the command in the folder, with these variables added to the environment."""
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
            variables[LEDGER_VARIABLE] = str(self._ledger_file(self._ledger_folder))
        self.started_ns = time.monotonic_ns()
        try:
            self._popen = processes.start(command, folder, variables, self._errors)
        except OSError as error:
            self._errors.close()
            raise TargetError(f"{command[0]} cannot be started: {error.strerror}") from None
        self._commands = _pipe(self._popen.stdin)
        self._messages = _pipe(self._popen.stdout)
        self.pid = self._popen.pid
        self._oom_scores = OomScores(self.pid)

    def send(self, data: bytes) -> int:
        """Write to its standard input."""
        sent_ns = time.monotonic_ns()
        with contextlib.suppress(BrokenPipeError):
            self._commands.write(data)
        return sent_ns

    def receive(self, timeout_s: float) -> bytes | None:
        """Return what it wrote to its standard output."""
        readable, _, _ = select.select([self._messages], [], [], timeout_s)
        return self._messages.read(_READ_BYTES) if readable else None

    def ending(self) -> Ending:
        """Return how it ended."""
        try:
            code = self._popen.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        return Ending(code, oom_kills(LOCAL_HOST) > self._oom_kills)

    def last_words(self) -> str:
        """Return the end of standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        return readable_words(self._errors.read())

    def ledger(self) -> bytes | None:
        """Return the ledger; it is empty if the process has written none yet."""
        if self._ledger_folder is None:
            return None
        file = self._ledger_file(self._ledger_folder)
        return file.read_bytes() if file.exists() else b""

    def close(self) -> None:
        """End it and its descendants, also those that have left its session."""
        with uninterrupted():
            self._oom_scores.restore()
            # RuntimeError if /proc/stat is empty, by which psutil knows processes: the group is
            # ended below.
            with contextlib.suppress(psutil.NoSuchProcess, RuntimeError):
                for process in psutil.Process(self.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
            processes.end(self._popen)
            self._errors.close()
            if self._ledger_folder:
                self._ledger_folder.close()

    @staticmethod
    def _ledger_file(folder: OwnFolder) -> Path:
        return folder.path / "ledger.jsonl"


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
