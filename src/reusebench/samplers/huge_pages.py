"""Pages of hugetlbfs, which neither RSS nor PSS has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reusebench.samplers.host import Host
from reusebench.samplers.mappings import repeated_huge_bytes
from reusebench.samplers.proc_files import parse_sizes

__all__ = ["HugePages", "distinct_huge_bytes", "huge_mappings", "mapped_addresses"]

#: The beginning of a mapping's lines in smaps, with its address.
_MAPPING = re.compile(rb"^(?=[0-9a-f]+-[0-9a-f]+ )", re.MULTILINE)


class HugePages(NamedTuple):
    """Bytes of huge pages that a process maps; those that are shared count in each mapping."""

    private_bytes: int
    shared_bytes: int

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> HugePages:
        """Return the sizes in smaps_rollup, or in a part of smaps."""
        return cls(sizes.get("Private_Hugetlb", 0), sizes.get("Shared_Hugetlb", 0))


def huge_mappings(host: Host, pids: Sequence[int]) -> dict[int, bytes]:
    """Return the mappings of huge pages by process, as lines of /proc/PID/maps.

    A process that has gone has none.
    """
    found = {}
    for pid, smaps in zip(pids, host.read_all([f"/proc/{pid}/smaps" for pid in pids])):
        lines = []
        for mapping in _MAPPING.split(smaps if isinstance(smaps, bytes) else b"")[1:]:
            line, _, sizes = mapping.partition(b"\n")
            if any(HugePages.of(parse_sizes(sizes.decode(errors="replace")))):
                lines.append(line)
        found[pid] = b"\n".join(lines)
    return found


def mapped_addresses(maps: Mapping[int, bytes]) -> frozenset[tuple[int, int]]:
    """Return process and address of each mapping."""
    found = set()
    for pid, content in maps.items():
        found |= {(pid, int(line.partition(b"-")[0], 16)) for line in content.splitlines()}
    return frozenset(found)


def distinct_huge_bytes(host: Host, pages: Mapping[int, HugePages]) -> int:
    """Return the bytes of the huge pages of several processes, each page once.

    On a kernel that does not show pages (before Linux 4.2) a shared page counts in each mapping.
    """
    total = sum(sum(part) for part in pages.values())
    if not any(part.shared_bytes for part in pages.values()):
        return total
    maps = huge_mappings(host, [pid for pid, part in pages.items() if any(part)])
    return total - (repeated_huge_bytes(host, maps) or 0)
