"""The control groups of a process: their folders, the memory that they allow, and what is charged.

A container is a control group. Every group above a process's own limits it too, so the tightest
limit counts. Version 1 and 2 may be mounted side by side, at any place, from any group on; a
container's own view of the paths begins at its own group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reusebench.samplers.host import Host, read_texts
from reusebench.samplers.proc_files import parse_counts, parse_sizes
from reusebench.samplers.readings import GroupMemory

__all__ = ["ControlGroup", "GroupWatch", "control_groups"]

#: Mount points, if /proc/self/mountinfo cannot be read: version 2 alone and beside version 1, and
#: the memory controller of version 1.
_USUAL = (
    (2, "/sys/fs/cgroup"),
    (2, "/sys/fs/cgroup/unified"),
    (1, "/sys/fs/cgroup/memory"),
)
_MOUNTS = "/proc/self/mountinfo"
#: A space, tab, newline or backslash in a path of mountinfo: `\040`.
_OCTAL = re.compile(r"\\([0-7]{3})")
#: Version 1 writes the largest number of whole pages for no limit.
_NO_LIMIT = 1 << 60


class _Level(NamedTuple):
    """The files of one version that tell a group's limits and its use."""

    #: Pairs of a limit's file and the file of what it limits.
    limits: tuple[tuple[str, str], ...]
    charged: str
    stat: str
    #: Prefix, in memory.stat, of counters that include the groups below.
    whole: str


_FILES = {
    1: _Level(
        (
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
        ),
        "memory.usage_in_bytes",
        "memory.stat",
        "total_",
    ),
    2: _Level(
        (("memory.max", "memory.current"), ("memory.high", "memory.current")),
        "memory.current",
        "memory.stat",
        "",
    ),
}
#: Version 1 only: the tightest limit of all groups above, in memory.stat. They include groups that
#: a container does not see.
_OF_HIERARCHY = "hierarchical_memory_limit"
#: Version 1 only: 0 in a group that does not count the memory of the groups below it.
_USE_HIERARCHY = "memory.use_hierarchy"
#: Version 1 only; version 2 has it in memory.stat, as a sum from Linux 5.18 on.
_KERNEL = "memory.kmem.usage_in_bytes"
_KERNEL_PARTS = ("kernel_stack", "pagetables", "percpu", "slab")


@dataclass(frozen=True)
class ControlGroup:
    """A group that a process is in, or one above it."""

    #: 1 or 2.
    version: int
    folder: str
    #: False for a group above the process's own.
    is_own: bool

    def file(self, name: str) -> str:
        """Return the path of one of its files."""
        return f"{self.folder}/{name}"


class _Mount(NamedTuple):
    version: int
    #: The group that is mounted, as /proc/self/cgroup would name it.
    root: str
    point: str


def control_groups(host: Host, pid: int | None = None) -> list[ControlGroup]:
    """Return the groups of a process that may limit its memory, its own first.

    Without `pid` they are those of the reading process, which its children inherit.
    """
    who = "self" if pid is None else str(pid)
    cgroup = f"/proc/{who}/cgroup"
    texts = read_texts(host, (cgroup, _MOUNTS))
    groups: list[ControlGroup] = []
    for version, path in _paths(texts.get(cgroup, "")):
        for mount in _mounts(texts.get(_MOUNTS, ""), version):
            groups += _groups(mount, path)
    return groups


def _paths(cgroup: str) -> Iterator[tuple[int, str]]:
    """Yield the version and the path of each group with a memory controller.

    Lines are like `0::/user.slice/session-2.scope` or `4:memory:/a/b`; a path may have colons.
    """
    for line in cgroup.splitlines():
        fields = line.split(":", 2)
        if len(fields) < 3:
            continue
        _, controllers, path = fields
        if not controllers:
            yield 2, path
        elif "memory" in controllers.split(","):
            yield 1, path


def _mounts(mountinfo: str, version: int) -> list[_Mount]:
    """Return the mount points of groups of this version; the usual ones if nothing tells."""
    mounts = []
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split()
        kind = after.split()
        if not separator or len(fields) < 5 or len(kind) < 3:
            continue
        is_2 = kind[0] == "cgroup2" and version == 2
        is_1 = kind[0] == "cgroup" and version == 1 and "memory" in kind[2].split(",")
        if is_1 or is_2:
            mounts.append(_Mount(version, _unescaped(fields[3]), _unescaped(fields[4])))
    if mounts:
        return mounts
    return [_Mount(version, "/", point) for usual, point in _USUAL if usual == version]


def _unescaped(path: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), path)


def _groups(mount: _Mount, path: str) -> Iterator[ControlGroup]:
    """Yield a group and those above it, as far as they are mounted there."""
    below = _below(path, mount.root)
    if below is None:
        return
    point = mount.point.rstrip("/")
    for count in range(len(below), -1, -1):
        folder = "/".join([point, *below[:count]])
        yield ControlGroup(mount.version, folder, is_own=count == len(below))


def _below(path: str, root: str) -> list[str] | None:
    """Return the names from the mounted group down to the process's; None if it is elsewhere.

    Both paths begin at the reader's own container, and lead out of it with `..`.
    """
    up, names = _climbs(path)
    root_up, root_names = _climbs(root)
    if root_up > up:
        # The mount begins above the container: which way leads down is not told.
        return [] if not root_names else None
    if root_up < up or names[: len(root_names)] != root_names:
        return None
    return names[len(root_names) :]


def _climbs(path: str) -> tuple[int, list[str]]:
    """Return the number of `..` at the start of a path, and the names after them."""
    names = [name for name in path.split("/") if name]
    up = 0
    while up < len(names) and names[up] == "..":
        up += 1
    return up, names[up:]


class _Limit(NamedTuple):
    size_bytes: int
    #: Memory that can still be charged before the limit, if page cache is dropped.
    left_bytes: int
    #: The file that has it.
    source: str


class GroupWatch:
    """Reads the memory of the groups of a process in one round trip."""

    def __init__(self, host: Host, pid: int | None = None) -> None:
        """Find the groups; a process that moves to others is not followed."""
        self._host = host
        self._groups = control_groups(host, pid)
        self._paths = ["/proc/meminfo"]
        for group in self._groups:
            self._paths += map(group.file, _names(group.version))

    def read(self) -> GroupMemory | None:
        """Return the memory of the groups; None if no limit is below the machine's memory."""
        if not self._groups:
            return None
        texts = read_texts(self._host, self._paths)
        total_bytes = parse_sizes(texts.get("/proc/meminfo", "")).get("MemTotal", _NO_LIMIT)
        counting = [group for group in self._groups if _charged(group, texts) is not None]
        limits = []
        for limit in _limits(counting, texts):
            if limit.size_bytes <= total_bytes:
                limits.append(limit)
        if not limits:
            return None

        own = counting[0]
        tightest = min(limits, key=lambda limit: limit.size_bytes)
        return GroupMemory(
            limit_bytes=tightest.size_bytes,
            limit_source=tightest.source,
            available_bytes=max(0, min(limit.left_bytes for limit in limits)),
            charged_bytes=_charged(own, texts) or 0,
            **_parts(own, texts),
        )


def _names(version: int) -> Iterator[str]:
    """Yield the names of all files of a group that are read."""
    files = _FILES[version]
    for pair in files.limits:
        yield from pair
    yield files.charged
    yield files.stat
    if version == 1:
        yield _USE_HIERARCHY
        yield _KERNEL


def _limits(groups: Sequence[ControlGroup], texts: Mapping[str, str]) -> list[_Limit]:
    """Return every limit of the groups that count their memory, those of hidden groups last."""
    limits = []
    hidden = []
    has_ended = False
    seen_1 = False
    for group in groups:
        if group.version == 1:
            counts_below = texts.get(group.file(_USE_HIERARCHY), "1").strip() != "0"
            has_ended |= seen_1 and not counts_below
            seen_1 = True
            if has_ended:
                continue
        stat = _stat(group, texts)
        reclaimable = _reclaimable_bytes(group.version, stat)
        for name, used_name in _FILES[group.version].limits:
            size = _number(texts.get(group.file(name)))
            used = _number(texts.get(group.file(used_name)))
            if size is not None and used is not None:
                limits.append(_Limit(size, size - max(0, used - reclaimable), group.file(name)))
        size = stat.get(_OF_HIERARCHY)
        if size is not None:
            used = max(0, (_charged(group, texts) or 0) - reclaimable)
            source = f"{group.file(_FILES[group.version].stat)} ({_OF_HIERARCHY})"
            hidden.append(_Limit(size, size - used, source))
    return limits + hidden


def _charged(group: ControlGroup, texts: Mapping[str, str]) -> int | None:
    return _number(texts.get(group.file(_FILES[group.version].charged)))


def _stat(group: ControlGroup, texts: Mapping[str, str]) -> dict[str, int]:
    return parse_counts(texts.get(group.file(_FILES[group.version].stat), ""))


def _reclaimable_bytes(version: int, stat: Mapping[str, int]) -> int:
    """Return the memory that the kernel drops first: page cache, and caches of its own."""
    whole = _FILES[version].whole
    names = (f"{whole}active_file", f"{whole}inactive_file", "slab_reclaimable")
    return sum(stat.get(name, 0) for name in names)


def _parts(group: ControlGroup, texts: Mapping[str, str]) -> dict[str, int | None]:
    """Return the charged memory, by kind; None if the kernel does not tell it."""
    stat = _stat(group, texts)
    whole = _FILES[group.version].whole
    anonymous, cached = ("anon", "file") if group.version == 2 else ("total_rss", "total_cache")
    shmem_bytes = stat.get(f"{whole}shmem")
    file_bytes = stat.get(cached)
    if file_bytes is not None:
        file_bytes -= shmem_bytes or 0  # files of tmpfs are in the page cache too
    return {
        "anon_bytes": stat.get(anonymous),
        "file_bytes": file_bytes,
        "shmem_bytes": shmem_bytes,
        "kernel_bytes": _kernel_bytes(group, stat, texts),
        "inactive_file_bytes": stat.get(f"{whole}inactive_file"),
    }


def _kernel_bytes(
    group: ControlGroup, stat: Mapping[str, int], texts: Mapping[str, str]
) -> int | None:
    if group.version == 1:
        return _number(texts.get(group.file(_KERNEL)))
    if "kernel" in stat:
        return stat["kernel"]
    parts = [stat[name] for name in _KERNEL_PARTS if name in stat]
    return sum(parts) if parts else None


def _number(text: str | None) -> int | None:
    """Return the number in a file; None for `max`, which is no limit."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdigit() else None
