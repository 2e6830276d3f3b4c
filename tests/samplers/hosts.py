"""Hosts for tests: one that counts round trips, and trees with a process of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reusebench.samplers.host import LOCAL_HOST, Clocks, FileStatus, Host, PageRange, Sampler

__all__ = ["CountingHost", "link_process"]


class CountingHost:
    """A host that counts its requests: each is a round trip to a remote board."""

    def __init__(self, host: Host = LOCAL_HOST) -> None:
        self._host = host
        self.page_bytes = host.page_bytes
        self.user_id = host.user_id
        self.round_trips = 0

    def read(self, path: str) -> bytes:
        """Count and read."""
        self.round_trips += 1
        return self._host.read(path)

    def read_all(self, paths: Sequence[str]) -> list[bytes | OSError]:
        """Count and read."""
        self.round_trips += 1
        return self._host.read_all(paths)

    def names(self, folder: str) -> list[str]:
        """Count and list."""
        self.round_trips += 1
        return self._host.names(folder)

    def links(self, paths: Sequence[str]) -> list[str | OSError]:
        """Count and read the links."""
        self.round_trips += 1
        return self._host.links(paths)

    def statuses(self, paths: Sequence[str]) -> list[FileStatus | OSError]:
        """Count and look."""
        self.round_trips += 1
        return self._host.statuses(paths)

    def page_flags(self, ranges: Sequence[PageRange]) -> list[bytes | OSError]:
        """Count and read."""
        self.round_trips += 1
        return self._host.page_flags(ranges)

    def write(self, path: str, data: bytes) -> None:
        """Count and write."""
        self.round_trips += 1
        self._host.write(path, data)

    def now_ns(self) -> int:
        """Count and return the clock."""
        self.round_trips += 1
        return self._host.now_ns()

    def clocks(self) -> Clocks:
        """Count and return the clocks."""
        self.round_trips += 1
        return self._host.clocks()

    def usable_cpus(self) -> int:
        """Count and return the CPUs."""
        self.round_trips += 1
        return self._host.usable_cpus()

    def sampler(self, pid: int, interval_s: float) -> Sampler:
        """Return a sampler, uncounted: a remote board sends samples by itself."""
        return self._host.sampler(pid, interval_s)


def link_process(root: Path, pid: int) -> None:
    """Give the tree the memory of this machine and of one of its processes."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (
        "smaps_rollup",
        "smaps",
        "status",
        "statm",
        "limits",
        "clear_refs",
        "fd",
        "fdinfo",
        "maps",
        "pagemap",
    ):
        if not (folder / name).exists():
            (folder / name).symlink_to(f"/proc/{pid}/{name}")
    if not (root / "proc/meminfo").exists():
        (root / "proc/meminfo").symlink_to("/proc/meminfo")
