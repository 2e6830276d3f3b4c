"""Plans, barriers and ledgers written by hand: one barrier every 100 ns, so that a time belongs to
a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reusebench.accounting.ledger import Buffer, Ledger, Read, Submit
from reusebench.accounting.ledger import Mapping as Addresses
from reusebench.accounting.rocket import WEIGHT_REGISTER
from reusebench.measured.plan import Context, Model, Plan, Step
from reusebench.measured.runtimes.base import Allocation
from reusebench.targets.barriers import BarrierReading, StepData
from tests.helpers.support import barrier

PAGE = 4096

#: Report of the library for every context: weights, internal memory, and the total with register
#: commands and task list.
ACCOUNT = {"weights_bytes": 8 * PAGE, "internal_bytes": 3 * PAGE, "dma_bytes": 14 * PAGE}

#: The driver's flag of a buffer that the driver itself reads: a task list.
KERNEL_MAPPING = 8

_STEP_NS = 100


def make_plan(*contexts: Context, cores: int = 1, models: int = 2) -> Plan:
    """Return a plan of these contexts."""
    names = [f"model-{index}" for index in range(models)]
    return Plan(
        "mine",
        None,
        "rknn",
        tuple(Model(name, name, name) for name in names),
        contexts,
        cores,
        rounds=1,
    )


def make_barriers(
    plan: Plan,
    accounts: Mapping[int, dict[str, int]] | None = None,
    allocations: Mapping[Step, Sequence[Allocation]] | None = None,
    io: int = 0,
) -> list[BarrierReading]:
    """Return the barriers of a whole walk; `accounts` by context, `allocations` by the step that
    has them.

    `io` is what the library's totals grow by with the first inference.
    """
    barriers: list[BarrierReading] = []
    for step in plan.steps():
        account: dict[str, int] = {}
        if step.phase in ("context", "first_inference"):
            account = (accounts or {}).get(step.context or 0, ACCOUNT)
        if account and step.phase == "first_inference":
            account = {**account, "dma_bytes": account["dma_bytes"] + io}
        data = StepData(account=account, allocations=tuple((allocations or {}).get(step, ())))
        barriers.append(barrier(step.phase, step.context, (len(barriers) + 1) * _STEP_NS, data))
        if step.phase == "steady":
            barriers.append(barrier("trimmed", None, (len(barriers) + 1) * _STEP_NS))
    return barriers


def steady_of(barriers: Sequence[BarrierReading]) -> int:
    """Return the position of the steady barrier."""
    return next(position for position, reached in enumerate(barriers) if reached.phase == "steady")


def during(barriers: Sequence[BarrierReading], phase: str, context: int | None = None) -> int:
    """Return a time within that step."""
    times_ns = (
        reached.at_ns
        for reached in barriers
        if (reached.phase, reached.context) == (phase, context)
    )
    return next(times_ns) - _STEP_NS // 2


def make_buffer(number: int, size: int, born_ns: int, **fields: Any) -> Buffer:
    """Return a buffer of `size_bytes` in whole pages; the requested size is the size itself."""
    whole = -(-size // PAGE) * PAGE
    common: dict[str, Any] = {
        "asked_bytes": size,
        "size_bytes": whole,
        "flags": 3,
        "source": "rknpu",
    }
    return Buffer(number=number, born_ns=born_ns, **{**common, **fields})


def make_ledger(
    *buffers: Buffer, submits: Sequence[Submit] = (), mappings: Sequence[Addresses] = ()
) -> Ledger:
    """Return the ledger of these buffers."""
    return Ledger(
        {buffer.number: buffer for buffer in buffers},
        tuple(submits),
        "virtual",
        mappings=tuple(mappings),
    )


def make_submit(task_buffer: int, registers: int, *reads: Read, at_ns: int = 0) -> Submit:
    """Return a submit of that task list, with its register commands in that buffer."""
    return Submit(at_ns, task_buffer, (registers,), reads)


def weights_in(buffer: int, state: str = "live", count: int = 5) -> Read:
    """Return the reads of weights from that buffer."""
    return Read(WEIGHT_REGISTER, buffer, state, count)


def tensors_in(buffer: int, state: str = "live", count: int = 7) -> Read:
    """Return the reads of tensors from that buffer."""
    return Read("0x1070", buffer, state, count)
