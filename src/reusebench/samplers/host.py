"""The machine that is measured, near or far: what samplers read of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from reusebench.samplers.errors import SamplerError
from reusebench.samplers.proc_files import parse_meminfo, parse_resident_pages

__all__ = [
    "LOCAL_HOST",
    "Clocks",
    "Host",
    "LocalHost",
    "ResidentCounter",
    "Sample",
    "Sampler",
    "names_in",
    "own_pid",
    "read_text",
    "read_texts",
]

#: /proc/meminfo costs 14 us and moves slowly: samples read it this much less often than statm.
_SYSTEM_EVERY = 10
#: More than nearly every file of /proc and /sys has: one read gives it all.
_READ_BYTES = 1 << 16


class Sample(NamedTuple):
    """One cheap reading."""

    #: By the host's monotonic clock.
    time_ns: int
    rss_bytes: int
    #: MemTotal - MemAvailable.
    system_bytes: int


class Clocks(NamedTuple):
    """Times of one moment, by the host."""

    #: Its monotonic clock.
    time_ns: int
    #: CPU time that the process which reads has taken.
    cpu_ns: int


class Sampler(Protocol):
    """Cheap readings of one process between barriers."""

    def take(self) -> list[Sample]:
        """Return one reading of now, or of a far host those that have come since the last call.

        There are none once the process has gone.
        """

    def set_interval(self, interval_s: float) -> None:
        """Sample at that interval from now on; near the caller's calls are the interval."""

    def close(self) -> None:
        """End."""


class Host(Protocol):
    """The machine. A far one may raise targets.errors.ConnectionLost from every method, which is no
    OSError.
    """

    @property
    def page_bytes(self) -> int:
        """The size of a page of memory."""

    @property
    def user_id(self) -> int:
        """Whose files can be read: 0 is root."""

    def read(self, path: str) -> bytes:
        """Return the content of a file; raise OSError."""

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Return of each file its content, or its error, in one round trip."""

    def names(self, folder: str) -> list[str]:
        """Return what the folder has, in any order, without . and ..; raise OSError."""

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Return where each symbolic link leads, or its error, in one round trip."""

    def inodes(self, paths: Sequence[str]) -> list[int | OSError]:
        """Return the inode of what each path leads to, or its error, in one round trip."""

    def write(self, path: str, data: bytes) -> None:
        """Write to an existing file, in one write; raise OSError."""

    def now_ns(self) -> int:
        """Return its monotonic clock."""

    def clocks(self) -> Clocks:
        """Return its monotonic clock, and what readings have cost it."""

    def usable_cpus(self) -> int:
        """Return how many CPUs a process that is started there may use."""

    def sampler(self, pid: int, interval_s: float) -> Sampler:
        """Begin to sample a process; raise ProcessLookupError if it has gone."""


class LocalHost:
    """This machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Take the folder that has proc/, sys/ and etc/."""
        self._root = str(root).rstrip("/")
        self.page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.user_id = os.geteuid()

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        file = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(file, _READ_BYTES)
            while chunk := os.read(file, _READ_BYTES):
                content += chunk
            return content
        finally:
            os.close(file)

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Return of each file its content, or its error."""
        contents: list[bytes | OSError] = []
        for path in paths:
            try:
                contents.append(self.read(path))
            except OSError as error:
                contents.append(error)
        return contents

    def names(self, folder: str) -> list[str]:
        """Return what the folder has."""
        return os.listdir(self._root + folder)  # noqa: PTH208 as strings, at half the cost

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Return where each symbolic link leads, or its error."""
        links: list[str | OSError] = []
        for path in paths:
            try:
                links.append(os.readlink(self._root + path))  # noqa: PTH115 as above
            except OSError as error:
                links.append(error)
        return links

    def inodes(self, paths: Sequence[str]) -> list[int | OSError]:
        """Return the inode of what each path leads to, or its error."""
        inodes: list[int | OSError] = []
        for path in paths:
            try:
                inodes.append(os.stat(self._root + path).st_ino)  # noqa: PTH116 as above
            except OSError as error:
                inodes.append(error)
        return inodes

    def write(self, path: str, data: bytes) -> None:
        """Write to an existing file."""
        file = os.open(self._root + path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, data)
        finally:
            os.close(file)

    def now_ns(self) -> int:
        """Return the monotonic clock."""
        return time.monotonic_ns()

    def clocks(self) -> Clocks:
        """Return the monotonic clock, and this process's CPU time."""
        return Clocks(time.monotonic_ns(), time.process_time_ns())

    def usable_cpus(self) -> int:
        """Return how many CPUs this process may use."""
        return len(os.sched_getaffinity(0))

    def sampler(self, pid: int, interval_s: float) -> Sampler:  # noqa: ARG002 the caller's calls are the interval
        """Begin to sample a process."""
        try:
            return _LocalSampler(self, pid)
        except FileNotFoundError:
            raise ProcessLookupError(f"process {pid} has gone") from None


class ResidentCounter:
    """RSS of a running process of this machine from /proc/PID/statm, kept open: 1 us a reading, and
    no lock of it.

    The kernel keeps this counter per CPU and folds it in batches, so a reading may be some hundred
    KiB off.
    """

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read_bytes(self) -> int | None:
        """Return the present RSS, or None once the process has gone."""
        try:
            pages = parse_resident_pages(os.pread(self._file, 128, 0))
        except ProcessLookupError:
            return None
        return pages * self._page_bytes or None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class _LocalSampler:
    """One reading for each call."""

    def __init__(self, host: LocalHost, pid: int) -> None:
        self._host = host
        self._counter = ResidentCounter(pid)
        self._samples = 0
        self._system_bytes = 0

    def take(self) -> list[Sample]:
        """Return one reading of now."""
        rss_bytes = self._counter.read_bytes()
        if rss_bytes is None:
            return []
        if self._samples % _SYSTEM_EVERY == 0:
            self._system_bytes = parse_meminfo(self._host.read("/proc/meminfo").decode()).used_bytes
        self._samples += 1
        return [Sample(self._host.now_ns(), rss_bytes, self._system_bytes)]

    def set_interval(self, interval_s: float) -> None:
        """Do nothing: the caller's calls are the interval."""

    def close(self) -> None:
        """Close the file."""
        self._counter.close()


LOCAL_HOST = LocalHost()


def own_pid(host: Host) -> int:
    """Return the process that reads there, this one, or the reader on a far host; SamplerError
    where /proc is empty.
    """
    (link,) = host.links(["/proc/self"])
    if isinstance(link, OSError):
        raise SamplerError(
            f"/proc/self cannot be read ({link.strerror}), and so no memory of any process: mount"
            " /proc here (mount -t proc proc /proc)"
        )
    return int(link)


def read_text(host: Host, path: str) -> str | None:
    """Return the content of a file; None if it cannot be read."""
    return read_texts(host, [path]).get(path)


def read_texts(host: Host, paths: Iterable[str]) -> dict[str, str]:
    """Return the contents of those files that can be read, by their paths, in one round trip."""
    distinct = list(dict.fromkeys(paths))
    contents = zip(distinct, host.read_all(distinct))
    return {
        path: content.decode(errors="replace")
        for path, content in contents
        if isinstance(content, bytes)
    }


def names_in(host: Host, folder: str, prefix: str = "") -> list[str]:
    """Return what the folder has that begins so, sorted; nothing where it cannot be read."""
    try:
        return sorted(name for name in host.names(folder) if name.startswith(prefix))
    except OSError:
        return []
