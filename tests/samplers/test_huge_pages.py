"""Huge pages, in made files of /proc: few machines have set any aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from reusebench.samplers.host import LocalHost, PageRange
from reusebench.samplers.huge_pages import HugePages, distinct_huge_bytes, huge_mappings

_KB = 1024
_HUGE = 2048
#: Bits in the highest byte of a page's entry: present, of a file, mapped here alone.
_PRESENT, _FILE, _EXCLUSIVE = 0x80, 0x20, 0x01


def _mapping(start: int, inode: int, private_kb: int, shared_kb: int, offset: int = 0) -> str:
    end = start + _HUGE * _KB
    return (
        f"{start:08x}-{end:08x} rw-s {offset:08x} 00:0f {inode}    /anon_hugepage (deleted)\n"
        f"Size:               2048 kB\nRss:                   0 kB\n"
        f"Shared_Hugetlb:     {shared_kb} kB\nPrivate_Hugetlb:    {private_kb} kB\n"
        "VmFlags: rd wr mr mw me ms de ht \n"
    )


def _host(
    folder: Path,
    smaps: Mapping[int, str],
    flags: Mapping[int, Sequence[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> LocalHost:
    """Return a host with these mappings, and the flags of each process's huge pages in order."""
    for pid, content in smaps.items():
        (folder / f"proc/{pid}").mkdir(parents=True)
        (folder / f"proc/{pid}/smaps").write_text(content)
    given = {pid: iter(pages) for pid, pages in flags.items()}

    def page_flags(_: LocalHost, ranges: Sequence[PageRange]) -> list[bytes]:
        return [bytes([next(given[pages.pid])]) * pages.length for pages in ranges]

    monkeypatch.setattr(LocalHost, "page_flags", page_flags)
    return LocalHost(folder)


_SMALL = "00001000-00002000 r--p 00000000 08:01 7    /lib/x.so\nRss: 4 kB\nPrivate_Hugetlb: 0 kB\n"


def test_the_mappings_with_huge_pages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others, and those that are not touched, are not; a process that has gone has none."""
    smaps = _SMALL + _mapping(0x40000000, 5, _HUGE, 0) + _mapping(0x50000000, 6, 0, 0)
    host = _host(tmp_path, {1: smaps}, {}, monkeypatch)
    (line,) = huge_mappings(host, [1])[1].splitlines()
    assert line.startswith(b"40000000-40200000 rw-s 00000000 00:0f 5 ")
    assert huge_mappings(host, [2]) == {2: b""}


@pytest.mark.parametrize(
    ("flags", "pages"),
    [
        # A page of a file, or of shared memory: parent and child have the same.
        ({1: [_PRESENT | _FILE], 2: [_PRESENT | _FILE]}, 1),
        # A page of a private mapping from before the child was forked.
        ({1: [_PRESENT], 2: [_PRESENT]}, 1),
        # One of them has written: each has its own.
        ({1: [_PRESENT | _EXCLUSIVE], 2: [_PRESENT | _EXCLUSIVE]}, 2),
    ],
)
def test_a_page_of_two_processes_counts_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: dict[int, list[int]],
    pages: int,
) -> None:
    """Whether it is the same page is in the flags of the page."""
    smaps = _mapping(0x40000000, 5, 0, _HUGE)
    host = _host(tmp_path, {1: smaps, 2: smaps}, flags, monkeypatch)
    shared = HugePages(0, _HUGE * _KB)
    assert distinct_huge_bytes(host, {1: shared, 2: shared}) == pages * _HUGE * _KB


def test_private_pages_are_not_looked_at(tmp_path: Path) -> None:
    """Nobody else has them: the sums are exact."""
    pages = HugePages.of({"Private_Hugetlb": 4096, "Rss": 8192})
    assert distinct_huge_bytes(LocalHost(tmp_path), {1: pages, 2: pages}) == 8192


def test_a_kernel_without_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared page then counts in each process."""
    smaps = _mapping(0x40000000, 5, 0, _HUGE)
    host = _host(tmp_path, {1: smaps, 2: smaps}, {}, monkeypatch)
    monkeypatch.setattr(LocalHost, "page_flags", lambda _, ranges: [OSError()] * len(ranges))
    shared = HugePages(0, _HUGE * _KB)
    assert distinct_huge_bytes(host, {1: shared, 2: shared}) == 2 * _HUGE * _KB
