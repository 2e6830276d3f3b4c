"""Phases that a program marks, by lines of text that are their names: in a file that it appends to,
or by a socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reusebench.system.files import open_emptied

__all__ = [
    "FURTHER",
    "MARKER_VARIABLE",
    "MOST_PHASES",
    "PHASES_VARIABLE",
    "START",
    "WHOLE",
    "AppendedFile",
    "FarFileMarks",
    "FarSocketMarks",
    "FileMarks",
    "Lines",
    "Marks",
    "PhaseLog",
    "SocketMarks",
    "Stretch",
    "phase_name",
]

#: The phase before the first mark, and the only one where nothing is marked.
START = "start"
WHOLE = "run"
#: Distinct names: every one is a series of its own in comparisons. Those that come later are one
#: phase.
MOST_PHASES = 100
FURTHER = "further phases"
#: Characters of a name that are kept, and bytes of an unfinished line.
_LONGEST_NAME = 100
_LONGEST_LINE = 4096
#: Stretches that a trace has.
_MOST_STRETCHES = 10_000


def phase_name(line: bytes) -> str:
    """Return the name in a line: printable, without spaces around it, cut where it is very long; it
    may be empty.
    """
    text = line.decode(errors="replace")
    words = "".join(character if character.isprintable() else " " for character in text).split()
    return " ".join(words)[:_LONGEST_NAME].rstrip()


class Lines:
    """Whole lines out of bytes that come in pieces; what has no newline yet is kept for the next
    piece.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LONGEST_LINE]
        return whole


@dataclass(frozen=True)
class Stretch:
    """The time from one mark to the next, monotonic."""

    name: str
    begin_ns: int
    end_ns: int


class PhaseLog:
    """The marks of one recording in order."""

    def __init__(self, begin_ns: int) -> None:
        #: Of the phase that runs.
        self.name = START
        #: Whether there was a mark; before there is one it may be all one phase, WHOLE.
        self.is_marked = False
        self._begin_ns = begin_ns
        self._done: list[Stretch] = []
        self._names: set[str] = set()

    def changes(self, names: Iterable[str]) -> bool:
        """Whether another phase begins with these marks: a line without a name is none, nor is the
        same name.
        """
        return any(name and self._known(name) != self.name for name in names)

    def mark(self, name: str, at_ns: int) -> bool:
        """Begin a phase; return whether it is another one."""
        if not name:
            return False
        self.is_marked = True
        is_other = self.changes([name])
        name = self._known(name)
        self._names.add(name)
        if is_other:
            self._add(at_ns)
            self.name = name
            self._begin_ns = at_ns
        return is_other

    def end(self, at_ns: int) -> list[Stretch]:
        """Return the stretches, the last of which ends now; of very many the first ones."""
        self._add(at_ns)
        return self._done

    def _known(self, name: str) -> str:
        return name if name in self._names or len(self._names) < MOST_PHASES else FURTHER

    def _add(self, at_ns: int) -> None:
        if len(self._done) < _MOST_STRETCHES:
            name = self.name if self.is_marked else WHOLE
            self._done.append(Stretch(name, self._begin_ns, at_ns))


#: In the program's environment: the path of the file, and the number of the file descriptor.
PHASES_VARIABLE = "REUSEBENCH_PHASES"
MARKER_VARIABLE = "REUSEBENCH_MARKER"
_CHUNK = 65536
#: Chunks of a file, and messages, that are read at once: readings of memory have their turn.
_CHUNKS = 16
_MESSAGES = 1000
#: More than a message to a socket can have; the kernel refuses longer ones (net.core.wmem_max).
_LONGEST_MESSAGE = 1 << 20
#: inotify(7).
_IN_MODIFY = 2


class Marks:
    """No marks: the program has one phase."""

    #: Variables for the program.
    environment: dict[str, str] = {}  # noqa: RUF012 never changed
    #: What os.posix_spawn does in the program before it begins.
    actions: list[tuple[Any, ...]] = []  # noqa: RUF012 never changed
    #: A descriptor that becomes readable with a mark; None: every reading looks for marks.
    descriptor: int | None = None

    def started(self) -> None:
        """Close what only the program needs."""

    def read(self) -> list[str]:
        """Return the names that have come since the last time."""
        return []

    def answer(self) -> None:
        """Tell the program that its memory has been read, where it can wait for that."""

    def lost(self) -> str | None:
        """Return a sentence where marks could not come any more."""

    def close(self) -> None:
        """Close everything."""


class FileMarks(Marks):
    """Lines that are appended to a file; the file is made, or emptied."""

    def __init__(self, path: Path) -> None:
        """Raise OSError if the file cannot be made."""
        self.environment = {PHASES_VARIABLE: str(path.absolute())}
        self._path = path
        self._file = open_emptied(path)
        self.descriptor = _inotify(path)
        self._offset = 0
        self._lines = Lines()

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        if self.descriptor is not None:
            with contextlib.suppress(BlockingIOError):
                while os.read(self.descriptor, _CHUNK):
                    pass
        if os.fstat(self._file).st_size < self._offset:  # emptied by the program
            self._offset = 0
        names: list[str] = []
        for _ in range(_CHUNKS):
            data = os.pread(self._file, _CHUNK, self._offset)
            self._offset += len(data)
            names += [phase_name(line) for line in self._lines.feed(data)]
            if len(data) < _CHUNK:
                break
        return names

    def lost(self) -> str | None:
        """Return a sentence where the file was removed: what is appended to another one of its name
        is no mark.
        """
        if os.fstat(self._file).st_nlink:
            return None
        return (
            f"the file of phases {self._path} was removed meanwhile: marks after that were not"
            " seen. Append to it only"
        )

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._file)
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class AppendedFile(Protocol):
    """A file of a board far away."""

    def changed(self) -> bytes | None:
        """Return its content where it was written to since the last call; raise OSError."""


class FarFileMarks(Marks):
    """Lines that are appended to a file of a board far away."""

    def __init__(self, path: str, file: AppendedFile) -> None:
        """Take the path that it has there."""
        self.environment = {PHASES_VARIABLE: path}
        self._file = file
        self._offset = 0
        self._lines = Lines()

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        content = self._file.changed()
        if content is None:
            return []
        if len(content) < self._offset:  # emptied by the program
            self._offset = 0
        data = content[self._offset :]
        self._offset = len(content)
        return [phase_name(line) for line in self._lines.feed(data)]


class FarSocketMarks(Marks):
    """Lines that a program on a board far away writes to a file descriptor, and that come with what
    it tells.

    It may read answers from the same descriptor.
    """

    #: Passes an answer on to the program.
    send_answer: Callable[[bytes], None]

    def __init__(self, number: int) -> None:
        """Take the number that the descriptor has in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        self._names: list[str] = []
        self._lines = Lines()
        self._unanswered = 0

    def feed(self, data: bytes) -> None:
        """Take what the program has written to it."""
        self._names += [phase_name(line) for line in self._lines.feed(data)]

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        names = self._names
        self._names = []
        self._unanswered += len(names)
        return names

    def answer(self) -> None:
        """Send a newline for each line."""
        if self._unanswered:
            self.send_answer(b"\n" * self._unanswered)
        self._unanswered = 0


class SocketMarks(Marks):
    """Lines that the program writes to a file descriptor, from which it may read when their phase
    has been measured.

    It is one end of a pair of sockets that keep messages apart: a program whose recorder was killed
    gets an error for a mark, and not the signal that a pipe would end it with.
    """

    def __init__(self, number: int) -> None:
        """Take the number that the descriptor has in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        own, self._other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.setblocking(False)
        self._own: socket.socket | None = own
        self.descriptor = own.fileno()
        # The two numbers may be the same: then it is only left open (POSIX.1-2024, glibc 2.29).
        self.actions = [(os.POSIX_SPAWN_DUP2, self._other.fileno(), number)]
        self._lines = Lines()
        self._unanswered = 0

    def started(self) -> None:
        """Close the program's end here, so that the connection ends with the program."""
        self._other.close()

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        names: list[str] = []
        for _ in range(_MESSAGES):
            if self._own is None:
                break
            try:
                data = self._own.recv(_LONGEST_MESSAGE)
            except BlockingIOError:
                break
            except ConnectionResetError:  # the program has ended without having read an answer
                continue
            if not data and self._has_ended():  # and not a message of no bytes
                self._close_own()
            names += [phase_name(line) for line in self._lines.feed(data)]
        self._unanswered += len(names)
        return names

    def answer(self) -> None:
        """Write a newline for each line; a program that reads none of them is not waited for."""
        with contextlib.suppress(OSError):
            while self._own is not None and self._unanswered:
                self._unanswered -= 1
                self._own.send(b"\n")
        self._unanswered = 0

    def close(self) -> None:
        """Close the connection."""
        self.started()
        self._close_own()

    def _has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor or 0, 0)
        return bool(poll.poll(0))

    def _close_own(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None
            self.descriptor = None


def _inotify(path: Path) -> int | None:
    """Return a descriptor that becomes readable when the file is written to; None if the kernel
    has none.
    """
    libc = ctypes.CDLL(None)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return None
    return descriptor if descriptor >= 0 else None
