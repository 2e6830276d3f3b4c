"""A driver that runs on a far board, started and ended by the reader."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import struct
import time
from collections.abc import Mapping, Sequence

from reusebench.targets.errors import ConnectionLost, NotStarted, TargetError
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.host import read_request
from reusebench.targets.outcome import Ending, oom_kills_in
from reusebench.targets.process import LAST_WORDS_BYTES, LEDGER_VARIABLE, readable_words

__all__ = ["HAS_MARKS", "FarProcess"]

# native/reader/reader.h is the other side.
_START = struct.Struct("<III")
_STARTED = struct.Struct("<IQ")
_HAS_LEDGER = 1
HAS_MARKS = 2
_HAS_WORDS = 4
_IS_VICTIM = 8
_WRITTEN = struct.Struct("<IQ")
_NUMBER = struct.Struct("<I")
_ENDED = struct.Struct("<IQ")
#: What one request carries of the process's input.
_INPUT_BYTES = 1 << 15
#: How long a process may leave its input unread before the rest is not sent: it hangs, which its
#: time limit tells.
_INPUT_LIMIT_S = 10.0
_INPUT_PAUSE_S = 0.01
#: How long a process that closed its pipe may take to leave.
_LEAVE_S = 10.0
#: The reader gives the process its ledger as this file.
_LEDGER = "/proc/self/fd/3"
_VMSTAT = "/proc/vmstat"
_KERNEL_LOG = "/dev/kmsg"

#: Why a program could not be started, and what to do.
_REASONS = {
    errno.ENOENT: "it is not there, or the loader that it names is not",
    errno.ENOEXEC: "it was made for another machine",
    errno.EACCES: "it may not be run: it has no permission for that, or its disk is mounted noexec",
    errno.EBUSY: "the process before it cannot be ended: it hangs in the kernel; restart the board",
    errno.E2BIG: "its arguments are too long",
}


class FarProcess:
    """A process on a far board. Every method but close raises ConnectionLost."""

    #: What a process that has a ledger has it by.
    _pipe_flag = _HAS_LEDGER
    #: Name the pipe to a process that has one.
    _pipe_variables: Mapping[str, str] = {LEDGER_VARIABLE: _LEDGER}
    #: Whether its standard error is a file, in which a driver finds what Rockchip's library has
    #: written.
    _has_words = True
    #: Whether the kernel ends it first where memory runs out.
    _is_victim = True

    def __init__(
        self,
        connection: Connection,
        command: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        keeps_ledger: bool,
    ) -> None:
        """Start the command in the folder, with these variables added; TargetError if it cannot
        be.
        """
        self._connection = connection
        self._output = bytearray()
        self._errors = b""
        self._ledger = bytearray() if keeps_ledger else None
        self._output_ended = False
        self._status: int | None = None
        #: Once it has ended: the highest RSS of it, and of its descendants that had ended before.
        self.peak_rss_bytes = 0
        connection.listeners.update(
            o=self._take_output, u=self._take_errors, y=self._take_ledger, z=self._take_ending
        )
        self._oom_kills = self._count_oom_kills()
        variables = {**environment, **(self._pipe_variables if keeps_ledger else {})}
        texts = [folder, *command, *(f"{name}={value}" for name, value in variables.items())]
        flags = (
            self._pipe_flag * keeps_ledger
            | _HAS_WORDS * self._has_words
            | _IS_VICTIM * self._is_victim
        )
        fields = _START.pack(flags, len(command), len(variables))
        try:
            reply = connection.request(
                Request("p", fields + b"".join(os.fsencode(text) + b"\0" for text in texts))
            )
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, error.strerror)
            where = f" in {folder}" if folder else ""
            sentence = f"{connection.name}: {command[0]} cannot be started{where}: {reason}"
            raise NotStarted(
                sentence, is_missing=error.errno in (errno.ENOENT, errno.ENOTDIR)
            ) from None
        self.pid, self.started_ns = _STARTED.unpack(reply)

    def send(self, data: bytes) -> int:
        """Write to its standard input. From a signal's handler a word may be sent, whose time is
        not known: 0.
        """
        if self._connection.is_busy:
            self._connection.post(Request("i", data))
            return 0
        time_ns = 0
        given_up_s = time.monotonic() + _INPUT_LIMIT_S
        while data and time.monotonic() < given_up_s:
            try:
                count, time_ns = self._write(data[:_INPUT_BYTES])
            except BrokenPipeError:
                break
            data = data[count:]
            if count:
                given_up_s = time.monotonic() + _INPUT_LIMIT_S
            else:
                self._connection.wait(lambda: self._output_ended, _INPUT_PAUSE_S)
        return time_ns

    def receive(self, timeout_s: float) -> bytes | None:
        """Return what it wrote to its standard output."""
        if not self._connection.wait(lambda: bool(self._output) or self._output_ended, timeout_s):
            return None
        output = self._output
        self._output = bytearray()
        return bytes(output)

    def ending(self) -> Ending:
        """Return how it ended; TargetError if it cannot be ended."""
        if not self._connection.wait(self.has_ended, _LEAVE_S):
            self.signal(signal.SIGKILL)
        if not self._connection.wait(self.has_ended, _LEAVE_S):
            raise TargetError(f"{self._connection.name}: {_REASONS[errno.EBUSY]}")
        assert self._status is not None
        return Ending(os.waitstatus_to_exitcode(self._status), self._memory_ran_out())

    def has_ended(self) -> bool:
        """Whether it has ended, as far as has come."""
        return self._status is not None

    def signal(self, number: int) -> None:
        """Send it and its group a signal, as a terminal does; nothing happens where it has
        ended.
        """
        with contextlib.suppress(ProcessLookupError):
            self._connection.request(Request("g", _NUMBER.pack(number)))

    def last_words(self) -> str:
        """Return the end of standard error."""
        return readable_words(self._errors)

    def ledger(self) -> bytes | None:
        """Return the ledger, as far as it has come."""
        return None if self._ledger is None else bytes(self._ledger)

    def close(self) -> None:
        """End it and its descendants."""
        # Where the connection is lost, the reader ends them by itself. The next start tells of one
        # that does not end.
        with contextlib.suppress(ConnectionLost, TimeoutError):
            self._connection.request(Request("e"))
        for kind in "ouyz":
            del self._connection.listeners[kind]

    def _write(self, data: bytes) -> tuple[int, int]:
        """Return how many bytes its input took, and when; BrokenPipeError if it has closed
        it.
        """
        count, time_ns = _WRITTEN.unpack(self._connection.request(Request("i", data)))
        return count, time_ns

    def _take_output(self, data: bytes) -> None:
        self._output += data
        self._output_ended |= not data

    def _take_errors(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-LAST_WORDS_BYTES:]

    def _take_ledger(self, data: bytes) -> None:
        if self._ledger is not None:
            self._ledger += data

    def _take_ending(self, data: bytes) -> None:
        self._status, self.peak_rss_bytes = _ENDED.unpack(data)

    def _memory_ran_out(self) -> bool:
        """Whether the kernel has killed for memory since the start; a small board's tells it in its
        log alone.
        """
        if self._oom_kills is not None:
            return (self._count_oom_kills() or 0) > self._oom_kills
        try:
            log = self._connection.request(read_request(_KERNEL_LOG)).decode(errors="replace")
        except OSError:
            return False
        # Each record begins with its level, its number and its time since the start of the board,
        # in microseconds.
        records = re.findall(r"^\d+,\d+,(\d+),[^;]*;.*Killed process (\d+)", log, re.MULTILINE)
        return any(
            int(pid) == self.pid and int(time_us) * 1000 > self.started_ns
            for time_us, pid in records
        )

    def _count_oom_kills(self) -> int | None:
        try:
            return oom_kills_in(self._connection.request(read_request(_VMSTAT)).decode())
        except OSError:
            return None
