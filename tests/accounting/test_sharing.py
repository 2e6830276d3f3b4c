"""The actual reads of submits, compared with the plan."""

from __future__ import annotations

import msgspec
import pytest

from reusebench.accounting.attribution import attribute
from reusebench.accounting.ledger import FailedJobs, Ledger, Read, Submit
from reusebench.accounting.sharing import WRONG_READS, Finding, find_wrong_reads, shared_parts
from reusebench.measured.plan import DUP, SHARED_WEIGHTS, Context, Plan
from tests.accounting.hand_made import (
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

_LOADS = make_plan(Context(0, 0), Context(0, 0))
_DUPS = make_plan(*[Context(0, 0), *[Context(0, 0, DUP, 0)] * 2])


def _ledger(plan: Plan, *submits: Submit) -> Ledger:
    """Return a ledger with three buffers for each context, and one of no context.

    Context C has the task list 10 * C + 1, weights and registers 10 * C + 2, internal 10 * C + 3.
    """
    barriers = make_barriers(plan)
    buffers = []
    for context in range(len(plan.contexts)):
        made_ns = during(barriers, "context", context)
        buffers += [make_buffer(10 * context + number, PAGE, made_ns) for number in (1, 2, 3)]
    imported = make_buffer(99, PAGE, during(barriers, "imported"))
    return make_ledger(*buffers, imported, submits=submits)


def _findings(plan: Plan, *submits: Submit) -> list[Finding]:
    return find_wrong_reads(plan, make_barriers(plan), _ledger(plan, *submits))


def _shared(plan: Plan, *submits: Submit) -> list[tuple[int, int, tuple[int, ...]]]:
    barriers = make_barriers(plan)
    ledger = _ledger(plan, *submits)
    steady = barriers[steady_of(barriers)]
    parts = attribute(plan, barriers, ledger, steady.at_ns)
    return [
        (shared.buffer, shared.owner, shared.readers)
        for shared in shared_parts(parts, barriers, ledger)
    ]


# Reads


def test_jobs_that_were_not_run_are_their_contexts() -> None:
    """Each event is a finding, with the context whose buffer has the commands, if any."""
    ledger = msgspec.structs.replace(
        _ledger(_LOADS), failed=(FailedJobs(1, 12, 3, 0), FailedJobs(2, 0, 1, 5))
    )
    assert find_wrong_reads(_LOADS, make_barriers(_LOADS), ledger) == [
        Finding("not_run", 1, 12, None, 3),
        Finding("not_run", None, None, None, 1),
    ]


def test_own_memory_is_no_finding() -> None:
    """Reads of a context's own buffers, and of buffers without a context, are right."""
    runs = [
        make_submit(1, 2, weights_in(2), tensors_in(3)),
        make_submit(11, 12, weights_in(12), tensors_in(99)),
    ]
    assert _findings(_LOADS, *runs) == []
    assert _shared(_LOADS, *runs) == []


def test_freed_memory() -> None:
    """A read of a freed buffer names the buffer and its former owner, and counts the addresses."""
    assert _findings(_LOADS, make_submit(11, 12, weights_in(2, "dead", 4))) == [
        Finding("reads_freed", 1, 2, 0, 4)
    ]
    assert _findings(_LOADS, make_submit(1, 2, tensors_in(3, "dead"))) == [
        Finding("reads_freed", 0, 3, 0, 7)
    ]


def test_foreign_memory() -> None:
    """A read of another context's buffer, which the plan does not share, is foreign."""
    assert _findings(_LOADS, make_submit(1, 2, weights_in(12))) == [
        Finding("reads_foreign", 0, 12, 1, 5)
    ]


def test_addresses_of_no_buffer() -> None:
    """Unknown addresses are counted together, without an owner; they are no wrong read."""
    runs = [make_submit(1, 2, weights_in(0, "unknown"), tensors_in(0, "unknown"))]
    assert _findings(_LOADS, *runs) == [Finding("reads_unknown", 0, None, None, 12)]
    assert "reads_unknown" not in WRONG_READS
    assert set(WRONG_READS) == {"reads_freed", "reads_foreign"}


def test_addresses_past_an_end_belong_to_the_buffer_before_them() -> None:
    """Addresses past a buffer name it, its owner, and the least distance from its end."""
    reads = [
        Read(register, 0, "unknown", 3, 12, past)
        for register, past in (("0x1070", 2 * PAGE), ("0x4020", PAGE))
    ]
    assert _findings(_LOADS, make_submit(1, 2, *reads)) == [
        Finding("reads_unknown", 0, 12, 1, 6, PAGE)
    ]


def test_one_finding_for_all_reads_of_a_buffer() -> None:
    """Addresses add up over registers and submits; each buffer and context has its own finding."""
    runs = [
        make_submit(1, 2, weights_in(12, count=1), tensors_in(12, count=2)),
        make_submit(1, 2, tensors_in(12, count=4), tensors_in(13, count=8)),
        make_submit(11, 12, tensors_in(3, count=16)),
    ]
    assert _findings(_LOADS, *runs) == [
        Finding("reads_foreign", 0, 12, 1, 7),
        Finding("reads_foreign", 0, 13, 1, 8),
        Finding("reads_foreign", 1, 3, 0, 16),
    ]


def test_a_run_of_nobody_is_not_judged() -> None:
    """A task list without a context gives no finding."""
    assert _findings(_LOADS, make_submit(99, 2, weights_in(2, "dead"))) == []


# Memory that plans share


@pytest.mark.parametrize("mechanism", [DUP, SHARED_WEIGHTS])
def test_a_source_lends_its_weights(mechanism: str) -> None:
    """Reading the source's weights is planned, and counts as shared memory."""
    plan = make_plan(Context(0, 0), Context(0, 0, mechanism, 0))
    runs = [make_submit(1, 2, weights_in(2)), make_submit(11, 12, weights_in(2))]
    assert _findings(plan, *runs) == []
    assert _shared(plan, *runs) == [(2, 0, (1,))]


def test_the_source_borrows_nothing_in_return() -> None:
    """A source must not read its dup's buffers, nor a dup those of another dup."""
    runs = [make_submit(1, 2, tensors_in(13)), make_submit(11, 12, weights_in(2), tensors_in(23))]
    assert _findings(_DUPS, *runs) == [
        Finding("reads_foreign", 0, 13, 1, 7),
        Finding("reads_foreign", 1, 23, 2, 7),
    ]


def test_internal_memory_is_read_by_its_group_alone() -> None:
    """Internal memory belongs to the group's first context; only the other members may read it."""
    contexts = [Context(0, 0, internal=core, core=core) for core in (0, 1, 0)]
    plan = make_plan(*contexts, cores=2)
    members = [make_submit(1, 2, tensors_in(3)), make_submit(21, 22, tensors_in(3))]
    assert _findings(plan, *members) == []
    assert _shared(plan, *members) == [(3, 0, (2,))]
    assert _findings(plan, make_submit(11, 12, tensors_in(3))) == [
        Finding("reads_foreign", 1, 3, 0, 7)
    ]


def test_dups_in_one_internal_memory() -> None:
    """A dup may read its source's weights, and internal memory of its group's first context."""
    contexts = [
        Context(0, 0, internal=0, core=0),
        Context(0, 0, DUP, 0, internal=1, core=1),
        Context(0, 0, DUP, 0, internal=1, core=1),
    ]
    plan = make_plan(*contexts, cores=2)
    assert _findings(plan, make_submit(21, 22, weights_in(2), tensors_in(13))) == []
    assert _findings(plan, make_submit(11, 12, weights_in(2), tensors_in(23))) == [
        Finding("reads_foreign", 1, 23, 2, 7)
    ]


@pytest.mark.parametrize("mechanism", [DUP, SHARED_WEIGHTS])
def test_weights_that_should_be_shared_and_are_not(mechanism: str) -> None:
    """A dup or slave that reads its own weights saves nothing, which is a finding of the plan."""
    plan = make_plan(Context(0, 0), Context(0, 0, mechanism, 0))
    assert _findings(plan, make_submit(11, 12, weights_in(12))) == [
        Finding("not_shared", 1, None, 0, 0)
    ]
    # Tensors of the source are not its weights.
    assert _findings(plan, make_submit(11, 12, tensors_in(2))) == [
        Finding("not_shared", 1, None, 0, 0)
    ]


def test_what_did_not_run_is_not_blamed() -> None:
    """Without a submit of the context nothing is known about its sharing."""
    assert _findings(_DUPS, make_submit(1, 2, weights_in(2))) == []


def test_readers_of_a_buffer_are_distinct_and_in_order() -> None:
    """Readers count once, in any order; reads of freed memory are no sharing."""
    runs = [
        make_submit(21, 22, weights_in(2), tensors_in(2)),
        make_submit(11, 12, weights_in(2)),
        make_submit(21, 22, weights_in(2), tensors_in(12, "dead")),
        make_submit(1, 2, weights_in(2)),
    ]
    assert _shared(_DUPS, *runs) == [(2, 0, (1, 2))]
