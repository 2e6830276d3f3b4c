"""Words on memory that no page of a process shows."""

from __future__ import annotations

from collections.abc import Iterator

from reusebench.measured.messages import Message

__all__ = ["LEAST_BYTES", "unseen_memory"]

_MIB = 2**20
#: Memory below which it does not show in a comparison.
LEAST_BYTES = 256 << 10
#: Pipes and sockets from which they are told of. A pipe holds 64 KiB unless it is enlarged, a
#: socket to the same machine 208 KiB.
_MANY = 16


def unseen_memory(
    hugetlb_bytes: int, held_bytes: int, dmabuf_bytes: int, uncounted: int
) -> Iterator[Message]:
    """Yield a message for each kind that is there; `uncounted` is a number of descriptors."""
    if hugetlb_bytes:
        yield Message("hugetlb_held", {"mib": f"{hugetlb_bytes / _MIB:.1f}"})
    if held_bytes >= LEAST_BYTES:
        yield Message("files_held", {"mib": f"{held_bytes / _MIB:.1f}"})
    if dmabuf_bytes:
        yield Message("dmabufs_held", {"mib": f"{dmabuf_bytes / _MIB:.1f}"})
    if uncounted >= _MANY:
        yield Message("memory_uncounted", {"count": uncounted})
