"""A started driver and its pipes, on this machine or on a remote board."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import psutil

from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.system_memory import oom_kills
from reusebench.system import processes
from reusebench.system.cache import CacheError
from reusebench.system.interrupts import uninterrupted
from reusebench.targets.errors import InputNotRead, TargetError
from reusebench.targets.ledger_file import LedgerFile
from reusebench.targets.oom_scores import OomScores
from reusebench.targets.outcome import Ending
from reusebench.targets.standard_error import StandardError
from reusebench.targets.starter_link import StarterLink

__all__ = ["LEDGER_VARIABLE", "SEND_LIMIT_S", "DriverProcess", "LocalProcess"]

#: Variable with the path of the file to which the preload library writes its ledger.
LEDGER_VARIABLE = "REUSEBENCH_LEDGER"

#: Time for which a process may leave its input unread, unless the caller has another limit.
SEND_LIMIT_S = 10.0
_READ_BYTES = 1 << 16
#: Limit for a process that has closed its pipe to exit.
_LEAVE_S = 10.0
#: Interval at which the sizes of its files are looked at.
_WATCH_S = 0.1


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


class LocalProcess:
    """A process on this machine."""

    def __init__(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        link: StarterLink | None = None,
    ) -> None:
        """Start `command` in `folder`, with `environment` added to the environment.

        `link` is the connection to a sandbox whose program `command` starts.
        """
        self._oom_kills = oom_kills(LOCAL_HOST)
        try:
            self._ledger = LedgerFile() if keeps_ledger else None
        except (CacheError, OSError) as error:
            raise TargetError(f"the ledger of NPU buffers: {error}") from None
        variables = {**os.environ, **environment}
        if self._ledger:
            variables[LEDGER_VARIABLE] = str(self._ledger.path)
        self._errors = StandardError()
        self._link = link
        kept_open = (link.descriptor,) if link else ()
        self.started_ns = time.monotonic_ns()
        try:
            self._popen = processes.start(command, folder, variables, self._errors.file, kept_open)
        except OSError as error:
            self._release()
            raise TargetError(f"{command[0]} cannot be started: {error.strerror}") from None
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._commands = self._popen.stdin
        os.set_blocking(self._commands.fileno(), False)
        self._messages = self._popen.stdout
        started = link.started() if link else None
        self.pid = started or self._popen.pid
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
        """Return bytes from standard output, waiting up to `timeout_s`.

        A process that fills the disk meanwhile is killed.
        """
        deadline = time.monotonic() + timeout_s
        left_s = timeout_s
        while True:
            self._bound_files()
            wait_s = min(max(0.0, left_s), _WATCH_S)
            readable, _, _ = select.select([self._messages], [], [], wait_s)
            if readable:
                return self._messages.read(_READ_BYTES)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None

    def ending(self) -> Ending:
        """Wait until the process exits; kill it after _LEAVE_S."""
        deadline = time.monotonic() + _LEAVE_S
        code = None
        while code is None:
            try:
                code = self._popen.wait(_WATCH_S)
            except subprocess.TimeoutExpired:
                self._bound_files()
                if time.monotonic() >= deadline:
                    self._kill()
        return Ending(code, oom_kills(LOCAL_HOST) > self._oom_kills)

    def last_words(self) -> str:
        """Return the end of standard error."""
        return self._errors.last_words()

    def ledger(self) -> bytes | None:
        """Return the ledger; it is empty if the process has written nothing yet."""
        return self._ledger.content() if self._ledger else None

    def close(self) -> None:
        """End it and its descendants, including those that have left its session."""
        with uninterrupted():
            self._oom_scores.restore()
            if self._link:
                self._end_sandbox(self._link)
            else:
                self._kill_descendants()
            processes.end(self._popen)
            self._release()

    def _release(self) -> None:
        self._errors.close()
        if self._ledger:
            self._ledger.close()

    def _bound_files(self) -> None:
        """Kill the process if one of its files is larger than it may be."""
        is_too_large = self._errors.shorten()
        if self._ledger:
            is_too_large |= self._ledger.is_too_large()
        if is_too_large:
            self._kill()

    def _kill(self) -> None:
        if self._link:
            self._link.close()
        else:
            self._popen.kill()

    def _end_sandbox(self, link: StarterLink) -> None:
        """End all processes of the sandbox; its own process ends when the others have gone."""
        link.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(_LEAVE_S)

    def _kill_descendants(self) -> None:
        # RuntimeError: psutil tells processes apart by /proc/stat, which may be empty. The process
        # group is ended afterwards.
        with contextlib.suppress(psutil.NoSuchProcess, RuntimeError):
            for process in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
