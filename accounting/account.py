"""The account of one repeat: NPU memory by component and context, who shares what, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from accounting.attribution import COMPONENTS, Part, attribute
from accounting.ledger import Ledger
from accounting.sharing import Finding, find_wrong_reads, shared_parts
from scenarios.plan import DUP, LOAD, SHARED_CONTEXT, Context, Plan

__all__ = ["account_of_ledger", "account_of_runtime"]


def account_of_ledger(plan: Plan, barriers: Sequence[dict[str, Any]], ledger: Ledger) -> dict[str, Any] | None:
    """Return the account by the ledger, exact to the byte; None where the process did not get through the plan.

    The form is that of `npu` in storage/schema/result-1.json.
    """
    steady = _steady(barriers)
    if steady is None:
        return None
    parts = attribute(plan, barriers, ledger, steady["at_ns"])
    left = ledger.live_bytes(barriers[-1]["at_ns"]) if _all_destroyed(plan, barriers) else None
    findings = find_wrong_reads(plan, barriers, ledger)
    if left:
        findings.append(Finding("leak", None, None, None, left))
    return {
        "source": "ledger",
        "contexts": [_row(parts, context) for context in range(len(plan.contexts))],
        "unattributed_bytes": sum(part.size_bytes for part in parts if part.context is None),
        "total_bytes": ledger.live_bytes(steady["at_ns"]),
        "peak_bytes": ledger.peak_bytes(),
        "left_bytes": left,
        "shared": [{**asdict(each), "readers": list(each.readers)} for each in shared_parts(parts, barriers, ledger)],
        "findings": [asdict(each) for each in findings],
    }


def account_of_runtime(plan: Plan, barriers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the account by the runtime's own words, where there is no ledger; None where it gives none.

    It tells weights and internal memory apart; the rest of its total stands under other. Input and output tensors are
    not in it, so it is less than what the process holds.
    """
    if _steady(barriers) is None:
        return None
    accounts = {each["context"]: each["data"]["account"] for each in barriers if each["phase"] == "first_inference"}
    if not all(accounts.values()):
        return None
    rows = [_reported_row(plan, context, accounts) for context in range(len(plan.contexts))]
    return {
        "source": "runtime",
        "contexts": rows,
        "unattributed_bytes": 0,
        "total_bytes": sum(size or 0 for row in rows for size in row.values()),
        "peak_bytes": None,
        "left_bytes": None,
        "shared": [],
        "findings": [],
    }


def _steady(barriers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return next((barrier for barrier in barriers if barrier["phase"] == "steady"), None)


def _all_destroyed(plan: Plan, barriers: Sequence[dict[str, Any]]) -> bool:
    destroyed = [barrier for barrier in barriers if barrier["phase"] == "destroy"]
    return len(destroyed) == len(plan.contexts)


def _row(parts: Sequence[Part], context: int) -> dict[str, int | None]:
    sizes = dict.fromkeys(COMPONENTS, 0)
    for part in parts:
        if part.context == context:
            sizes[part.component] += part.size_bytes
    return {f"{component}_bytes": size for component, size in sizes.items()}


def _reported_row(plan: Plan, context: int, accounts: dict[int, dict[str, int]]) -> dict[str, int | None]:
    spec, account = plan.contexts[context], accounts[context]
    borrows_internal = spec.internal is not None and plan.internal_memories()[spec.internal][0] != context
    row: dict[str, int | None] = dict.fromkeys((f"{component}_bytes" for component in COMPONENTS), None)
    if spec.mechanism == SHARED_CONTEXT:  # its account is that of its source, which it is
        return {**row, "weights_bytes": 0, "internal_bytes": 0, "other_bytes": 0}
    row["weights_bytes"] = account["weights_bytes"] if spec.mechanism == LOAD else 0
    row["internal_bytes"] = 0 if borrows_internal else account["internal_bytes"]
    row["other_bytes"] = max(0, _reported_rest(spec, account, accounts))
    return row


def _reported_rest(spec: Context, account: dict[str, int], accounts: dict[int, dict[str, int]]) -> int:
    """Return what the total leaves: register commands and, but for a dup, the task list.

    What the totals hold was seen on librknnrt 1.6.0: that of a dup has the weights and register commands of its source
    besides its own, so the difference of the two totals is what it adds; that of a slave has no weights.
    """
    if spec.mechanism == DUP and spec.source is not None:
        return account["dma_bytes"] - accounts[spec.source]["dma_bytes"]
    weights = account["weights_bytes"] if spec.mechanism == LOAD else 0
    return account["dma_bytes"] - account["internal_bytes"] - weights
