"""Evidence of short memory while a process ran: evictions, repeated reads, and waiting for them.

The counters of the process's own control group are the best; the system's also count all other
processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from reusebench.samplers.control_groups import control_groups
from reusebench.samplers.host import Host, read_texts
from reusebench.samplers.proc_files import parse_counts
from reusebench.samplers.readings import Pressure

__all__ = ["PressureWatch"]

_VMSTAT = "/proc/vmstat"
_SYSTEM_STALLS = "/proc/pressure/memory"
#: Counters of refaults. Before Linux 5.9 there was one for files and anonymous memory, which
#: counted only files.
_REFAULTS = ("workingset_refault_file", "workingset_refault")
#: Counters of pages that the kernel took back: from a control group of version 2; from any process,
#: since Linux 5.8; before it, without those of limited groups. The first that is there counts.
_RECLAIMS = (
    ("pgsteal",),
    ("pgsteal_anon", "pgsteal_file"),
    ("pgsteal_kswapd", "pgsteal_direct"),
)
_STALLED = re.compile(r"^(some|full) .*total=(\d+)$", re.MULTILINE)
#: majflt and cmajflt among the fields of /proc/PID/stat after the name, which may have spaces
#: (proc(5)).
_MAJOR_FAULTS = slice(9, 11)


class _Counters(NamedTuple):
    """The kernel's counters, since the start of the process, the group or the machine."""

    major_faults: int | None
    #: Key: name in /proc/vmstat or memory.stat.
    pages: Mapping[str, int]
    #: Key: "some" or "full".
    stalled_us: Mapping[str, int]


class PressureWatch:
    """Counts from its creation, which is shortly after the process's start."""

    def __init__(self, host: Host, pid: int) -> None:
        """Choose, of each kind of source, the one nearest to the process."""
        self._host = host
        self._stat = f"/proc/{pid}/stat"
        groups = _own_groups(host, pid)
        page_files = [*(f"{group}/memory.stat" for group in groups), _VMSTAT]
        stall_files = [*(f"{group}/memory.pressure" for group in groups), _SYSTEM_STALLS]
        texts = read_texts(host, [self._stat, *page_files, *stall_files])
        self._pages = _first(page_files, texts, _has_refaults)
        self._stalls = _first(stall_files, texts, _has_stalls)
        self._start = self._counters(texts)
        #: The last reading.
        self._last = Pressure()

    def read(self) -> Pressure:
        """Return the counts since the start, in one round trip; 0.15 ms on a PC.

        A group vanishes with its last process, or when that moves elsewhere. The last reading stays
        valid then.
        """
        sources = [path for path in (self._pages, self._stalls) if path]
        texts = read_texts(self._host, [self._stat, *self._page_files, *sources])
        if all(path in texts for path in sources):
            self._last = self._growth(self._counters(texts))
        return self._last

    def _growth(self, now: _Counters) -> Pressure:
        start = self._start
        page_bytes = self._host.page_bytes

        def grown_bytes(name: str) -> int | None:
            if name not in now.pages or name not in start.pages:
                return None
            return (now.pages[name] - start.pages[name]) * page_bytes

        def stalled_ns(kind: str) -> int | None:
            if kind not in now.stalled_us or kind not in start.stalled_us:
                return None
            return (now.stalled_us[kind] - start.stalled_us[kind]) * 1000

        refaults = _refaults(now.pages)
        reclaims = next((names for names in _RECLAIMS if set(names) <= set(now.pages)), ())
        reclaimed = [grown_bytes(name) or 0 for name in reclaims]
        return Pressure(
            major_faults=now.major_faults,
            refaulted_file_bytes=grown_bytes(refaults) if refaults else None,
            refaulted_anon_bytes=grown_bytes("workingset_refault_anon"),
            refaults_of=_scope(self._pages, _VMSTAT),
            reclaimed_bytes=sum(reclaimed) if reclaims else None,
            reclaims_of=_reclaim_scope(reclaims),
            swapped_in_bytes=grown_bytes("pswpin"),
            swapped_out_bytes=grown_bytes("pswpout"),
            stalled_some_ns=stalled_ns("some"),
            stalled_full_ns=stalled_ns("full"),
            stalls_of=_scope(self._stalls, _SYSTEM_STALLS),
        )

    @property
    def _page_files(self) -> list[str]:
        # A group's own counters override the system's of the same name; swap traffic is usually the
        # system's.
        return [path for path in (_VMSTAT, self._pages) if path]

    def _counters(self, texts: Mapping[str, str]) -> _Counters:
        pages: dict[str, int] = {}
        for path in self._page_files:
            pages.update(parse_counts(texts.get(path, "")))
        stalled_us = _stalls(texts.get(self._stalls, "")) if self._stalls else {}
        return _Counters(_major_faults(texts.get(self._stat, "")), pages, stalled_us)


def _own_groups(host: Host, pid: int) -> list[str]:
    """Return the possible folders of the process's control group, version 2 first."""
    groups = [group for group in control_groups(host, pid) if group.is_own]
    # The root group is left out: it has no type, and the counters of the whole system.
    types = read_texts(host, [group.file("cgroup.type") for group in groups])
    own = [group for group in groups if group.version == 2 and group.file("cgroup.type") in types]
    own += [group for group in groups if group.version == 1]
    return [group.folder for group in own]


def _first(
    paths: Sequence[str], texts: Mapping[str, str], is_usable: Callable[[str], bool]
) -> str | None:
    """Return the first of the paths with a usable text."""
    for path in paths:
        if is_usable(texts.get(path, "")):
            return path
    return None


def _has_refaults(text: str) -> bool:
    return _refaults(parse_counts(text)) is not None


def _has_stalls(text: str) -> bool:
    return bool(_stalls(text))


def _refaults(counts: Mapping[str, int]) -> str | None:
    """Return the name of the kernel's counter of refaults of files, if it has one."""
    return next((name for name in _REFAULTS if name in counts), None)


def _stalls(text: str) -> dict[str, int]:
    """Return microseconds from lines `some avg10=0.00 avg60=0.00 avg300=0.00 total=53`."""
    return {kind: int(total) for kind, total in _STALLED.findall(text)}


def _major_faults(stat: str) -> int | None:
    """Return the faults of the process and of its waited-for children; None if it has gone."""
    fields: Sequence[str] = stat.rpartition(")")[2].split()[_MAJOR_FAULTS]
    return sum(map(int, fields)) if fields else None


def _reclaim_scope(names: Sequence[str]) -> str | None:
    if not names:
        return None
    return "cgroup" if names == _RECLAIMS[0] else "system"


def _scope(path: str | None, system_path: str) -> str | None:
    if path is None:
        return None
    return "system" if path == system_path else "cgroup"
