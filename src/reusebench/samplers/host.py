"""The measured machine, local or remote, as the source of all readings."""

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
    "FileStatus",
    "Host",
    "LocalHost",
    "PageRange",
    "ResidentCounter",
    "Sample",
    "Sampler",
    "device_name",
    "names_in",
    "own_pid",
    "read_text",
    "read_texts",
]

#: Interval between readings of /proc/meminfo, in samples: one costs 14 us, and the value moves
#: slowly.
_SYSTEM_EVERY = 10
#: More than nearly every file of /proc and /sys has, so that one read is enough.
_READ_BYTES = 1 << 16
#: Bytes of an entry of /proc/PID/pagemap, one for each page.
_PAGE_ENTRY_BYTES = 8
#: Unit of st_blocks, on every file system.
_BLOCK_BYTES = 512
#: Pages that are read at once from pagemap.
_PAGES_AT_ONCE = 1 << 15


class Sample(NamedTuple):
    """One cheap reading."""

    #: Time by the host's monotonic clock.
    time_ns: int
    rss_bytes: int
    #: MemTotal - MemAvailable.
    system_bytes: int


class Clocks(NamedTuple):
    """The host's clocks at one moment."""

    #: Monotonic clock.
    time_ns: int
    #: CPU time of the process that makes the readings.
    cpu_ns: int


class FileStatus(NamedTuple):
    """A file, as the kernel describes it."""

    #: Device and inode, as /proc/PID/maps has them: `00:1a`, `4711`.
    device: bytes
    inode: bytes
    #: Bytes that it takes on its file system: in memory, if that is a file system of memory.
    stored_bytes: int


class PageRange(NamedTuple):
    """Pages of a process that follow each other, by their numbers in its address space."""

    pid: int
    first: int
    length: int


class Sampler(Protocol):
    """Cheap readings of one process between barriers."""

    def take(self) -> list[Sample]:
        """Return one current reading, or a remote host's readings since the last call.

        Empty once the process has gone.
        """

    def set_interval(self, interval_s: float) -> None:
        """Set the sampling interval; a local sampler samples whenever it is called."""

    def close(self) -> None:
        """End the sampling."""


class Host(Protocol):
    """The machine. A remote host may raise targets.errors.ConnectionLost from every method.

    ConnectionLost is no OSError.
    """

    @property
    def page_bytes(self) -> int:
        """The size of a memory page."""

    @property
    def user_id(self) -> int:
        """The user whose files can be read: 0 is root."""

    def read(self, path: str) -> bytes:
        """Return the content of a file; raise OSError."""

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Return the content or error of each file, in one round trip."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in any order, without . and ..; raise OSError."""

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Return the target or error of each symbolic link, in one round trip."""

    def statuses(self, paths: Sequence[str]) -> list[FileStatus | OSError]:
        """Return the status or error of each path, links followed, in one round trip."""

    def page_flags(self, ranges: Sequence[PageRange]) -> list[bytes | OSError]:
        """Return a byte for each page of each range, or its error, in one round trip.

        It is the highest byte of the page's entry in /proc/PID/pagemap, which every user may read
        of own processes. Beyond the end of the address space there are fewer bytes.
        """

    def write(self, path: str, data: bytes) -> None:
        """Write to an existing file, in one write; raise OSError."""

    def now_ns(self) -> int:
        """Return the monotonic clock."""

    def clocks(self) -> Clocks:
        """Return the monotonic clock and the CPU time that readings have cost the host."""

    def usable_cpus(self) -> int:
        """Return the number of CPUs that a process started there may use."""

    def sampler(self, pid: int, interval_s: float) -> Sampler:
        """Begin to sample a process; raise ProcessLookupError if it has gone."""


class LocalHost:
    """This machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        """`root` is the folder with proc/, sys/ and etc/."""
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
        """Return the content or error of each file."""
        contents: list[bytes | OSError] = []
        for path in paths:
            try:
                contents.append(self.read(path))
            except OSError as error:
                contents.append(error)
        return contents

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        return os.listdir(self._root + folder)  # noqa: PTH208 as strings, at half the cost

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Return the target or error of each symbolic link."""
        links: list[str | OSError] = []
        for path in paths:
            try:
                links.append(os.readlink(self._root + path))  # noqa: PTH115 as above
            except OSError as error:
                links.append(error)
        return links

    def statuses(self, paths: Sequence[str]) -> list[FileStatus | OSError]:
        """Return the status or error of each path, links followed."""
        statuses: list[FileStatus | OSError] = []
        for path in paths:
            try:
                found = os.stat(self._root + path)  # noqa: PTH116 as above
            except OSError as error:
                statuses.append(error)
                continue
            device = device_name(os.major(found.st_dev), os.minor(found.st_dev))
            inode = str(found.st_ino).encode()
            statuses.append(FileStatus(device, inode, found.st_blocks * _BLOCK_BYTES))
        return statuses

    def page_flags(self, ranges: Sequence[PageRange]) -> list[bytes | OSError]:
        """Return a byte for each page of each range, or its error."""
        flags: list[bytes | OSError] = []
        for pages in ranges:
            try:
                flags.append(self._flags_of(pages))
            except OSError as error:
                flags.append(error)
        return flags

    def _flags_of(self, pages: PageRange) -> bytes:
        file = os.open(f"{self._root}/proc/{pages.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        flags = bytearray()
        try:
            while len(flags) < pages.length:
                count = min(pages.length - len(flags), _PAGES_AT_ONCE)
                position = (pages.first + len(flags)) * _PAGE_ENTRY_BYTES
                entries = os.pread(file, count * _PAGE_ENTRY_BYTES, position)
                if not entries:
                    break
                flags += entries[_PAGE_ENTRY_BYTES - 1 :: _PAGE_ENTRY_BYTES]
        finally:
            os.close(file)
        return bytes(flags)

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
        """Return the monotonic clock and this process's CPU time."""
        return Clocks(time.monotonic_ns(), time.process_time_ns())

    def usable_cpus(self) -> int:
        """Return the number of CPUs that this process may use."""
        return len(os.sched_getaffinity(0))

    def sampler(self, pid: int, interval_s: float) -> Sampler:  # noqa: ARG002 the caller's calls are the interval
        """Begin to sample a process."""
        try:
            return _LocalSampler(self, pid)
        except FileNotFoundError:
            raise ProcessLookupError(f"process {pid} has gone") from None


class ResidentCounter:
    """RSS of a local process from /proc/PID/statm, kept open: 1 us a reading, without a lock.

    The kernel keeps this counter per CPU and folds it in batches, so a reading may be off by some
    hundred KiB.
    """

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read_bytes(self) -> int | None:
        """Return the current RSS, or None once the process has gone."""
        try:
            pages = parse_resident_pages(os.pread(self._file, 128, 0))
        except ProcessLookupError:
            return None
        return pages * self._page_bytes or None

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class _LocalSampler:
    """Takes one sample per call."""

    def __init__(self, host: LocalHost, pid: int) -> None:
        self._host = host
        self._counter = ResidentCounter(pid)
        self._samples = 0
        self._system_bytes = 0

    def take(self) -> list[Sample]:
        rss_bytes = self._counter.read_bytes()
        if rss_bytes is None:
            return []
        if self._samples % _SYSTEM_EVERY == 0:
            meminfo = self._host.read("/proc/meminfo").decode()
            self._system_bytes = parse_meminfo(meminfo).used_bytes
        self._samples += 1
        return [Sample(self._host.now_ns(), rss_bytes, self._system_bytes)]

    def set_interval(self, interval_s: float) -> None:
        """Do nothing: the caller's calls are the interval."""

    def close(self) -> None:
        self._counter.close()


LOCAL_HOST = LocalHost()


def device_name(major: int, minor: int) -> bytes:
    """Return a device's name in /proc/PID/maps, by its numbers."""
    return b"%02x:%02x" % (major, minor)


def own_pid(host: Host) -> int:
    """Return the pid of the reading process: this one, or the reader on a remote host.

    Raises SamplerError if /proc is empty.
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
    """Return the contents of the readable files, by path, in one round trip."""
    distinct_paths = list(dict.fromkeys(paths))
    texts = {}
    for path, content in zip(distinct_paths, host.read_all(distinct_paths)):
        if isinstance(content, bytes):
            texts[path] = content.decode(errors="replace")
    return texts


def names_in(host: Host, folder: str, prefix: str = "") -> list[str]:
    """Return the sorted names in a folder that begin with `prefix`; empty if it cannot be read."""
    try:
        return sorted(name for name in host.names(folder) if name.startswith(prefix))
    except OSError:
        return []
