"""The evidence for judges: rows and accounts of a group, or CannotBeJudged if they are missing."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.statistics import Figure
from reusebench.reports.claims.judgement import CannotBeJudged
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import Saving


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
