"""Where a program's marks come from: a file that it appends lines to, or a pipe that it writes them into."""

from __future__ import annotations

import ctypes
import fcntl
import os
from pathlib import Path
from typing import Any

from recorder.phases import Lines, phase_name

__all__ = ["MARKER_VARIABLE", "PHASES_VARIABLE", "FileMarks", "Marks", "PipeMarks"]

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
    #: A descriptor that becomes readable with a mark; None: marks are looked for at every reading.
    descriptor: int | None = None

    def started(self) -> None:
        """Give up what only the program needs."""

    def read(self) -> list[str]:
        """Return the names that have come since the last time."""
        return []

    def close(self) -> None:
        """Give up everything."""


class FileMarks(Marks):
    """Lines that are appended to a file; the file is made, or emptied."""

    def __init__(self, path: Path) -> None:
        """Raise OSError where the file cannot be made."""
        self.environment = {PHASES_VARIABLE: str(path.absolute())}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self.descriptor = _watch(path)
        self._offset = 0
        self._lines = Lines()

    def read(self) -> list[str]:
        """Return the names of the lines that were completed since the last time."""
        if self.descriptor is not None:
            _drain(self.descriptor)
        if os.fstat(self._file).st_size < self._offset:  # emptied by who writes into it
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


class PipeMarks(Marks):
    """Lines that the program writes to a file descriptor, which is the end of a pipe."""

    def __init__(self, number: int) -> None:
        """Take the number that the descriptor has in the program."""
        self.environment = {MARKER_VARIABLE: str(number)}
        self.descriptor, write = _above(number, *os.pipe())
        os.set_blocking(self.descriptor, False)
        self._write: int | None = write
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


def _watch(path: Path) -> int | None:
    """Return what becomes readable when something is written into the file; None: look for it at every reading."""
    libc = ctypes.CDLL(None)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
        os.close(descriptor)
        return None
    return descriptor if descriptor >= 0 else None


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, _CHUNK):
            pass
    except BlockingIOError:
        return


def _above(number: int, *descriptors: int) -> list[int]:
    """Return the descriptors under higher numbers: that number is the program's, and onto itself nothing is copied."""
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, number + 1) for each in descriptors]
    for each in descriptors:
        os.close(each)
    return moved
