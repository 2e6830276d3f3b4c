"""The account of one repeat: NPU memory by component and context, who shares what, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from accounting.attribution import COMPONENTS, Part, application_buffers, attribute
from accounting.ledger import Ledger
from accounting.reported import reported_rows
from accounting.sharing import Finding, find_wrong_reads, shared_parts
from scenarios.plan import Plan

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
        "application_buffers": _of_application(barriers, ledger, steady["at_ns"]),
    }


def account_of_runtime(plan: Plan, barriers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the account by the runtime's own words, where there is no ledger; None where it gives none."""
    rows = reported_rows(plan, barriers) if _steady(barriers) else None
    if rows is None:
        return None
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


def _of_application(barriers: Sequence[dict[str, Any]], ledger: Ledger, at_ns: int) -> list[dict[str, Any]]:
    """Return, by kind, how many buffers of the application live at that time, and how many of them inferences name.

    The ledger notes each kind of submit once; every inference repeats them all.
    """
    named = {read.buffer for submit in ledger.submits if submit.at_ns <= at_ns for read in submit.reads}
    return [
        {
            "kind": kind,
            "count": len(buffers),
            "bytes": sum(buffer.size_bytes for buffer in buffers),
            "read": sum(buffer.number in named for buffer in buffers),
        }
        for kind, buffers in application_buffers(barriers, ledger, at_ns).items()
    ]


def _row(parts: Sequence[Part], context: int) -> dict[str, int | None]:
    sizes = dict.fromkeys(COMPONENTS, 0)
    for part in parts:
        if part.context == context:
            sizes[part.component] += part.size_bytes
    return {f"{component}_bytes": size for component, size in sizes.items()}
