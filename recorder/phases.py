"""Phases that a program marks, by lines of text that are their names: in a file that it appends to, or in a pipe."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "FURTHER",
    "MARKER_VARIABLE",
    "MOST_PHASES",
    "PHASES_VARIABLE",
    "START",
    "WHOLE",
    "AppendedFile",
    "FarFileMarks",
    "FarPipeMarks",
    "FileMarks",
    "Lines",
    "Marks",
    "PhaseLog",
    "PipeMarks",
    "Stretch",
    "phase_name",
]

#: The phase before the first mark, and the only one where nothing is marked.
START, WHOLE = "start", "run"
#: Distinct names: every one is a series of its own in comparisons. Those that come later are one phase.
MOST_PHASES, FURTHER = 100, "further phases"
#: Characters of a name that are kept, and bytes of an unfinished line.
_LONGEST_NAME, _LONGEST_LINE = 100, 4096


def phase_name(line: bytes) -> str:
    """Return the name in a line: printable, without spaces around it, cut where it is very long; it may be empty."""
    text = line.decode(errors="replace")
    words = "".join(character if character.isprintable() else " " for character in text).split()
    return " ".join(words)[:_LONGEST_NAME].rstrip()


class Lines:
    """Whole lines out of bytes that come in pieces; what has no newline yet is kept for the next piece."""

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
        self._name = START
        self._begin_ns = begin_ns
        self._done: list[Stretch] = []
        self._is_marked = False
        self._names: set[str] = set()

    def mark(self, name: str, at_ns: int) -> bool:
        """Begin a phase; return whether there is a change: a line without a name is none, nor is the same name."""
        if not name:
            return False
        self._is_marked = True
        if name not in self._names and len(self._names) >= MOST_PHASES:
            name = FURTHER
        self._names.add(name)
        if name == self._name:
            return False
        self._done.append(Stretch(self._name, self._begin_ns, at_ns))
        self._name, self._begin_ns = name, at_ns
        return True

    def end(self, at_ns: int) -> list[Stretch]:
        """Return all stretches, the last of which ends now."""
        last = Stretch(self._name if self._is_marked else WHOLE, self._begin_ns, at_ns)
        return [*self._done, last]


#: In the program's environment: the path of the file, and the number of the file descriptor.
PHASES_VARIABLE, MARKER_VARIABLE = "REUSEBENCH_PHASES", "REUSEBENCH_MARKER"
_CHUNK = 65536
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

    def close(self) -> None:
        """Close everything."""


class FileMarks(Marks):
    """Lines that are appended to a file; the file is made, or emptied."""

    def __init__(self, path: Path) -> None:
        """Raise OSError where the file cannot be made."""
        self.environment = {PHASES_VARIABLE: str(path.absolute())}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
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
        data = os.pread(self._file, _CHUNK, self._offset)
        self._offset += len(data)
        return [phase_name(line) for line in self._lines.feed(data)]

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
        data, self._offset = content[self._offset :], len(content)
        return [phase_name(line) for line in self._lines.feed(data)]


class FarPipeMarks(Marks):
    """Lines that a program on a board far away writes to a file descriptor, and that come with what it tells."""

    def __init__(self, number: int) -> None:
        """Take the number that the descriptor has in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        self._names: list[str] = []
        self._lines = Lines()

    def feed(self, data: bytes) -> None:
        """Take what the program has written to it."""
        self._names += [phase_name(line) for line in self._lines.feed(data)]

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        names, self._names = self._names, []
        return names


class PipeMarks(Marks):
    """Lines that the program writes to a file descriptor, which is the end of a pipe."""

    def __init__(self, number: int) -> None:
        """Take the number that the descriptor has in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        self.descriptor, write = os.pipe()
        os.set_blocking(self.descriptor, False)
        self._write: int | None = write
        # The two numbers may be the same: then it is only left open (POSIX.1-2024, glibc 2.29).
        self.actions = [(os.POSIX_SPAWN_DUP2, write, number)]
        self._lines = Lines()

    def started(self) -> None:
        """Close the program's end here, so that the pipe ends with the program."""
        if self._write is not None:
            os.close(self._write)
            self._write = None

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        names: list[str] = []
        while self.descriptor is not None:
            try:
                data = os.read(self.descriptor, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._close_read()
            names += [phase_name(line) for line in self._lines.feed(data)]
        return names

    def close(self) -> None:
        """Close the pipe."""
        self.started()
        self._close_read()

    def _close_read(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _inotify(path: Path) -> int | None:
    """Return a descriptor that becomes readable when the file is written to; None where the kernel has none."""
    libc = ctypes.CDLL(None)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return None
    return descriptor if descriptor >= 0 else None
