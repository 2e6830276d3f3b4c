"""The evidence for judges: rows and accounts of a group, or CannotBeJudged if they are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import COMPONENTS, ContextMemory
from reusebench.measured.plan import LOAD
from reusebench.reports.base.statistics import Figure
from reusebench.reports.claims.judgement import CannotBeJudged
from reusebench.reports.results.rows import Group, Row
from reusebench.storage.savings import Saving


def any_row(group: Group, scenario: str) -> Row:
    """Return a row of a scenario, a measured one if it ran with several sets of models."""
    rows = group.named(scenario)
    if not rows:
        raise CannotBeJudged("not_measured", scenario=scenario)
    return next((row for row in rows if row.measured), rows[0])


def measured_row(group: Group, scenario: str) -> Row:
    """Return the row of a scenario that was measured."""
    row = any_row(group, scenario)
    if not row.measured:
        raise CannotBeJudged("outcome", scenario=scenario, outcome=row.outcome)
    return row


def first_measured_row(group: Group, scenarios: Sequence[str]) -> Row:
    """Return the row of the first scenario that was measured."""
    for scenario in scenarios:
        for row in group.named(scenario):
            if row.measured:
                return row
    return measured_row(group, scenarios[0])


def compared_rows(group: Group, scenario: str) -> tuple[Row, Row]:
    """Return the row of the scenario, and the row of its baseline with the same models."""
    row = measured_row(group, scenario)
    if row.baseline is None or not row.baseline.measured:
        raise CannotBeJudged("no_baseline", scenario=scenario)
    return row, row.baseline


def check_memory_sufficed(saving: Saving, row: Row) -> None:
    """Raise CannotBeJudged if memory was short for the row or its baseline.

    A saving of NPU memory is right all the same.
    """
    if row.is_compared_with_short and not saving.is_npu:
        raise CannotBeJudged("short", scenario=row.scenario)


def ledger_accounts(row: Row) -> list[Account]:
    """Return the accounts of the repeats, which are all from a ledger."""
    if not row.accounts or any(account.source != "ledger" for account in row.accounts):
        raise CannotBeJudged("no_ledger")
    return row.accounts


def context_sizes(row: Row, component: str) -> list[list[int]]:
    """Return, for each repeat, the bytes that each context has of a component."""
    if not row.accounts:
        raise CannotBeJudged("no_account")

    repeats = []
    for account in row.accounts:
        sizes = []
        for context in account.contexts:
            size = context.size_bytes(component)
            if size is None:
                raise CannotBeJudged("not_told_apart")
            sizes.append(size)
        repeats.append(sizes)
    return repeats


def component_sizes(row: Row, mechanism: str) -> dict[str, Figure]:
    """Return the bytes of each component in all contexts made by the mechanism, by the ledger."""
    accounts = ledger_accounts(row)
    contexts = row.info.plan.contexts
    indices = [index for index, context in enumerate(contexts) if context.mechanism == mechanism]
    if not indices:
        raise CannotBeJudged("not_measured", scenario=row.scenario)

    sizes = {}
    for name in COMPONENTS:
        sums = []
        for account in accounts:
            # A ledger knows every component; one of an earlier version has fewer of them.
            sums.append(sum(account.contexts[index].size_bytes(name) or 0 for index in indices))
        figure = Figure.of(sums)
        if figure:
            sizes[name] = figure
    return sizes


def loaded_sizes(row: Row, pattern: str) -> Iterator[dict[str, float]]:
    """Yield the sizes of each context, in each repeat, that has all its memory by itself, of models
    with such a name.

    They are in bytes, those of buffers in whole pages; `rest_kib` and `total_mib` are rounded as
    eval_memory prints them. A scenario with the figures of another one yields none.
    """
    accounts = [account for account in row.accounts if account.source == "ledger"]
    if not row.has_planned_contexts or row.info.measured_as or not accounts:
        return
    plan = row.info.plan
    for index, context in enumerate(plan.contexts):
        is_alone = context.mechanism == LOAD and context.internal is None and not context.outside
        if is_alone and re.fullmatch(pattern, plan.models[context.model].name):
            for account in accounts:
                memory = account.contexts[index] if index < len(account.contexts) else None
                if memory is not None and memory.has_parts_of_commands:
                    yield _buffer_sizes(memory)


def _buffer_sizes(memory: ContextMemory) -> dict[str, float]:
    sizes = {name: memory.size_bytes(name) or 0 for name in COMPONENTS}
    commands = sizes["register_commands"] + sizes["task_list_copy"] + sizes["padding"]
    rest = sizes["task_list"] + sizes["other"] + commands
    total = sizes["weights"] + sizes["internal"] + rest
    return {
        **sizes,
        "weights_buffer": sizes["weights"] + sizes["other"] + commands,
        "rest_kib": round(rest / 1024, 2),
        "total_mib": round(total / 2**20, 2),
    }
