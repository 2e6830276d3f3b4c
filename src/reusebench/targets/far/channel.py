"""A running transport: bytes to and from the board, without waiting forever."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import IO

from reusebench.targets.errors import ConnectionLost
from reusebench.targets.far.frames import Frame, FrameWriter
from reusebench.targets.far.transport import Transport

__all__ = ["Channel"]

_READ_BYTES = 1 << 16
#: Bytes that are kept of the command's standard error.
_WORDS_BYTES = 4000
#: Time for the command to report its error and exit.
_END_S = 3.0
#: Time after which a command that accepts no input counts as stuck.
_STUCK_S = 20.0
#: Exit code that the reader's keeper reports, by the convention of shells.
_READER_KILLED = 128 + signal.SIGKILL


class Channel:
    """The command and its pipes. `read` and `write` raise ConnectionLost."""

    def __init__(self, transport: Transport) -> None:
        """Start the command; raise TargetError if there is none."""
        self.transport = transport
        try:
            # The command has its own session: Ctrl-C reaches only the harness, which then ends
            # everything in order.
            self._popen = subprocess.Popen(
                transport.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise transport.missing() from None

            raise ConnectionLost(
                f"{transport.name}: {transport.command[0]} cannot be run: {error.strerror}"
            ) from None
        self._input = _pipe(self._popen.stdin)
        self._output = _pipe(self._popen.stdout)
        self._errors = _pipe(self._popen.stderr)
        os.set_blocking(self._input.fileno(), False)
        #: Held while bytes or frames are written, whose numbers follow each other.
        self._writing = threading.Lock()
        self._frames = FrameWriter()
        self._posted: deque[Frame] = deque()
        #: Cause of the lost connection; None while it is usable.
        self._broken: str | None = None
        self._read_meanwhile = b""
        self._words = b""
        self._errors_are_open = True
        #: Time of the last received byte. The reader of frames decides how long the board may be
        #: silent.
        self.heard_s = time.monotonic()

    @property
    def is_lost(self) -> bool:
        """Whether the connection is no longer usable."""
        return self._broken is not None

    @property
    def words(self) -> str:
        """The end of the command's standard error."""
        return self._words.decode(errors="replace").strip()

    def read(self, timeout_s: float) -> bytes:
        """Return received bytes, waiting up to `timeout_s`; empty if none arrived."""
        self._check_usable()
        if self._read_meanwhile:
            data = self._read_meanwhile
            self._read_meanwhile = b""
            return data
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = _seconds_until(deadline)
            readable, _, _ = select.select(self._sources(), [], [], left_s)
            if self._errors in readable:
                self._take_words()
            if self._output in readable:
                return self._take()
            if not left_s:
                return b""

    def write(self, data: bytes) -> None:
        """Write all data; data received meanwhile is kept for `read`."""
        self._check_usable()
        with self._writing:
            self._write_uninterrupted(data)

    def write_frames(self, frames: Sequence[Frame]) -> None:
        """Write all frames; data received meanwhile is kept for `read`."""
        self._check_usable()
        with self._writing:
            data = self._frames.sealed(frames)
            self._frames.note_sent(len(frames))
            self._write_uninterrupted(data)
        self._write_posted()

    def post(self, frame: Frame) -> None:
        """Write a small frame, at once or after the current write.

        May be called by another thread or a signal handler. The frame is dropped if the pipe is
        full or has ended.
        """
        self._posted.append(frame)
        self._write_posted()

    def _write_uninterrupted(self, data: bytes) -> None:
        try:
            self._write_whole(memoryview(data))
        except BaseException:
            # Ctrl-C may come anywhere: the board would take the next message for the rest of this
            # one.
            self._broken = self._broken or "it was interrupted in the middle of a message"
            raise

    def _write_posted(self) -> None:
        while self._posted and not self._broken and self._writing.acquire(blocking=False):
            try:
                # A pipe takes so few bytes completely or not at all.
                with contextlib.suppress(OSError, ValueError, IndexError):
                    sealed = self._frames.sealed([self._posted.popleft()])
                    os.write(self._input.fileno(), sealed)
                    self._frames.note_sent(1)
            finally:
                self._writing.release()

    def lost(self, cause: str) -> ConnectionLost:
        """Return the error of a connection that has ended or will end now.

        The command's own message, if there is one, replaces `cause`.
        """
        self._broken = self._broken or cause
        cause = self.transport.explain(self.words) or cause
        return ConnectionLost(f"the connection to {self.transport.name} was lost: {cause}")

    def close(self) -> None:
        """End the command, after a moment in which it may exit by itself."""
        self._broken = "it was closed"
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._output.close()
        self._errors.close()

    def _check_usable(self) -> None:
        if self._broken:
            raise self.lost(self._broken)

    def _sources(self) -> list[IO[bytes]]:
        return [self._output, self._errors] if self._errors_are_open else [self._output]

    def _take(self) -> bytes:
        data = self._output.read(_READ_BYTES)
        if not data:
            raise self.lost(self._describe_ending())
        self.heard_s = time.monotonic()
        return data

    def _take_words(self) -> None:
        words = self._errors.read(_READ_BYTES)
        self._errors_are_open = bool(words)
        self._words = (self._words + words)[-_WORDS_BYTES:]

    def _write_whole(self, view: memoryview) -> None:
        deadline = time.monotonic() + _STUCK_S
        while view:
            left_s = _seconds_until(deadline)
            readable, writable, _ = select.select(self._sources(), [self._input], [], left_s)
            if self._errors in readable:
                self._take_words()
            if self._output in readable:
                self._read_meanwhile += self._take()
            if writable:
                view = view[self._write_some(view) :]
                deadline = time.monotonic() + _STUCK_S
            if not readable and not writable:
                raise self.lost(f"the board has accepted no data for {_STUCK_S:g} s")

    def _write_some(self, view: memoryview) -> int:
        try:
            return os.write(self._input.fileno(), view)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise self.lost(self._describe_ending()) from None

    def _describe_ending(self) -> str:
        """Return a description of the command's ending, after it has closed its pipe."""
        deadline = time.monotonic() + _END_S
        while self._errors_are_open:
            readable, _, _ = select.select([self._errors], [], [], _seconds_until(deadline))
            if not readable:
                break
            self._take_words()

        program = self.transport.command[0]
        try:
            code = self._popen.wait(_seconds_until(deadline))
        except subprocess.TimeoutExpired:
            return f"`{program}` closed its output"
        if code == _READER_KILLED:
            return "the reader on the board was killed, by hand or because memory ran out"
        end = f"exit code {code}" if code >= 0 else f"signal {-code}"
        last_line = self.words.rpartition("\n")[2]
        message = f": {last_line}" if last_line else ""
        return f"`{program}` ended ({end}){message}"


def _seconds_until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
