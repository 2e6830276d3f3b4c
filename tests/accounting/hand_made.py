"""Plans, barriers and ledgers written by hand: one barrier every 100 ns, so that a time says which step it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accounting.attribution import WEIGHT_REGISTER
from accounting.ledger import Buffer, Ledger, Read, Submit
from scenarios.plan import Context, Model, Plan, Step

PAGE = 4096

#: What the library says of every context: weights, internal memory, and both with register commands and task list.
ACCOUNT = {"weights_bytes": 8 * PAGE, "internal_bytes": 3 * PAGE, "dma_bytes": 14 * PAGE}

#: The driver's flag of a buffer that the driver itself reads: a task list.
KERNEL_MAPPING = 8

_STEP_NS = 100


def make_plan(*contexts: Context, cores: int = 1, models: int = 2) -> Plan:
    """Return a plan of these contexts."""
    names = [f"model-{index}" for index in range(models)]
    return Plan("mine", None, "rknn", tuple(Model(name, name, name) for name in names), contexts, cores, rounds=1)


def make_barriers(
    plan: Plan,
    accounts: dict[int, dict[str, int]] | None = None,
    allocations: dict[Step, list[dict[str, Any]]] | None = None,
    io: int = 0,
) -> list[dict[str, Any]]:
    """Return the records of a whole walk; `accounts` by context, `allocations` by the step that tells them.

    `io` is what the library's totals grow by with the first inference.
    """
    records: list[dict[str, Any]] = []
    for step in plan.steps():
        data: dict[str, Any] = {"allocations": (allocations or {}).get(step, [])}
        if step.phase in ("context", "first_inference"):
            account = (accounts or {}).get(step.context or 0, ACCOUNT)
            grown = account and step.phase == "first_inference"
            data["account"] = {**account, "dma_bytes": account["dma_bytes"] + io} if grown else account
        records.append(_record(step, len(records), data))
        if step.phase == "steady":
            records.append(_record(Step("trimmed"), len(records), {}))
    return records


def _record(step: Step, position: int, data: dict[str, Any]) -> dict[str, Any]:
    return {"phase": step.phase, "context": step.context, "at_ns": (position + 1) * _STEP_NS, "data": data}


def during(barriers: Sequence[dict[str, Any]], phase: str, context: int | None = None) -> int:
    """Return a time at which that step was under way."""
    times = (each["at_ns"] for each in barriers if (each["phase"], each["context"]) == (phase, context))
    return int(next(times)) - _STEP_NS // 2


def make_buffer(number: int, size: int, born_ns: int, **fields: Any) -> Buffer:
    """Return a buffer of so many bytes, in whole pages; asked for was the size itself."""
    whole = -(-size // PAGE) * PAGE
    common: dict[str, Any] = {"asked_bytes": size, "size_bytes": whole, "flags": 3, "source": "rknpu"}
    return Buffer(number=number, born_ns=born_ns, **{**common, **fields})


def make_ledger(*buffers: Buffer, submits: Sequence[Submit] = ()) -> Ledger:
    """Return the ledger of these buffers."""
    return Ledger({buffer.number: buffer for buffer in buffers}, tuple(submits), "virtual")


def make_submit(task_buffer: int, registers: int, *reads: Read, at_ns: int = 0) -> Submit:
    """Return a run of that task list, with its register commands in that buffer."""
    return Submit(at_ns, task_buffer, (registers,), reads)


def weights_in(buffer: int, state: str = "live", count: int = 5) -> Read:
    """Return the reads of weights from that buffer."""
    return Read(WEIGHT_REGISTER, buffer, state, count)


def tensors_in(buffer: int, state: str = "live", count: int = 7) -> Read:
    """Return the reads of tensors from that buffer."""
    return Read("0x1070", buffer, state, count)
