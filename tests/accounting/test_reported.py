"""The account that the runtime itself reports, if there is no ledger."""

from __future__ import annotations

from typing import Any

import pytest

from reusebench.accounting.account import Account, account_of_runtime
from reusebench.accounting.sizes import ContextMemory
from reusebench.measured.plan import (
    DUP,
    INPUT,
    INTERNAL,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Plan,
    Step,
)
from reusebench.measured.runtimes.base import Allocation
from tests.accounting.hand_made import ACCOUNT, PAGE, make_barriers, make_plan

_TOTAL = ACCOUNT["dma_bytes"]


def _account(plan: Plan, **options: Any) -> Account:
    account = account_of_runtime(plan, make_barriers(plan, **options))
    assert account is not None
    return account


def _pages(account: Account, component: str) -> list[float]:
    return [(row.size_bytes(component) or 0) / PAGE for row in account.contexts]


def test_loaded_contexts() -> None:
    """Weights and internal memory are reported; the rest of the total is other."""
    account = _account(make_plan(Context(0, 0), Context(0, 0)))
    row = ContextMemory(
        weights_bytes=8 * PAGE, internal_bytes=3 * PAGE, other_bytes=3 * PAGE, io_bytes=0
    )
    assert account.contexts == (row, row)
    assert account.total_bytes == 2 * _TOTAL
    assert (account.source, account.peak_bytes, account.left_bytes) == ("runtime", None, None)
    assert (account.unattributed_bytes, account.shared, account.findings) == (0, (), ())


def test_input_and_output_that_the_library_copies() -> None:
    """Input and output are the growth of the total by the first inference, for a dup too."""
    account = _account(make_plan(Context(0, 0), Context(0, 0, DUP, 0)), io=2 * PAGE)
    assert _pages(account, "io") == [2, 2]
    assert _pages(account, "other") == [3, 0]


def test_input_and_output_in_place() -> None:
    """The library does not count memory of the application; the adapter does."""
    allocations = [Allocation("input", 5 * PAGE, 1), Allocation("output", PAGE, 2)]
    plan = make_plan(Context(0, 0, zero_copy=(INPUT,)), Context(0, 0))
    account = _account(plan, allocations={Step("first_inference", 0): allocations})
    assert _pages(account, "io") == [6, 0]
    assert account.total_bytes == 2 * _TOTAL + 6 * PAGE


@pytest.mark.parametrize("dups", [1, 3, 11])
def test_a_dups_weights_are_never_summed_again(dups: int) -> None:
    """The total of a dup includes its source's memory: it adds the difference."""
    plan = make_plan(Context(0, 0), *[Context(0, 0, DUP, 0)] * dups)
    dup = {**ACCOUNT, "dma_bytes": _TOTAL + 2 * PAGE}
    account = _account(plan, accounts={index + 1: dup for index in range(dups)})
    assert _pages(account, "weights") == [8, *[0] * dups]
    assert _pages(account, "internal") == [3] * (1 + dups)
    assert _pages(account, "other") == [3, *[2] * dups]
    assert account.total_bytes == _TOTAL + dups * (3 + 2) * PAGE


def test_a_slaves_weights_are_its_masters() -> None:
    """A slave reports its full weights, which are not in its total."""
    plan = make_plan(Context(0, 0), Context(0, 1, SHARED_WEIGHTS, 0))
    account = _account(plan, accounts={1: {**ACCOUNT, "dma_bytes": 5 * PAGE}})
    assert (_pages(account, "weights"), _pages(account, "internal")) == ([8, 0], [3, 3])
    assert _pages(account, "other") == [3, 2]
    assert account.total_bytes == _TOTAL + 5 * PAGE


def test_weights_and_internal_memory_from_outside() -> None:
    """Memory of the application is in no total of the library."""
    allocations = [Allocation("weights", 8 * PAGE, 1), Allocation("internal", 3 * PAGE, 2)]
    plan = make_plan(Context(0, 0, outside=(WEIGHTS, INTERNAL)))
    account = _account(
        plan,
        accounts={0: {**ACCOUNT, "dma_bytes": 3 * PAGE}},
        allocations={Step("context", 0): allocations, Step("first_inference", 0): allocations},
    )
    assert [_pages(account, component) for component in ("weights", "internal", "other")] == [
        [8],
        [3],
        [3],
    ]
    assert account.total_bytes == _TOTAL


def test_internal_memory_of_a_group_counts_once() -> None:
    """Shared internal memory has its allocated size, and belongs to the first context."""
    contexts = [Context(0, 0, internal=core, core=core) for core in (0, 1, 0, 1)]
    plan = make_plan(*contexts, cores=2)
    allocations = {
        Step("first_inference", first): [Allocation("internal", 9 * PAGE, first)]
        for first in (0, 1)
    }
    without = {**ACCOUNT, "dma_bytes": _TOTAL - 3 * PAGE}
    account = _account(plan, accounts=dict.fromkeys(range(4), without), allocations=allocations)
    assert _pages(account, "internal") == [9, 9, 0, 0]
    assert _pages(account, "other") == [3] * 4
    assert account.total_bytes == 4 * _TOTAL - 4 * 3 * PAGE + 2 * 9 * PAGE


def test_dups_in_one_internal_memory() -> None:
    """Neither total has the internal memory, so the dup adds their difference."""
    plan = make_plan(Context(0, 0, internal=0), Context(0, 0, DUP, 0, internal=0))
    source = {**ACCOUNT, "dma_bytes": 11 * PAGE}
    dup = {**ACCOUNT, "dma_bytes": 13 * PAGE}
    allocations = {Step("first_inference", 0): [Allocation("internal", 3 * PAGE, 1)]}
    account = _account(plan, accounts={0: source, 1: dup}, allocations=allocations)
    assert account.total_bytes == (8 + 3 + 3 + 2) * PAGE


def test_a_shared_context_adds_nothing() -> None:
    """A shared context is its source, run from another thread, and reports the same memory."""
    account = _account(make_plan(Context(0, 0), Context(0, 0, SHARED_CONTEXT, 0)), io=PAGE)
    assert account.total_bytes == _TOTAL + PAGE
    assert account.contexts[1].total_bytes == 0


def test_a_total_that_is_less_than_its_parts() -> None:
    """No figure is negative if a library counts otherwise."""
    account = _account(
        make_plan(Context(0, 0)), accounts={0: {**ACCOUNT, "dma_bytes": PAGE}}, io=-5 * PAGE
    )
    assert _pages(account, "other") == _pages(account, "io") == [0]


def test_a_runtime_without_an_account() -> None:
    """One context without a report is enough for None: a sum over the others would be too small."""
    plan = make_plan(Context(0, 0), Context(0, 0))
    assert account_of_runtime(plan, make_barriers(plan, accounts={1: {}})) is None
