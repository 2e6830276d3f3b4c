"""The charge of a control group during a measurement, for scenarios and recorded programs.

A container has a limit on all that the kernel charges to its group: also page cache, files of tmpfs
and memory of the kernel, which no figure of a process has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import GroupMemory

__all__ = ["GroupCharge", "charge_of", "charge_words"]

_MIB = 2**20


class GroupCharge(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a control group with a limit, during one repeat."""

    #: The reading with the most that `docker stats` counts.
    most: GroupMemory
    #: The count of `docker stats` at the first reading: before the program, or before the first
    #: context.
    first_counted_bytes: int


def charge_of(readings: Iterable[Optional[GroupMemory]]) -> GroupCharge | None:
    """Return the charge over these readings, in order; None if no group has a limit."""
    known = [reading for reading in readings if reading]
    if not known:
        return None
    most = max(known, key=lambda reading: reading.counted_bytes)
    return GroupCharge(most=most, first_counted_bytes=known[0].counted_bytes)


def charge_words(charges: Iterable[Optional[GroupCharge]]) -> Message | None:
    """Return the largest of these charges in words; None if no group has a limit."""
    known = [charge for charge in charges if charge]
    if not known:
        return None
    charge = max(known, key=lambda charge: charge.most.counted_bytes)
    most = charge.most
    return Message(
        "group_charged",
        {
            "counted": _mib(most.counted_bytes),
            "more": _mib(most.counted_bytes - charge.first_counted_bytes),
            "limit": _mib(most.limit_bytes),
            "source": most.limit_source,
            "charged": _mib(most.charged_bytes),
            "anonymous": _mib(most.anon_bytes),
            "files": _mib(most.file_bytes),
            "tmpfs": _mib(most.shmem_bytes),
            "kernel": _mib(most.kernel_bytes),
        },
    )


def _mib(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else f"{size_bytes / _MIB:.1f}"
