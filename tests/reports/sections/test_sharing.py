from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import accounting.sharing
from accounting.sharing import Shared
from reports.results.memory import Finding, findings_of, shared_memories
from targets.outcome import Failure
from tests.reports.results.test_memory import stored
from tests.reports.stored import MIB, NPU_SIZES, npu_account, runtime_account

FREED = accounting.sharing.Finding("reads_freed", context=3, buffer=7, owner=0, amount=5)


def shared(storage: Path, scenario: str, **arguments: Any) -> list[tuple[str, int, tuple[int, ...], int | None]]:
    rows = shared_memories(stored(storage, scenario, **arguments))
    return [(each.component, each.owner, each.readers, each.seen) for each in rows]


def test_partial_dup_shares_the_weights_of_each_stream(tmp_path: Path) -> None:
    """Each stream's first context lends its weights to the other two, counted from 1."""
    assert shared(tmp_path, "partial_dup") == [("weights", owner, (owner + 1, owner + 2), 2) for owner in (1, 4, 7, 10)]


def test_weights_and_internal_memory_of_one_owner_are_told_apart(tmp_path: Path) -> None:
    """The first context lends its weights to all, and internal memory to those of its own core."""
    assert shared(tmp_path, "full_dup_internal_reuse") == [
        ("weights", 1, tuple(range(2, 13)), 11),
        ("internal", 1, (3, 5, 7, 9, 11), 5),
        ("internal", 2, (4, 6, 8, 10, 12), 5),
    ]


def test_size_is_that_of_the_owner(tmp_path: Path) -> None:
    """What is shared is as large as it is in the account of the context that has it."""
    (each,) = shared_memories(stored(tmp_path, "internal_reuse"))
    assert each.size is not None
    assert each.size.median == NPU_SIZES["internal"]


def test_what_was_not_seen_is_not_verified(tmp_path: Path) -> None:
    """A sharing that the plan says and no submit shows is counted as not seen, and without a ledger nobody knows."""
    unseen = shared(tmp_path / "unseen", "shared_weights", npu=lambda plan: npu_account(plan, shared=()))
    assert unseen == [("weights", 1, (2, 3, 4), 0)]
    unknown = shared(tmp_path / "unknown", "shared_weights", npu=runtime_account)
    assert unknown == [("weights", 1, (2, 3, 4), None)]


def test_internal_memory_alone_does_not_verify_weights(tmp_path: Path) -> None:
    """Dups that read only the internal memory of their source do not share its weights."""
    not_shared = tuple(accounting.sharing.Finding("not_shared", context, None, 0, 0) for context in range(1, 12))
    internal = (Shared(1000, "internal", 1, owner=0, readers=(2, 4, 6, 8, 10)),)
    rows = shared(
        tmp_path, "full_dup_internal_reuse", npu=lambda plan: npu_account(plan, shared=internal, findings=not_shared)
    )
    assert [(component, owner, seen) for component, owner, _, seen in rows] == [
        ("weights", 1, 0),
        ("internal", 1, 5),
        ("internal", 2, 0),
    ]


def test_nothing_is_shared_without_reuse(tmp_path: Path) -> None:
    """A plan that shares nothing has no rows."""
    assert shared(tmp_path, "no_reuse") == []


def test_findings_are_drawn_together(tmp_path: Path) -> None:
    """Contexts of one kind of finding stand in one, with the addresses of a repeat, not of all."""
    two = (FREED, msgspec.structs.replace(FREED, context=4, amount=2))
    leak = accounting.sharing.Finding("leak", None, None, None, MIB)
    row = stored(tmp_path, npu=lambda plan: npu_account(plan, findings=(*two, leak)))
    assert findings_of(row) == [Finding("reads_freed", (4, 5), (1,), 7), Finding("leak", (), (), MIB)]


def test_a_configuration_that_failed_has_its_findings_too(tmp_path: Path) -> None:
    """What made the outcome wrong memory is found, though its figures are not compared."""
    failure = Failure("wrong_memory", "steady", 3, "it did")
    row = stored(tmp_path, npu=lambda plan: npu_account(plan, findings=(FREED,)), failure=failure)
    assert [finding.kind for finding in findings_of(row)] == ["reads_freed"]
    assert shared_memories(row) == []
