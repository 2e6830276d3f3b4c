"""The account of one repeat by a ledger."""

from __future__ import annotations

import random

import msgspec
import pytest

from reusebench.accounting.account import (
    Account,
    ApplicationBuffers,
    account_of_ledger,
    account_of_runtime,
)
from reusebench.accounting.ledger import Buffer, Ledger, Read, Submit
from reusebench.accounting.sharing import Finding, Shared
from reusebench.accounting.sizes import COMPONENTS, ContextMemory
from reusebench.measured.plan import DUP, Context, Plan, Step
from reusebench.measured.runtimes.base import Allocation
from reusebench.scenarios.catalogue import SCENARIOS, suits
from reusebench.targets.barriers import BarrierReading
from tests.accounting.hand_made import (
    KERNEL_MAPPING,
    PAGE,
    during,
    make_barriers,
    make_buffer,
    make_ledger,
    make_plan,
    make_submit,
    steady_of,
    tensors_in,
    weights_in,
)
from tests.helpers.support import make_plan as make_scenario

_DUP = make_plan(Context(0, 0), Context(0, 0, DUP, 0))


def _row(**pages: int) -> ContextMemory:
    """Return the memory of a context of Rockchip's library, which has biases with the weights."""
    sizes = {f"{component}_bytes": pages.get(component, 0) * PAGE for component in COMPONENTS}
    return ContextMemory(**{**sizes, "biases_bytes": None})


def _dup_ledger(barriers: list[BarrierReading]) -> Ledger:
    """Return the ledger of a context and its dup, as librknnrt makes it: all given back in the
    end.
    """
    buffers: list[Buffer] = []
    for context, size in ((0, 10 * PAGE), (1, 2 * PAGE)):
        made = during(barriers, "context", context)
        ran = during(barriers, "first_inference", context)
        gone = {"died_ns": during(barriers, "destroy", context)}
        first = 10 * context
        buffers += [
            make_buffer(first + 1, 100, made, flags=KERNEL_MAPPING, **gone),
            make_buffer(first + 2, size, made, **gone),
            make_buffer(first + 3, 3 * PAGE, made, **gone),
            make_buffer(first + 4, 5000, ran, **gone),
        ]
    submits = [
        make_submit(1, 2, weights_in(2), tensors_in(3)),
        make_submit(11, 12, weights_in(2), tensors_in(13)),
    ]
    return make_ledger(*buffers, submits=submits)


def _account(plan: Plan, barriers: list[BarrierReading], ledger: Ledger) -> Account:
    account = account_of_ledger(plan, barriers, ledger)
    assert account is not None
    return account


def test_a_dup_to_the_byte() -> None:
    """Every buffer is in its context's row, shared weights once; the rows add up to the total."""
    barriers = make_barriers(_DUP)
    first = _row(weights=8, internal=3, register_commands=2, task_list=1, io=2)
    copy_bytes = 128
    assert _account(_DUP, barriers, _dup_ledger(barriers)) == Account(
        source="ledger",
        contexts=(
            msgspec.structs.replace(
                first,
                register_commands_bytes=2 * PAGE - copy_bytes,
                task_list_copy_bytes=copy_bytes,
            ),
            _row(internal=3, register_commands=2, task_list=1, io=2),
        ),
        unattributed_bytes=0,
        total_bytes=24 * PAGE,
        peak_bytes=24 * PAGE,
        left_bytes=0,
        shared=(Shared(2, "weights", 8 * PAGE, owner=0, readers=(1,)),),
        findings=(),
        application_buffers=(),
    )


def test_buffers_of_the_application_are_counted_with_what_inferences_name() -> None:
    """Buffers are counted by kind: one of the inputs and no output is read.

    A third input died early.
    """
    plan = make_plan(Context(0, 0))
    step = Step("first_inference", 0)
    kinds = {11: "input", 12: "input", 13: "input", 14: "output"}
    barriers = make_barriers(
        plan, allocations={step: [Allocation(kind, 0, inode) for inode, kind in kinds.items()]}
    )
    made = during(barriers, "first_inference", 0)
    ledger = make_ledger(
        make_buffer(9, PAGE, during(barriers, "context", 0), flags=KERNEL_MAPPING),
        *(make_buffer(number, number * PAGE, made, inode=10 + number) for number in (1, 2, 4)),
        make_buffer(3, PAGE, made, inode=13, died_ns=made + 1),
        submits=[
            make_submit(9, 9, tensors_in(1), at_ns=made),
            make_submit(9, 9, tensors_in(9), at_ns=made),
            make_submit(9, 9, tensors_in(2), at_ns=barriers[-1].at_ns),
        ],
    )
    assert _account(plan, barriers, ledger).application_buffers == (
        ApplicationBuffers("input", 2, 3 * PAGE, read=1),
        ApplicationBuffers("output", 1, 4 * PAGE, read=0),
    )


def test_what_belongs_to_no_context_and_what_was_there_before() -> None:
    """Memory of no context is in the total only; a short-lived buffer of an init is in the peak."""
    barriers = make_barriers(_DUP)
    made = during(barriers, "context", 0)
    imported = make_buffer(1, 5 * PAGE, during(barriers, "imported"), died_ns=10**9)
    ledger = make_ledger(imported, make_buffer(2, 9 * PAGE, made, died_ns=made + 1))
    account = _account(_DUP, barriers, ledger)
    assert account.contexts == (_row(), _row())
    assert (account.unattributed_bytes, account.total_bytes, account.peak_bytes) == (
        5 * PAGE,
        5 * PAGE,
        14 * PAGE,
    )


def test_what_is_left_is_a_leak() -> None:
    """Bytes that remain after all contexts were destroyed are a finding."""
    barriers = make_barriers(_DUP)
    left = make_buffer(99, 3 * PAGE, during(barriers, "steady"))
    ledger = make_ledger(*_dup_ledger(barriers).buffers.values(), left)
    account = _account(_DUP, barriers, ledger)
    assert account.left_bytes == 3 * PAGE
    assert Finding("leak", None, None, None, 3 * PAGE) in account.findings


@pytest.mark.parametrize("missing", [1, 2])
def test_a_process_that_did_not_destroy_all_has_no_leak(missing: int) -> None:
    """A process that dies while it destroys contexts has no leak: other contexts still live."""
    barriers = make_barriers(_DUP)
    account = _account(_DUP, barriers[:-missing], _dup_ledger(barriers))
    assert account.left_bytes is None
    assert account.findings == ()
    assert account.total_bytes == 24 * PAGE


def test_a_process_that_did_not_get_through_has_no_account() -> None:
    """There is no account before the end of the steady phase."""
    barriers = make_barriers(_DUP)
    before = steady_of(barriers)
    assert account_of_ledger(_DUP, barriers[:before], _dup_ledger(barriers)) is None
    assert account_of_runtime(_DUP, barriers[:before]) is None
    assert account_of_ledger(_DUP, [], make_ledger()) is None


def test_internal_memory_of_a_group_is_its_first_contexts() -> None:
    """The other contexts have no such memory, and are its readers."""
    plan = make_plan(Context(0, 0, internal=0), Context(0, 1, internal=0))
    allocation = Allocation("internal", 7 * PAGE, 55)
    barriers = make_barriers(plan, allocations={Step("internal_memory", 0): [allocation]})
    buffers = [
        make_buffer(10 + context, PAGE, during(barriers, "context", context), flags=8)
        for context in (0, 1)
    ]
    shared = make_buffer(1, 7 * PAGE, during(barriers, "internal_memory", 0), inode=55)
    ledger = make_ledger(
        *buffers, shared, submits=[make_submit(number, 0, tensors_in(1)) for number in (10, 11)]
    )
    account = _account(plan, barriers, ledger)
    assert account.contexts == (_row(internal=7, task_list=1), _row(task_list=1))
    assert account.shared == (Shared(1, "internal", 7 * PAGE, owner=0, readers=(1,)),)
    assert [finding.kind for finding in account.findings] == ["leak"]


#: Decoding alone has no context, cycles and counting have no steady phase of all; so they have no
#: account.
_WITH_CONTEXTS = [
    scenario.name
    for scenario in SCENARIOS
    if suits(scenario.name, has_conversations=False)
    and make_scenario(scenario.name, *"abcd").contexts
    and not scenario.cycles
]


@pytest.mark.parametrize("seed", range(2 * len(_WITH_CONTEXTS)))
def test_parts_add_up_to_the_ledger_whatever_is_in_it(seed: int) -> None:
    """Every live byte is counted once, for any plan, buffers and submits."""
    chance = random.Random(seed)
    scenario = _WITH_CONTEXTS[seed % len(_WITH_CONTEXTS)]
    plan = make_scenario(scenario, *"abcd", streams=2, contexts=2, cores=chance.choice((1, 2)))
    barriers, ledger = _any_run(plan, chance)
    account = _account(plan, barriers, ledger)
    at_ns = barriers[steady_of(barriers)].at_ns
    rows = [row.size_bytes(component) or 0 for row in account.contexts for component in COMPONENTS]
    assert len(account.contexts) == len(plan.contexts)
    assert min(rows) >= 0
    assert sum(rows) + account.unattributed_bytes == account.total_bytes == ledger.live_bytes(at_ns)
    assert account.peak_bytes is not None
    assert account.peak_bytes >= account.total_bytes
    assert account.left_bytes == ledger.live_bytes(barriers[-1].at_ns)
    assert all(shared.readers and shared.owner not in shared.readers for shared in account.shared)


def _any_run(plan: Plan, chance: random.Random) -> tuple[list[BarrierReading], Ledger]:
    """Return barriers and a ledger with arbitrary buffers and arbitrary submits."""
    sizes = [chance.randrange(0, 9 * PAGE) for _ in range(6)]
    accounts = {
        index: {
            "weights_bytes": chance.choice(sizes),
            "internal_bytes": chance.choice(sizes),
            "dma_bytes": 0,
        }
        for index in range(len(plan.contexts))
    }
    steps = [
        step
        for step in plan.steps()
        if step.phase in ("context", "internal_memory", "first_inference")
    ]
    allocations = {
        step: [
            Allocation(chance.choice(("weights", "internal", "input", "output")), 1, inode)
            for inode in chance.sample(range(30), chance.randrange(3))
        ]
        for step in steps
    }
    barriers = make_barriers(plan, accounts, allocations)
    end = barriers[-1].at_ns + 50
    buffers = []
    for number in range(1, 40):
        born = chance.randrange(end)
        size = max(1, chance.choice((*sizes, chance.randrange(20 * PAGE))))
        died = chance.choice((None, born + chance.randrange(1, end)))
        common = {
            "flags": chance.randrange(16),
            "inode": chance.choice((0, number)),
            "died_ns": died,
        }
        buffers.append(make_buffer(number, size, born, **common))
    return barriers, make_ledger(*buffers, submits=[_any_submit(chance) for _ in range(12)])


def _any_submit(chance: random.Random) -> Submit:
    states = [
        (chance.choice(("0x1070", "0x1110", "0x4020")), chance.randrange(40)) for _ in range(6)
    ]
    reads = [
        Read(register, buffer, "live" if buffer % 3 else "dead", 1) for register, buffer in states
    ]
    return make_submit(chance.randrange(40), chance.randrange(40), *reads)
