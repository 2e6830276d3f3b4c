"""The limit of `reusebench fit`, in bytes: given by the user, or what is free."""

from __future__ import annotations

from typing import NamedTuple

from reusebench.commands.fit_text import mib_text
from reusebench.harness.errors import UserError
from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.system_memory import read_system
from reusebench.targets.chips import CHIPS
from reusebench.targets.target import Target

__all__ = ["FREE", "Limit", "limit_on"]

#: The word for the board's free memory.
FREE = "free"


class Limit(NamedTuple):
    """The limit of the answer; None: there is none."""

    size_bytes: int | None
    #: The file of a control group's limit that decided; None if the board's memory or the user did.
    source: str | None = None


def limit_on(
    target: Target, limit: int | str | None, binds: bool, npu_memory: int | None = None
) -> Limit:
    """Return the limit in bytes; `binds`: contexts run on an NPU, whose memory is limited.

    Raises UserError if it exceeds the board's memory, or if that is needed and not known.
    """
    if target.keeps_ledger and not target.computes:
        if limit == FREE and npu_memory is None:
            raise UserError(
                "--limit free: a virtual board has no memory of its own; say how much with"
                " --npu-memory"
            )
        if limit == FREE:
            return Limit(npu_memory)
        return Limit(int(limit) if limit else None)

    host = target.machine.host
    system = read_system(host)
    total = system.total_bytes
    free = system.available_bytes
    source = None
    if binds and target.chip and not CHIPS[target.chip].iommu and system.cma_total_bytes:
        # Contiguous memory is charged to no control group.
        total = system.cma_total_bytes
        free = system.cma_free_bytes or 0
        group = None
    else:
        group = GroupWatch(host).read()
    if group is not None:
        total = min(total, group.limit_bytes)
        if group.available_bytes < free:
            free = group.available_bytes
            source = group.limit_source
    if limit == FREE:
        return Limit(free, source)
    if limit is not None and int(limit) > total:
        given = mib_text(int(limit))
        where = "this board has"
        if group is not None and total == group.limit_bytes:
            where = f"the control group of its processes is limited by {group.limit_source} to"
        raise UserError(f"--limit {given}: {where} {mib_text(total)}; give less, or `free`")
    return Limit(int(limit) if limit else None)
