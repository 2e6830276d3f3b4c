"""A remote board as a host for samplers."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Sequence

from reusebench.samplers.host import Clocks, FileStatus, PageRange, Sample, device_name
from reusebench.targets.errors import ConnectionLost
from reusebench.targets.far.connection import Connection, Request

__all__ = ["FarHost", "read_request"]

# native/reader/reader.h is the other side.
_NUMBER = struct.Struct("<I")
_STATUS = struct.Struct("<QQIIIQ")
_CLOCKS = struct.Struct("<QQ")
_PAGES = struct.Struct("<IQQ")
_SAMPLING = struct.Struct("<IQ")
_SAMPLE = struct.Struct("<QQQ")
_WRITE = struct.Struct("<II")
#: Largest file that is read: smaps of a process with the kernel's limit of mappings, and reserve.
_MOST_BYTES = 128 << 20


def read_request(path: str) -> Request:
    """Return the request for the content of a file."""
    return Request("r", _NUMBER.pack(_MOST_BYTES) + os.fsencode(path), path)


class FarHost:
    """Reads a board through its reader.

    Every method raises ConnectionLost, and OSError if the docstring mentions it.
    """

    def __init__(self, connected: Callable[[], Connection]) -> None:
        """`connected` returns the current connection, which changes after a loss."""
        self._connected = connected

    @property
    def page_bytes(self) -> int:
        """The size of a memory page."""
        return self._connected().page_bytes

    @property
    def user_id(self) -> int:
        """The user whose files can be read: 0 is root."""
        return self._connected().user_id

    def read(self, path: str) -> bytes:
        """Return a file's content; OSError."""
        return self._connected().request(read_request(path))

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Return the content or error of each file, in one round trip."""
        return self._connected().requests([read_request(path) for path in paths])

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; OSError."""
        reply = self._request(Request("n", os.fsencode(folder), folder))
        return [os.fsdecode(name) for name in reply.split(b"\0")[:-1]]

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Return the target or error of each link, in one round trip."""
        links: list[str | OSError] = []
        for reply in self._request_all("k", paths):
            links.append(reply if isinstance(reply, OSError) else os.fsdecode(reply))
        return links

    def statuses(self, paths: Sequence[str]) -> list[FileStatus | OSError]:
        """Return the status or error of each path, links followed, in one round trip."""
        statuses: list[FileStatus | OSError] = []
        for reply in self._request_all("s", paths):
            if isinstance(reply, OSError):
                statuses.append(reply)
                continue
            inode, _, _, major, minor, stored_bytes = _STATUS.unpack(reply)
            device = device_name(major, minor)
            statuses.append(FileStatus(device, str(inode).encode(), stored_bytes))
        return statuses

    def page_flags(self, ranges: Sequence[PageRange]) -> list[bytes | OSError]:
        """Return a byte for each page of each range, or its error, in one round trip."""
        requests = [Request("u", _PAGES.pack(*pages)) for pages in ranges]
        return self._connected().requests(requests)

    def write(self, path: str, data: bytes) -> None:
        """Write to an existing file in one write; OSError."""
        content = _WRITE.pack(0, 0) + os.fsencode(path) + b"\0" + data
        self._request(Request("w", content, path))

    def now_ns(self) -> int:
        """Return the board's monotonic clock."""
        return self.clocks().time_ns

    def clocks(self) -> Clocks:
        """Return the board's monotonic clock and the reader's CPU time."""
        return Clocks(*_CLOCKS.unpack(self._request(Request("t"))))

    def usable_cpus(self) -> int:
        """Return the number of processors that a process on the board may use."""
        return int(_NUMBER.unpack(self._request(Request("c")))[0])

    def sampler(self, pid: int, interval_s: float) -> FarSampler:
        """Have the reader sample a process; ProcessLookupError if it has gone."""
        return FarSampler(self._connected(), pid, interval_s)

    def _request(self, request: Request) -> bytes:
        return self._connected().request(request)

    def _request_all(self, kind: str, paths: Sequence[str]) -> list[bytes | OSError]:
        requests = [Request(kind, os.fsencode(path), path) for path in paths]
        return self._connected().requests(requests)


class FarSampler:
    """Samples that the reader takes; there is one sampler at a time."""

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
        """Return the samples that have arrived since the last call."""
        self._connection.wait(lambda: False, 0)
        samples = self._samples
        self._samples = []
        return samples

    def set_interval(self, interval_s: float) -> None:
        """Set the interval of the following samples; FileNotFoundError if the process has gone."""
        self._ask(int(interval_s * 1e9))

    def close(self) -> None:
        """End the sampling. Samples that have arrived can still be taken.

        A lost connection has ended it already.
        """
        with contextlib.suppress(ConnectionLost):
            self._ask(0)

    def _ask(self, interval_ns: int) -> None:
        self._connection.request(Request("a", _SAMPLING.pack(self._pid, interval_ns)))

    def _take_event(self, data: bytes) -> None:
        self._samples += (Sample(*fields) for fields in _SAMPLE.iter_unpack(data))
