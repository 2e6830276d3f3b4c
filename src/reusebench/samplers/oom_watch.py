"""Processes that the kernel has killed for memory: of a control group, or of the whole machine."""

from __future__ import annotations

from typing import Literal, NamedTuple

from reusebench.samplers.control_groups import control_groups
from reusebench.samplers.host import Host, read_texts
from reusebench.samplers.proc_files import parse_counts

__all__ = ["OomKills", "OomWatch"]

_VMSTAT = "/proc/vmstat"
#: The file of each version that counts; its counter is `oom_kill`, from Linux 4.13 on.
_EVENTS = {1: "memory.oom_control", 2: "memory.events"}
_KILLS = "oom_kill"


class OomKills(NamedTuple):
    """A number of killed processes, and whose processes are counted."""

    killed_count: int
    scope: Literal["cgroup", "system"]


class OomWatch:
    """Counts from its creation: in the control group of a process, otherwise on the machine."""

    def __init__(self, host: Host, pid: int) -> None:
        """Choose the process's own group if it counts; the root of version 2 does not."""
        self._host = host
        own = [group for group in control_groups(host, pid) if group.is_own]
        paths = [group.file(_EVENTS[group.version]) for group in own]
        texts = read_texts(host, [*paths, _VMSTAT])
        self._path = _VMSTAT
        for path in paths:
            if _KILLS in parse_counts(texts.get(path, "")):
                self._path = path
                break
        self._before = parse_counts(texts.get(self._path, "")).get(_KILLS)

    def read(self) -> OomKills | None:
        """Return the kills since the creation.

        None if the kernel does not count, or the group has gone.
        """
        text = read_texts(self._host, [self._path]).get(self._path, "")
        count = parse_counts(text).get(_KILLS)
        if count is None or self._before is None:
            return None
        scope: Literal["cgroup", "system"] = "system" if self._path == _VMSTAT else "cgroup"
        return OomKills(count - self._before, scope)
