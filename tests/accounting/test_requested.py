"""The requested sizes of the parts of NPU memory."""

from __future__ import annotations

from reusebench.accounting.requested import PARTS, requested_sizes
from reusebench.measured.plan import Context, Step
from reusebench.measured.runtimes.base import Allocation
from tests.accounting.hand_made import (
    ACCOUNT,
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

_PLAN = make_plan(Context(0, 0))


def test_each_part_has_its_requested_size() -> None:
    """Sizes are those before pages; weights, commands and the copy of the task list are told apart
    though they are in one buffer.
    """
    barriers = make_barriers(_PLAN)
    made = during(barriers, "context", 0)
    ran = during(barriers, "first_inference", 0)
    buffers = (
        make_buffer(1, 440, made, flags=KERNEL_MAPPING),
        make_buffer(2, 8 * PAGE + 6656 + 448, made),
        make_buffer(3, ACCOUNT["internal_bytes"] - 100, made),
        make_buffer(4, 12_544, ran),
        make_buffer(5, 36_864, ran),
    )
    account = {**ACCOUNT, "internal_bytes": ACCOUNT["internal_bytes"] - 100}
    submits = [make_submit(1, 2, weights_in(2), tensors_in(3), at_ns=ran)]
    ledger = make_ledger(*buffers, submits=submits)
    barriers = make_barriers(_PLAN, accounts={0: account})
    steady = barriers[steady_of(barriers)]
    assert requested_sizes(_PLAN, barriers, ledger, steady.at_ns) == [
        {
            "task_list": 440,
            "weights": 8 * PAGE,
            "register_commands": 6656,
            "task_list_copy": 448,
            "internal": ACCOUNT["internal_bytes"] - 100,
            "input": 12_544,
            "output": 36_864,
        }
    ]


def test_several_tensors_are_one_part() -> None:
    """The library makes the buffers of several inputs and outputs in an order of its own."""
    barriers = make_barriers(_PLAN)
    ran = during(barriers, "first_inference", 0)
    ledger = make_ledger(*(make_buffer(number, 100, ran) for number in (1, 2, 3)))
    steady = barriers[steady_of(barriers)]
    assert requested_sizes(_PLAN, barriers, ledger, steady.at_ns) == [{"io": 300}]
    assert "io" in PARTS


def test_the_applications_tensors_have_their_names() -> None:
    """The application says what it allocates for; the order does not matter."""
    step = Step("first_inference", 0)
    allocations = {step: [Allocation("output", 10, 71), Allocation("input", 20, 72)]}
    barriers = make_barriers(_PLAN, allocations=allocations)
    ran = during(barriers, *step)
    ledger = make_ledger(make_buffer(1, 10, ran, inode=71), make_buffer(2, 20, ran, inode=72))
    steady = barriers[steady_of(barriers)]
    assert requested_sizes(_PLAN, barriers, ledger, steady.at_ns) == [{"input": 20, "output": 10}]
