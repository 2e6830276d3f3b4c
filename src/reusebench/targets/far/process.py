"""A driver on a remote board, started and ended by the reader."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import struct
import time
from collections.abc import Mapping, Sequence

from reusebench.targets.errors import ConnectionLost, InputNotRead, NotStarted, TargetError
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.host import read_request
from reusebench.targets.outcome import Ending, oom_kills_in
from reusebench.targets.process import LEDGER_VARIABLE, SEND_LIMIT_S
from reusebench.targets.standard_error import LAST_WORDS_BYTES, readable_words

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
#: Bytes of the process's input in one request.
_INPUT_BYTES = 1 << 15
_INPUT_PAUSE_S = 0.01
#: Time for a process that has closed its pipe to exit.
_LEAVE_S = 10.0
#: Path of the ledger in the process, as the reader opens it.
_LEDGER = "/proc/self/fd/3"
_VMSTAT = "/proc/vmstat"
_KERNEL_LOG = "/dev/kmsg"
#: Each record begins with its level, its number, and its time since boot in microseconds.
_KILL_RECORD = re.compile(r"^\d+,\d+,(\d+),[^;]*;.*Killed process (\d+)", re.MULTILINE)

#: Reasons for which a program cannot be started, and what to do.
_REASONS = {
    errno.ENOENT: "it is not there, or the loader that it names is not",
    errno.ENOEXEC: "it was made for another machine",
    errno.EACCES: "it may not be run: it has no permission for that, or its disk is mounted noexec",
    errno.EBUSY: "the process before it cannot be ended: it hangs in the kernel; restart the board",
    errno.E2BIG: "its arguments are too long",
}


class FarProcess:
    """A process on a remote board. Every method except close raises ConnectionLost."""

    #: Flag for the additional pipe that the process gets if it keeps a ledger.
    _pipe_flag = _HAS_LEDGER
    #: Environment variables that name this pipe to the process.
    _pipe_variables: Mapping[str, str] = {LEDGER_VARIABLE: _LEDGER}
    #: Whether standard error is a file, in which a driver finds messages of Rockchip's library.
    _has_words = True
    #: Whether the kernel ends this process first when memory runs out.
    _is_victim = True

    def __init__(
        self,
        connection: Connection,
        command: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        keeps_ledger: bool,
    ) -> None:
        """Start the command in the folder, with these variables added; NotStarted if that fails."""
        self._connection = connection
        self._output = bytearray()
        self._errors = b""
        self._ledger = bytearray() if keeps_ledger else None
        self._output_ended = False
        self._status: int | None = None
        #: Highest RSS of the process, and of descendants that ended before it; 0 until it has
        #: ended.
        self.peak_rss_bytes = 0
        connection.listeners.update(
            o=self._take_output, u=self._take_errors, y=self._take_ledger, z=self._take_ending
        )
        self._oom_kills_before = self._count_oom_kills()
        request = self._start_request(command, folder, environment, keeps_ledger)
        try:
            reply = connection.request(request)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, error.strerror)
            where = f" in {folder}" if folder else ""
            sentence = f"{connection.name}: {command[0]} cannot be started{where}: {reason}"
            is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            raise NotStarted(sentence, is_missing) from None
        self.pid, self.started_ns = _STARTED.unpack(reply)

    def _start_request(
        self,
        command: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        keeps_ledger: bool,
    ) -> Request:
        flags = 0
        variables = dict(environment)
        if keeps_ledger:
            flags |= self._pipe_flag
            variables.update(self._pipe_variables)
        if self._has_words:
            flags |= _HAS_WORDS
        if self._is_victim:
            flags |= _IS_VICTIM
        texts = [folder, *command, *(f"{name}={value}" for name, value in variables.items())]
        content = b"".join(os.fsencode(text) + b"\0" for text in texts)
        return Request("p", _START.pack(flags, len(command), len(variables)) + content)

    def send(self, data: bytes, limit_s: float = SEND_LIMIT_S) -> int:
        """Write to standard input; return the time of the last write.

        A signal handler may send a word; its time is unknown, and 0 is returned.
        """
        if self._connection.is_busy:
            self._connection.post(Request("i", data))
            return 0
        time_ns = 0
        deadline = time.monotonic() + limit_s
        while data:
            if time.monotonic() >= deadline:
                raise InputNotRead(limit_s)
            try:
                count, time_ns = self._write(data[:_INPUT_BYTES])
            except BrokenPipeError:
                break
            data = data[count:]
            if not count:
                self._connection.wait(lambda: self._output_ended, _INPUT_PAUSE_S)
        return time_ns

    def receive(self, timeout_s: float) -> bytes | None:
        """Return data from standard output, waiting up to `timeout_s`; None if none arrived."""
        if not self._connection.wait(lambda: bool(self._output) or self._output_ended, timeout_s):
            return None
        output = self._output
        self._output = bytearray()
        return bytes(output)

    def ending(self) -> Ending:
        """Return the ending; TargetError if the process cannot be ended."""
        if not self._connection.wait(self.has_ended, _LEAVE_S):
            self.signal(signal.SIGKILL)
        if not self._connection.wait(self.has_ended, _LEAVE_S):
            raise TargetError(f"{self._connection.name}: {_REASONS[errno.EBUSY]}")
        assert self._status is not None
        return Ending(os.waitstatus_to_exitcode(self._status), self._memory_ran_out())

    def has_ended(self) -> bool:
        """Whether its end has been reported."""
        return self._status is not None

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group, as a terminal does, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._connection.request(Request("g", _NUMBER.pack(number)))

    def last_words(self) -> str:
        """Return the end of standard error."""
        return readable_words(self._errors)

    def ledger(self) -> bytes | None:
        """Return the ledger, as far as it has arrived."""
        return None if self._ledger is None else bytes(self._ledger)

    def close(self) -> None:
        """End the process and its descendants."""
        # After a lost connection the reader ends them by itself. A process that cannot be ended is
        # reported by the next start.
        with contextlib.suppress(ConnectionLost, TimeoutError):
            self._connection.request(Request("e"))
        for kind in "ouyz":
            del self._connection.listeners[kind]

    def _write(self, data: bytes) -> tuple[int, int]:
        """Return the number of bytes written and the time; BrokenPipeError if input is closed."""
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
        """Whether the kernel has killed a process for memory since the start.

        A small board's kernel does not count that, but logs it.
        """
        if self._oom_kills_before is not None:
            return (self._count_oom_kills() or 0) > self._oom_kills_before
        try:
            log = self._connection.request(read_request(_KERNEL_LOG)).decode(errors="replace")
        except OSError:
            return False
        for time_us, pid in _KILL_RECORD.findall(log):
            if int(pid) == self.pid and int(time_us) * 1000 > self.started_ns:
                return True
        return False

    def _count_oom_kills(self) -> int | None:
        try:
            return oom_kills_in(self._connection.request(read_request(_VMSTAT)).decode())
        except OSError:
            return None
