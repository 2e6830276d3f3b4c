"""Remarks on a process's memory: other processes that share it, children, what no page shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reusebench.measured.messages import Message
from reusebench.storage.unseen_memory import LEAST_BYTES, unseen_memory
from reusebench.targets.barriers import BarrierReading

__all__ = ["memory_remarks"]

_MIB = 2**20
#: Share of PSS below which a change of sharers does not show in a comparison.
_LEAST_SHARE = 0.01


def memory_remarks(barriers: Sequence[BarrierReading]) -> Iterator[Message]:
    """Yield the remarks on one measured process; none if its memory is plain."""
    if not barriers:
        return
    most_pss_bytes = max(barrier.process.pss_bytes for barrier in barriers)
    moved_bytes = _moved_by_sharers(barriers)
    if moved_bytes >= max(LEAST_BYTES, _LEAST_SHARE * most_pss_bytes):
        yield Message("sharers_changed", {"mib": f"{moved_bytes / _MIB:.1f}"})

    largest = max(barriers, key=lambda barrier: barrier.process.child_pss_bytes).process
    if largest.child_count:
        mib = f"{largest.child_pss_bytes / _MIB:.1f}"
        yield Message("children_counted", {"count": largest.child_count, "mib": mib})
    unread = max(barrier.process.unread_child_count for barrier in barriers)
    if unread:
        yield Message("children_unread", {"count": unread})
    processes = [barrier.process for barrier in barriers]
    yield from unseen_memory(
        hugetlb_bytes=max(process.hugetlb_bytes for process in processes),
        held_bytes=max(process.held_file_bytes or 0 for process in processes),
        dmabuf_bytes=max(process.dmabuf_bytes or 0 for process in processes),
        uncounted=max(process.uncounted_fd_count for process in processes),
    )


def _moved_by_sharers(barriers: Sequence[BarrierReading]) -> int:
    """Return by how much PSS moved since other processes began or ceased to share its pages.

    PSS leaves a part of the shared pages to the other processes. If the process itself maps more of
    a file, that part grows by less than what it maps. Any other change of it is theirs.
    """
    moved = lowest = highest = 0
    for before, after in zip(barriers, barriers[1:]):
        left_before = _left_to_others(before)
        left_after = _left_to_others(after)
        if left_before is None or left_after is None:
            continue
        growth = left_after - left_before
        mapped = _file_bytes(after) - _file_bytes(before)
        moved += growth - min(max(growth, min(0, mapped)), max(0, mapped))
        lowest = min(lowest, moved)
        highest = max(highest, moved)
    return highest - lowest


def _left_to_others(barrier: BarrierReading) -> int | None:
    distinct_bytes = barrier.process.distinct_bytes
    return None if distinct_bytes is None else distinct_bytes - barrier.process.pss_bytes


def _file_bytes(barrier: BarrierReading) -> int:
    """Return the pages of files and shared memory, each once."""
    process = barrier.process
    return (process.distinct_bytes or 0) - (process.pss_anon_bytes or 0)
