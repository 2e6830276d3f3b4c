"""Pages of files that processes map, each once; RSS counts those mapped more than once each time.

/proc/PID/maps has the mappings, and the highest byte of a page's entry in /proc/PID/pagemap has its
flags (Documentation/admin-guide/mm/pagemap.rst in the kernel). Only where mappings of one file
overlap are flags read: 12 mappings of 30 MiB cost 3 ms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from reusebench.samplers.host import Host, PageRange

__all__ = ["FileKey", "mapped_bytes", "repeated_bytes", "repeated_huge_bytes"]

#: Device and inode, as /proc/PID/maps has them.
FileKey = tuple[bytes, bytes]

#: Flags in the highest byte of an entry: the page is in memory, and belongs to a file or to shared
#: memory. A page of a private mapping that was written to is no page of the file any more.
_PRESENT = 0x80
_OF_FILE = 0x20
#: The page has this mapping alone (Linux 4.2).
_EXCLUSIVE = 0x01
#: Translates flags to 1 for a page of a file in memory, otherwise to 0.
_COUNTED = bytes(flags & (_PRESENT | _OF_FILE) == (_PRESENT | _OF_FILE) for flags in range(256))
#: The same for huge pages that may have several mappings: pages of a file, and those of a private
#: mapping that a child shares since it was forked.
_SHARED = bytes(
    bool(flags & _PRESENT) and flags & (_OF_FILE | _EXCLUSIVE) != _EXCLUSIVE for flags in range(256)
)
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
    return _repeated_bytes(host, _by_file(maps, left_out, host.page_bytes), _COUNTED)


def repeated_huge_bytes(host: Host, maps: Mapping[int, bytes]) -> int | None:
    """Return the bytes by which these mappings have huge pages more often than once.

    `maps` has the lines of /proc/PID/maps of such mappings by process; otherwise as above.
    """
    return _repeated_bytes(host, _by_file(maps, frozenset(), host.page_bytes), _SHARED)


def _repeated_bytes(
    host: Host, files: Mapping[FileKey, list[_Mapping]], table: bytes
) -> int | None:
    """Return the bytes that mappings of the same file repeat; `table` tells what is counted."""
    stretches = []
    for mappings in files.values():
        stretches += list(_stretches(mappings, least_mappings=2))
    pages = _count(host, stretches, table)
    return None if pages is None else (pages.in_mappings - pages.distinct) * host.page_bytes


def mapped_bytes(host: Host, maps: Mapping[int, bytes], files: Collection[FileKey]) -> int | None:
    """Return the bytes of these files that are in memory and mapped, each page once.

    None if the kernel or this user does not show it.
    """
    stretches = []
    for key, mappings in _by_file(maps, frozenset(), host.page_bytes).items():
        if key in files:
            stretches += list(_stretches(mappings, least_mappings=1))
    pages = _count(host, stretches, _COUNTED)
    return None if pages is None else pages.distinct * host.page_bytes


class _Pages(NamedTuple):
    """Pages of files in memory: in all mappings, and each once."""

    in_mappings: int
    distinct: int


def _count(host: Host, stretches: Sequence[Sequence[PageRange]], table: bytes) -> _Pages | None:
    """Return the pages in memory; the ranges of a stretch are the same pages of one file."""
    ranges = [pages for stretch in stretches for pages in stretch]
    if sum(pages.length for pages in ranges) > _MOST_PAGES:
        return None
    flags = iter(host.page_flags(ranges) if ranges else ())
    in_mappings = 0
    distinct = 0
    for stretch in stretches:
        counted = []
        for _ in stretch:
            content = next(flags)
            if isinstance(content, OSError):
                return None
            counted.append(content.translate(table))
        in_mappings += sum(pages.count(1) for pages in counted)
        distinct += _union(counted)
    return _Pages(in_mappings, distinct)


def _union(counted: Sequence[bytes]) -> int:
    """Return the number of pages that are 1 in any of the mappings."""
    if len(counted) == 1:
        return counted[0].count(1)
    union = 0
    for pages in counted:
        union |= int.from_bytes(pages, "little")
    return bin(union).count("1")


def _by_file(
    maps: Mapping[int, bytes], left_out: frozenset[tuple[int, int]], page_bytes: int
) -> dict[FileKey, list[_Mapping]]:
    """Return the mappings of each file that is mapped."""
    files: dict[FileKey, list[_Mapping]] = {}
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
    return files


def _stretches(mappings: list[_Mapping], least_mappings: int) -> Iterator[list[PageRange]]:
    """Yield the longest stretches of a file that the same mappings have, as ranges of each."""
    ordered = sorted(mappings)
    bounds = sorted({bound for mapping in ordered for bound in (mapping.begin, mapping.end)})
    covering: list[_Mapping] = []
    position = 0
    for begin, end in zip(bounds, bounds[1:]):
        covering = [mapping for mapping in covering if mapping.end > begin]
        while position < len(ordered) and ordered[position].begin == begin:
            covering.append(ordered[position])
            position += 1
        if len(covering) >= least_mappings:
            yield [mapping.part(begin, end) for mapping in covering]
