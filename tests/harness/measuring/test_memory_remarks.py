"""Remarks on the readings of a process, apart from its figures."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from reusebench.harness.measuring.memory_remarks import memory_remarks
from reusebench.targets.barriers import BarrierReading, StepData
from tests.helpers.support import barrier

_MIB = 2**20


def _barriers(readings: Sequence[dict[str, int]]) -> list[BarrierReading]:
    """Return barriers with these figures in MiB, and counts as they are."""
    barriers = []
    for number, figures in enumerate(readings):
        process: dict[str, int | None] = {}
        for name, figure in figures.items():
            process[name] = figure if name.endswith("_count") else figure * _MIB
        barriers.append(barrier("context", number, 0, StepData(), False, **process))
    return barriers


def _reading(distinct: int, pss: int, anon: int = 10) -> dict[str, int]:
    return {"distinct_bytes": distinct, "pss_bytes": pss, "pss_anon_bytes": anon}


@pytest.mark.parametrize(
    ("readings", "moved"),
    [
        # Nobody else maps anything.
        ([_reading(20, 20), _reading(50, 50, 40)], None),
        # A process that was there before has half of what is mapped anew, too.
        ([_reading(20, 15), _reading(40, 25)], None),
        # Files are given back, and with them what others had of them.
        ([_reading(40, 25), _reading(20, 15)], None),
        # Another process began to map 20 MiB of the same, and ended.
        ([_reading(40, 40), _reading(40, 30), _reading(40, 40)], "10.0"),
        # It began while this process mapped 4 MiB, of which it can have taken 4 at most.
        ([_reading(40, 40), _reading(44, 32)], "8.0"),
        # It had been there at the baseline, and ended.
        ([_reading(40, 30), _reading(60, 60, 30)], "10.0"),
        # Less than a comparison can show.
        ([_reading(400, 400), _reading(400, 397)], None),
    ],
)
def test_a_change_of_sharers_is_told_from_a_change_of_memory(
    readings: list[dict[str, int]], moved: str | None
) -> None:
    """Mappings of the process itself move the part of the others by less than their size."""
    remarks = {remark.code: remark.values for remark in memory_remarks(_barriers(readings))}
    assert remarks == ({} if moved is None else {"sharers_changed": {"mib": moved}})


def test_children_and_huge_pages_are_told() -> None:
    """Each kind has its largest figure, of any barrier."""
    plain = _reading(20, 20)
    children = {"child_count": 2, "child_pss_bytes": 8, "unread_child_count": 1}
    barriers = _barriers([plain, {**plain, **children}, {**plain, "hugetlb_bytes": 64}])
    remarks = {remark.code: remark.values for remark in memory_remarks(barriers)}
    assert remarks == {
        "children_counted": {"count": 2, "mib": "8.0"},
        "children_unread": {"count": 1},
        "hugetlb_held": {"mib": "64.0"},
    }
    assert list(memory_remarks([])) == []


def test_what_no_page_shows_is_told() -> None:
    """Files held, dma-bufs and many descriptors are; a small file and few descriptors are not."""
    plain = _reading(20, 20)
    held = {"held_file_bytes": 64, "dmabuf_bytes": 8, "uncounted_fd_count": 16}
    barriers = _barriers([plain, {**plain, **held}, plain])
    assert {remark.code: remark.values for remark in memory_remarks(barriers)} == {
        "files_held": {"mib": "64.0"},
        "dmabufs_held": {"mib": "8.0"},
        "memory_uncounted": {"count": 16},
    }
    (little,) = _barriers([{**plain, "uncounted_fd_count": 15}])
    process = msgspec.structs.replace(little.process, held_file_bytes=4096)
    little = msgspec.structs.replace(little, process=process)
    assert list(memory_remarks([little])) == []
