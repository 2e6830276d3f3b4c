"""The account of each context by the runtime's own words, where there is no ledger.

What the totals hold was seen on librknnrt 1.5.2 and 1.6.0: memory that the application allocated is in none; that of a
dup has the weights and register commands of its source besides its own, so the difference of the two totals is what it
adds; that of a slave has no weights; input and output that the library copies come with the first inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accounting.attribution import COMPONENTS
from scenarios.plan import DUP, LOAD, SHARED_CONTEXT, Context, Plan

__all__ = ["reported_rows"]

_Account = dict[str, int]


def reported_rows(plan: Plan, barriers: Sequence[dict[str, Any]]) -> list[dict[str, int | None]] | None:
    """Return a row for each context; None where a context has no words.

    Register commands and the task list are not told apart: they stand under other, a dup's task list not at all.
    """
    made, ran = ({each["context"]: each["data"] for each in barriers if each["phase"] == phase} for phase in _PHASES)
    if not all(data["account"] for phase in (made, ran) for data in phase.values()):
        return None
    return [_row(plan.contexts[context], context, made, ran) for context in range(len(plan.contexts))]


_PHASES = ("context", "first_inference")


def _row(
    spec: Context, context: int, made: dict[int, dict[str, Any]], ran: dict[int, dict[str, Any]]
) -> dict[str, int | None]:
    row: dict[str, int | None] = dict.fromkeys((f"{component}_bytes" for component in COMPONENTS), None)
    if spec.mechanism == SHARED_CONTEXT:  # it is its source, and says what its source says
        return {**row, "weights_bytes": 0, "internal_bytes": 0, "io_bytes": 0, "other_bytes": 0}
    account: _Account = made[context]["account"]
    total, outside = account["dma_bytes"], _outside(ran[context]["allocations"])
    inside = _inside(spec, account, outside)
    source = None if spec.source is None or spec.mechanism != DUP else made[spec.source]["account"]["dma_bytes"]
    rest = total - sum(inside.values()) if source is None else total - source
    copied = ran[context]["account"]["dma_bytes"] - total
    row["weights_bytes"] = inside["weights"] + outside.get("weights", 0)
    row["internal_bytes"] = inside["internal"] + outside.get("internal", 0)
    row["io_bytes"] = max(0, copied) + outside.get("input", 0) + outside.get("output", 0)
    row["other_bytes"] = max(0, rest)
    return row


def _inside(spec: Context, account: _Account, outside: _Account) -> _Account:
    """Return what the library itself allocated for this context: its total has that."""
    own_weights = spec.mechanism == LOAD and "weights" not in outside
    own_internal = spec.internal is None and "internal" not in outside
    return {
        "weights": account["weights_bytes"] if own_weights else 0,
        "internal": account["internal_bytes"] if own_internal else 0,
    }


def _outside(allocations: Sequence[dict[str, Any]]) -> _Account:
    """Return the bytes that the adapter allocated, by kind."""
    sizes: _Account = {}
    for each in allocations:
        sizes[each["kind"]] = sizes.get(each["kind"], 0) + each["asked_bytes"]
    return sizes
