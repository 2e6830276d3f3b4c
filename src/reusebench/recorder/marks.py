"""Marks of a program: lines with names of phases, in a file that it appends to or on a socket."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import termios
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reusebench.recorder.phases import phase_name
from reusebench.system.files import open_emptied

__all__ = [
    "MARKER_VARIABLE",
    "PHASES_VARIABLE",
    "FarFileMarks",
    "FarSocketMarks",
    "FileMarks",
    "LineBuffer",
    "Marks",
    "SocketMarks",
]

#: Environment variable of the program with the path of the file.
PHASES_VARIABLE = "REUSEBENCH_PHASES"
#: Environment variable of the program with the number of the file descriptor.
MARKER_VARIABLE = "REUSEBENCH_MARKER"
#: Bytes of an unfinished line that are kept.
_LONGEST_LINE = 4096
_CHUNK_BYTES = 65536
#: Chunks of a file that are read at once; more would delay readings of memory.
_MOST_CHUNKS = 16
#: Messages that are received at once, for the same reason.
_MOST_MESSAGES = 1000
#: Larger than any message to a socket: the kernel refuses longer ones (net.core.wmem_max).
_LONGEST_MESSAGE = 1 << 20
#: inotify(7).
_IN_MODIFY = 2


class LineBuffer:
    """Whole lines from bytes that come in pieces; an unfinished line is kept for the next piece."""

    def __init__(self) -> None:
        self._unfinished = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete."""
        *lines, unfinished = (self._unfinished + data).split(b"\n")
        self._unfinished = unfinished[:_LONGEST_LINE]
        return lines

    def names(self, data: bytes) -> list[str]:
        """Return the names in the lines that these bytes complete."""
        return [phase_name(line) for line in self.feed(data)]


class Marks:
    """No marks: the program has one phase."""

    #: Environment variables for the program.
    environment: dict[str, str] = {}  # noqa: RUF012 never changed
    #: File actions of os.posix_spawn in the program before it begins.
    actions: list[tuple[Any, ...]] = []  # noqa: RUF012 never changed
    are_possible = False
    #: A descriptor that becomes readable with a mark; None: every reading looks for marks.
    descriptor: int | None = None

    def started(self) -> None:
        """Close what only the program needs."""

    def read(self) -> list[str]:
        """Return the names that have come since the last call."""
        return []

    def answer(self) -> None:
        """Tell the program that its memory has been read, if it can wait for that."""

    def are_answers_read(self) -> bool | None:
        """Whether the program has read all answers; None if it may still read them."""
        return False

    def lost(self) -> str | None:
        """Return a sentence if marks could no longer come."""

    def close(self) -> None:
        """Close everything."""


class FileMarks(Marks):
    """Lines that are appended to a file, which is created or emptied."""

    are_possible = True

    def __init__(self, path: Path) -> None:
        """Raise OSError if the file cannot be created."""
        self.environment = {PHASES_VARIABLE: str(path.absolute())}
        self._path = path
        self._file = open_emptied(path)
        self.descriptor = _inotify(path)
        self._offset = 0
        self._lines = LineBuffer()

    def read(self) -> list[str]:
        """Return the names in the lines that were completed since the last call."""
        if self.descriptor is not None:
            with contextlib.suppress(BlockingIOError):
                while os.read(self.descriptor, _CHUNK_BYTES):
                    pass
        if os.fstat(self._file).st_size < self._offset:  # emptied by the program
            self._offset = 0

        names: list[str] = []
        for _ in range(_MOST_CHUNKS):
            data = os.pread(self._file, _CHUNK_BYTES, self._offset)
            self._offset += len(data)
            names += self._lines.names(data)
            if len(data) < _CHUNK_BYTES:
                break
        return names

    def lost(self) -> str | None:
        """Return a sentence if the file was removed: lines in a new file do not count."""
        if os.fstat(self._file).st_nlink:
            return None
        return (
            f"the file of phases {self._path} was removed during the recording: later marks were"
            " not seen. Append to it only"
        )

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._file)
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class FarFileMarks(Marks):
    """Lines that are appended to a file on a remote board."""

    are_possible = True

    def __init__(self, path: str, changed_content: Callable[[], bytes | None]) -> None:
        """`changed_content` returns the file's content if it has changed since the last call."""
        self.environment = {PHASES_VARIABLE: path}
        self._changed_content = changed_content
        self._offset = 0
        self._lines = LineBuffer()

    def read(self) -> list[str]:
        """Return the names in the lines that were completed since the last call."""
        content = self._changed_content()
        if content is None:
            return []
        if len(content) < self._offset:  # emptied by the program
            self._offset = 0
        data = content[self._offset :]
        self._offset = len(content)
        return self._lines.names(data)


class FarSocketMarks(Marks):
    """Lines that a program on a remote board writes to a file descriptor.

    They arrive with the program's output. It may read answers from the same descriptor.
    """

    are_possible = True
    #: Sends an answer to the program.
    send_answer: Callable[[bytes], None]
    #: Takes what the program has written, and feeds the marks in it.
    forward: Callable[[], None]
    #: Tells whether the program has read all answers; None if it may still read them.
    ask_for_answers: Callable[[], bool | None]

    def __init__(self, number: int) -> None:
        """`number` is the number of the descriptor in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        self._lines = LineBuffer()
        self._names: list[str] = []
        self._unanswered = 0

    def feed(self, data: bytes) -> None:
        """Add data that the program has written to the descriptor."""
        self._names += self._lines.names(data)

    def read(self) -> list[str]:
        """Return the names in the lines that were completed since the last call."""
        self.forward()
        names = self._names
        self._names = []
        self._unanswered += len(names)
        return names

    def answer(self) -> None:
        """Send a newline for each line."""
        if self._unanswered:
            self.send_answer(b"\n" * self._unanswered)
        self._unanswered = 0

    def are_answers_read(self) -> bool | None:
        """Whether the program has read all answers; None if it may still read them."""
        return self.ask_for_answers()


class SocketMarks(Marks):
    """Lines that the program writes to a file descriptor.

    The program may read an answer from it once the phase has been measured. The descriptor is one
    end of a pair of sockets that keep messages apart: if the recorder was killed, a mark fails with
    an error. A pipe would end the program with a signal.
    """

    are_possible = True

    def __init__(self, number: int) -> None:
        """`number` is the number of the descriptor in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        own, self._program_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.setblocking(False)
        self._own_end: socket.socket | None = own
        self.descriptor = own.fileno()
        # If the two numbers are equal, the descriptor is only left open (POSIX.1-2024, glibc 2.29).
        self.actions = [(os.POSIX_SPAWN_DUP2, self._program_end.fileno(), number)]
        self._lines = LineBuffer()
        self._unanswered = 0
        #: Whether the program has ended without reading an answer.
        self._has_left_answers = False

    def started(self) -> None:
        """Close the program's end here, so that the connection ends with the program."""
        self._program_end.close()

    def read(self) -> list[str]:
        """Return the names in the lines that were completed since the last call."""
        names: list[str] = []
        for _ in range(_MOST_MESSAGES):
            if self._own_end is None:
                break
            try:
                message = self._own_end.recv(_LONGEST_MESSAGE)
            except BlockingIOError:
                break
            except ConnectionResetError:
                self._has_left_answers = True
                continue
            if not message and self._is_hung_up():  # otherwise the message is empty
                self._close_own_end()
            names += self._lines.names(message)
        self._unanswered += len(names)
        return names

    def answer(self) -> None:
        """Write a newline for each line, without waiting for a program that reads none."""
        try:
            while self._own_end is not None and self._unanswered:
                self._unanswered -= 1
                self._own_end.send(b"\n")
        except OSError:  # it has ended, or reads none
            self._has_left_answers = True
        # A program that has closed its end has not waited for these.
        self._has_left_answers |= bool(self._unanswered)
        self._unanswered = 0

    def are_answers_read(self) -> bool | None:
        """Whether the program has read all answers; None if it may still read them."""
        if self._own_end is not None:
            unread = array("i", [0])
            fcntl.ioctl(self._own_end, termios.TIOCOUTQ, unread)
            # An end that was closed has no unread answers any more, but this error.
            if self._own_end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._has_left_answers = True
            if unread[0] and not self._has_left_answers:
                return None
        return not self._has_left_answers

    def close(self) -> None:
        """Close the connection."""
        self.started()
        self._close_own_end()

    def _is_hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor or 0, 0)
        return bool(poll.poll(0))

    def _close_own_end(self) -> None:
        if self._own_end is not None:
            self._own_end.close()
            self._own_end = None
            self.descriptor = None


def _inotify(path: Path) -> int | None:
    """Return a descriptor that becomes readable when the file is written to.

    None if the kernel has no inotify.
    """
    libc = ctypes.CDLL(None)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return None
    return descriptor
