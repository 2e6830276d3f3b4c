"""Whether memory was short while a process ran: what the kernel evicted and had to read again, and
who waited for that.

The counters of the process's own control group say it best; those of the system count all other
processes' too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reusebench.samplers.host import Host, read_text, read_texts
from reusebench.samplers.readings import Pressure

__all__ = ["PressureWatch"]

_VMSTAT = "/proc/vmstat"
_SYSTEM_STALLS = "/proc/pressure/memory"
#: Where version 2 of control groups is mounted: alone, and beside version 1.
_GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_GROUPS_1 = "/sys/fs/cgroup/memory"
#: Before Linux 5.9 refaults of files and of anonymous memory were one counter, of files alone.
_REFAULTS = ("workingset_refault_file", "workingset_refault")
_STALLED = re.compile(r"^(some|full) .*total=(\d+)$", re.MULTILINE)
#: Of /proc/PID/stat after the name, which may have spaces: majflt and cmajflt (proc(5)).
_MAJOR_FAULTS = slice(9, 11)


class _Counters(NamedTuple):
    """As the kernel counts: from the start of the process, the group or the machine."""

    major_faults: int | None
    #: By their names in /proc/vmstat and memory.stat.
    pages: Mapping[str, int]
    #: By "some" and "full".
    stalled_us: Mapping[str, int]


class PressureWatch:
    """Counts from its making; the process has begun shortly before."""

    def __init__(self, host: Host, pid: int) -> None:
        """Look for the sources, of which the nearest to the process is read."""
        self._host = host
        self._stat = f"/proc/{pid}/stat"
        groups = list(_groups(host, read_text(host, f"/proc/{pid}/cgroup") or ""))
        page_files = [*(f"{group}/memory.stat" for group in groups), _VMSTAT]
        stall_files = [*(f"{group}/memory.pressure" for group in groups), _SYSTEM_STALLS]
        texts = read_texts(host, [self._stat, *page_files, *stall_files])
        self._pages = next(
            (path for path in page_files if _refaults(_counts(texts.get(path, ""))) is not None),
            None,
        )
        self._stalls = next((path for path in stall_files if _stalls(texts.get(path, ""))), None)
        self._start = self._counters(texts)
        #: What was read last.
        self._last = Pressure()

    def read(self) -> Pressure:
        """Return what has been counted since, in one round trip; 0.15 ms on a PC.

        A group vanishes with its last process, or when that moves on: what was read of it before
        stands then.
        """
        texts = read_texts(
            self._host, [self._stat, *self._page_files, *filter(None, [self._stalls])]
        )
        if all(path in texts for path in (self._pages, self._stalls) if path):
            self._last = self._grown(self._counters(texts))
        return self._last

    def _grown(self, now: _Counters) -> Pressure:
        start = self._start
        page_bytes = self._host.page_bytes

        def grown_bytes(name: str) -> int | None:
            is_known = name in now.pages and name in start.pages
            return (now.pages[name] - start.pages[name]) * page_bytes if is_known else None

        def stalled_ns(kind: str) -> int | None:
            is_known = kind in now.stalled_us and kind in start.stalled_us
            return (now.stalled_us[kind] - start.stalled_us[kind]) * 1000 if is_known else None

        refaults = _refaults(now.pages)
        return Pressure(
            major_faults=now.major_faults,
            refaulted_file_bytes=grown_bytes(refaults) if refaults else None,
            refaulted_anon_bytes=grown_bytes("workingset_refault_anon"),
            refaults_of=_scope(self._pages, _VMSTAT),
            swapped_in_bytes=grown_bytes("pswpin"),
            swapped_out_bytes=grown_bytes("pswpout"),
            stalled_some_ns=stalled_ns("some"),
            stalled_full_ns=stalled_ns("full"),
            stalls_of=_scope(self._stalls, _SYSTEM_STALLS),
        )

    @property
    def _page_files(self) -> list[str]:
        # A group's own counters go over the system's of the same name; swap traffic is mostly the
        # system's.
        return [path for path in (_VMSTAT, self._pages) if path]

    def _counters(self, texts: Mapping[str, str]) -> _Counters:
        pages: dict[str, int] = {}
        for path in self._page_files:
            pages.update(_counts(texts.get(path, "")))
        return _Counters(
            _major_faults(texts.get(self._stat, "")),
            pages,
            _stalls(texts.get(self._stalls, "") if self._stalls else ""),
        )


def _groups(host: Host, cgroup: str) -> list[str]:
    """Return where the process's control group may be, of lines `0::/user.slice/session-2.scope` or
    `4:memory:/a/b`.
    """
    paths = {
        controllers: path
        for _, controllers, path in (line.split(":", 2) for line in cgroup.splitlines())
    }
    groups = [f"{root}{paths['']}".rstrip("/") for root in _GROUPS] if "" in paths else []
    # The uppermost group, which has no type, has the counters of the whole system.
    types = read_texts(host, [f"{group}/cgroup.type" for group in groups])
    own = [group for group in groups if f"{group}/cgroup.type" in types]
    of_memory = (path for controllers, path in paths.items() if "memory" in controllers.split(","))
    return own + [f"{_GROUPS_1}{path}".rstrip("/") for path in of_memory]


def _counts(text: str) -> dict[str, int]:
    """Return lines `name number` of /proc/vmstat or memory.stat."""
    fields = (line.split() for line in text.splitlines())
    return {field[0]: int(field[1]) for field in fields if len(field) == 2 and field[1].isdigit()}


def _refaults(counts: Mapping[str, int]) -> str | None:
    return next((name for name in _REFAULTS if name in counts), None)


def _stalls(text: str) -> dict[str, int]:
    """Return microseconds of lines `some avg10=0.00 avg60=0.00 avg300=0.00 total=53`."""
    return {kind: int(total) for kind, total in _STALLED.findall(text)}


def _major_faults(stat: str) -> int | None:
    """Return those of the process and of the children that it has waited for; None if it has
    gone.
    """
    fields: Sequence[str] = stat.rpartition(")")[2].split()[_MAJOR_FAULTS]
    return sum(map(int, fields)) if fields else None


def _scope(path: str | None, of_system: str) -> str | None:
    if path is None:
        return None
    return "system" if path == of_system else "cgroup"
