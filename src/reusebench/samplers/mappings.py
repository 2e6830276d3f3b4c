"""Pages of files that processes map more than once, which RSS counts each time.

/proc/PID/maps has the mappings, and the highest byte of a page's entry in /proc/PID/pagemap has its
flags (Documentation/admin-guide/mm/pagemap.rst in the kernel). Only where mappings of one file
overlap are flags read: 12 mappings of 30 MiB cost 3 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from reusebench.samplers.host import Host, PageRange

__all__ = ["repeated_bytes"]

#: Flags in the highest byte of an entry: the page is in memory, and belongs to a file or to shared
#: memory. A page of a private mapping that was written to is no page of the file any more.
_PRESENT = 0x80
_OF_FILE = 0x20
#: Translates flags to 1 for a page of a file in memory, otherwise to 0.
_COUNTED = bytes(flags & (_PRESENT | _OF_FILE) == (_PRESENT | _OF_FILE) for flags in range(256))
#: Limit of the flags that are read: of 32 GiB of mappings with pages of 4 KiB.
_MOST_PAGES = 1 << 23


class _Mapping(NamedTuple):
    """Consecutive pages of a file in one process."""

    #: Pages of the file.
    begin: int
    end: int
    pid: int
    #: Number of the first page in the process's address space.
    address: int

    def part(self, begin: int, end: int) -> PageRange:
        """Return the process's pages for these pages of the file."""
        return PageRange(self.pid, self.address + begin - self.begin, end - begin)


def repeated_bytes(
    host: Host, maps: Mapping[int, bytes], left_out: frozenset[tuple[int, int]] = frozenset()
) -> int | None:
    """Return the bytes by which RSS counts pages of files more often than once.

    `maps` has the content of /proc/PID/maps by process, and `left_out` the process and the address
    of each mapping that RSS does not count. None if the kernel or this user does not show it.
    """
    ranges: list[PageRange] = []
    #: Number of the ranges that are the same pages of one file.
    counts: list[int] = []
    for mappings in _by_file(maps, left_out, host.page_bytes):
        for begin, end, covering in _overlaps(mappings):
            ranges += [mapping.part(begin, end) for mapping in covering]
            counts.append(len(covering))
    if not ranges:
        return 0
    if sum(pages.length for pages in ranges) > _MOST_PAGES:
        return None

    flags = iter(host.page_flags(ranges))
    repeated_pages = 0
    for count in counts:
        total = 0
        union = 0
        for _ in range(count):
            content = next(flags)
            if isinstance(content, OSError):
                return None
            counted = content.translate(_COUNTED)
            total += counted.count(1)
            union |= int.from_bytes(counted, "little")
        repeated_pages += total - bin(union).count("1")
    return repeated_pages * host.page_bytes


def _by_file(
    maps: Mapping[int, bytes], left_out: frozenset[tuple[int, int]], page_bytes: int
) -> Iterable[list[_Mapping]]:
    """Return the mappings of each file that is mapped more than once."""
    files: dict[tuple[bytes, bytes], list[_Mapping]] = {}
    for pid, content in maps.items():
        for line in content.splitlines():
            addresses, _, offset, device, inode = line.split(maxsplit=5)[:5]
            if inode == b"0":
                continue
            start_text, _, end_text = addresses.partition(b"-")
            start = int(start_text, 16)
            if (pid, start) in left_out:
                continue
            address = start // page_bytes
            begin = int(offset, 16) // page_bytes
            end = begin + int(end_text, 16) // page_bytes - address
            files.setdefault((device, inode), []).append(_Mapping(begin, end, pid, address))
    return [mappings for mappings in files.values() if len(mappings) > 1]


def _overlaps(mappings: list[_Mapping]) -> Iterator[tuple[int, int, list[_Mapping]]]:
    """Yield the longest ranges of pages that the same two or more mappings have."""
    ordered = sorted(mappings)
    bounds = sorted({bound for mapping in ordered for bound in (mapping.begin, mapping.end)})
    covering: list[_Mapping] = []
    position = 0
    for begin, end in zip(bounds, bounds[1:]):
        covering = [mapping for mapping in covering if mapping.end > begin]
        while position < len(ordered) and ordered[position].begin == begin:
            covering.append(ordered[position])
            position += 1
        if len(covering) > 1:
            yield begin, end, covering
