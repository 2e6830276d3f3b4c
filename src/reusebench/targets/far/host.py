"""A far board as samplers read it."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Sequence

from reusebench.samplers.host import Clocks, Sample
from reusebench.targets.errors import ConnectionLost
from reusebench.targets.far.connection import Connection, Request

__all__ = ["FarHost", "read_request"]

# native/reader/reader.h is the other side.
_NUMBER = struct.Struct("<I")
_STATUS = struct.Struct("<QQI")
_CLOCKS = struct.Struct("<QQ")
_SAMPLING = struct.Struct("<IQ")
_SAMPLE = struct.Struct("<QQQ")
_WRITE = struct.Struct("<II")
#: The smaps of a process with the most mappings that the kernel gives one, and room to spare.
_MOST_BYTES = 128 << 20


def read_request(path: str) -> Request:
    """Return the request for the content of a file."""
    return Request("r", _NUMBER.pack(_MOST_BYTES) + os.fsencode(path), path)


class FarHost:
    """Reads a board through its reader. Every method raises ConnectionLost, and OSError if it
    says so.
    """

    def __init__(self, connected: Callable[[], Connection]) -> None:
        """Take what returns the connection, which is another one after it was lost."""
        self._connected = connected

    @property
    def page_bytes(self) -> int:
        """The size of a page of memory."""
        return self._connected().page_bytes

    @property
    def user_id(self) -> int:
        """Whose files can be read: 0 is root."""
        return self._connected().user_id

    def read(self, path: str) -> bytes:
        """Return a file's content; OSError."""
        return self._connected().request(read_request(path))

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Return the content of each, or its error, in one round trip."""
        return self._connected().requests([read_request(path) for path in paths])

    def names(self, folder: str) -> list[str]:
        """Return what is in a folder; OSError."""
        return [
            os.fsdecode(name)
            for name in self._of(Request("n", os.fsencode(folder), folder)).split(b"\0")[:-1]
        ]

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Return what each link holds, or its error, in one round trip."""
        replies = self._connected().requests(
            [Request("k", os.fsencode(path), path) for path in paths]
        )
        return [reply if isinstance(reply, OSError) else os.fsdecode(reply) for reply in replies]

    def inodes(self, paths: Sequence[str]) -> list[int | OSError]:
        """Return the inode of what each path leads to, or its error, in one round trip."""
        replies = self._connected().requests(
            [Request("s", os.fsencode(path), path) for path in paths]
        )
        return [
            reply if isinstance(reply, OSError) else int(_STATUS.unpack(reply)[0])
            for reply in replies
        ]

    def write(self, path: str, data: bytes) -> None:
        """Write to a file that exists, at once; OSError."""
        self._of(Request("w", _WRITE.pack(0, 0) + os.fsencode(path) + b"\0" + data, path))

    def now_ns(self) -> int:
        """Return its monotonic clock, in nanoseconds."""
        return self.clocks().time_ns

    def clocks(self) -> Clocks:
        """Return its monotonic clock, and the reader's CPU time."""
        return Clocks(*_CLOCKS.unpack(self._of(Request("t"))))

    def usable_cpus(self) -> int:
        """Return how many processors a process there may use."""
        return int(_NUMBER.unpack(self._of(Request("c")))[0])

    def sampler(self, pid: int, interval_s: float) -> FarSampler:
        """Have the reader sample a process; ProcessLookupError if it has gone."""
        return FarSampler(self._connected(), pid, interval_s)

    def _of(self, request: Request) -> bytes:
        return self._connected().request(request)


class FarSampler:
    """Readings that the reader takes; there is one at a time."""

    def __init__(self, connection: Connection, pid: int, interval_s: float) -> None:
        self._connection = connection
        self._pid = pid
        self._samples: list[Sample] = []
        connection.listeners["b"] = self._take_event
        try:
            self.set_interval(interval_s)
        except FileNotFoundError:
            raise ProcessLookupError(f"there is no process {pid}") from None

    def take(self) -> list[Sample]:
        """Return the readings that have come since the last call."""
        self._connection.wait(lambda: False, 0)
        samples = self._samples
        self._samples = []
        return samples

    def set_interval(self, interval_s: float) -> None:
        """Take one every so often from now on; FileNotFoundError if the process has gone."""
        self._ask(int(interval_s * 1e9))

    def close(self) -> None:
        """End the readings; those that have come can still be taken. A lost connection has ended
        them already.
        """
        with contextlib.suppress(ConnectionLost):
            self._ask(0)

    def _ask(self, interval_ns: int) -> None:
        self._connection.request(Request("a", _SAMPLING.pack(self._pid, interval_ns)))

    def _take_event(self, data: bytes) -> None:
        self._samples += (Sample(*fields) for fields in _SAMPLE.iter_unpack(data))
