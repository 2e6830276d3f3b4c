"""The mechanisms that a plan combines."""

from __future__ import annotations

from reusebench.measured.plan import DUP, NATIVE_OUTPUT, OUTPUT, SHARED_WEIGHT_MEMORY, Plan
from reusebench.reports.results.rows import Row
from reusebench.scenarios.catalogue import LEAN, SCENARIOS

#: Scenarios with several plans: each combines as many mechanisms as the runtime has.
COMBINING = tuple(scenario.name for scenario in SCENARIOS if len(scenario.layouts) > 1)


def combines(row: Row) -> bool:
    """Whether the row's scenario, or one that is equal to it, combines mechanisms."""
    return row.scenario in COMBINING or LEAN in row.equal


def combined_mechanisms(plan: Plan) -> list[str]:
    """Return the mechanisms that the plan combines, each as the scenario that shows it alone."""
    mechanisms = {context.mechanism for context in plan.contexts}
    used = {
        "full_dup": DUP in mechanisms,
        "weight_memory": SHARED_WEIGHT_MEMORY in mechanisms,
        "internal_reuse": bool(plan.internal_memories()),
        "zero_copy_io": any(OUTPUT in context.zero_copy for context in plan.contexts),
        "native_io": any(NATIVE_OUTPUT in context.zero_copy for context in plan.contexts),
        "shared_tensors": bool(plan.io_memories()),
    }
    return [name for name, is_used in used.items() if is_used]


def lacking_mechanisms(plan: Plan) -> list[str]:
    """Return the mechanisms that the plan lacks; one that does the same counts as the same."""
    used = combined_mechanisms(plan)
    ways = {
        "full_dup": ("full_dup", "weight_memory"),
        "internal_reuse": ("internal_reuse",),
        "zero_copy_io": ("zero_copy_io", "native_io"),
    }
    return [name for name, alternatives in ways.items() if not set(alternatives) & set(used)]
