from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reusebench.accounting.domains import DOMAIN_BYTES, DomainUse
from reusebench.accounting.sharing import Finding, Shared
from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.memory_use import (
    FindingSummary,
    component_memory,
    context_components,
    domain_memories,
    findings_of,
    npu_source,
    page_memory,
    shared_memories,
)
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.mechanisms import domains_table
from reusebench.reports.shared.breakdown import page_kinds_table
from reusebench.samplers.readings import NpuMemory
from reusebench.targets.outcome import Failure
from tests.helpers.support import known
from tests.reports.stored import (
    FAILED,
    IMPORTED,
    MIB,
    NPU_SIZES,
    changed,
    even,
    group_of,
    in_words,
    npu_account,
    result,
    runtime_account,
    with_account,
    with_steady,
)

ENGLISH = texts_of("en")


def stored(storage: Path, scenario: str = "no_reuse", **arguments: Any) -> Row:
    """Return the row of one stored configuration."""
    return group_of(
        storage, result(storage, scenario, even(3), **{"npu": npu_account, **arguments})
    ).rows[0]


def test_components_add_up_to_the_total(tmp_path: Path) -> None:
    """All components of all contexts together are the NPU memory of the configuration."""
    row = stored(tmp_path)
    account = component_memory(row)
    whole = row.memory("npu_memory_bytes")
    assert account is not None
    assert account.total == whole
    assert {name: size.median for name, size in account.sizes.items() if size} == {
        name: 12 * size for name, size in NPU_SIZES.items()
    }


def test_domains_over_the_repeats(tmp_path: Path) -> None:
    """Each used domain has its used and free space, and the contexts with buffers there, from 1."""
    domains = (DomainUse(0, 3072 * MIB, (0, 1, 2)), DomainUse(4, MIB, (5,)))
    group = group_of(
        tmp_path,
        result(tmp_path, "no_reuse", even(3), npu=lambda plan: npu_account(plan, domains=domains)),
    )
    first, second = domain_memories(group.rows[0])
    assert (first.domain, first.peak.median, first.left.median) == (0, 3072 * MIB, 1024 * MIB)
    assert (first.contexts, second.contexts, second.left.median) == (
        (1, 2, 3),
        (6,),
        DOMAIN_BYTES - MIB,
    )
    table = domains_table(group, ENGLISH)
    assert table is not None
    assert [cells for _, cells in table.rows] == [
        [ENGLISH.scenario("no_reuse"), "0", "3,072.00", "1,024.00", "1-3"],
        [ENGLISH.scenario("no_reuse"), "4", "1.00", "4,095.00", "6"],
    ]


def test_no_domains_without_an_iommu(tmp_path: Path) -> None:
    """There is no table either; older results have no domains."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(3), npu=npu_account))
    assert (domain_memories(group.rows[0]), domains_table(group, ENGLISH)) == ([], None)


def test_memory_of_no_context_is_other(tmp_path: Path) -> None:
    """Buffers of no context's step count as other, and their row of the table has no context."""
    row = stored(tmp_path, npu=lambda plan: npu_account(plan, unattributed_bytes=5 * MIB))
    account = component_memory(row)
    assert account is not None
    assert account.sizes["other"] is not None
    assert account.sizes["other"].median == 5 * MIB
    (rest,) = [size for context, _, size in context_components(row) if context is None]
    assert rest is not None
    assert rest.median == 5 * MIB


def test_spread_is_that_of_the_repeats(tmp_path: Path) -> None:
    """A component that is larger in one repeat has the distance to the others as its spread."""
    info = result(tmp_path, "no_reuse", even(3), npu=npu_account)
    more = npu_account(info.plan, unattributed_bytes=2 * MIB)
    account = component_memory(group_of(tmp_path, with_account(info, more, repeats=[0])).rows[0])
    assert account is not None
    assert account.sizes["other"] is not None
    assert account.sizes["other"].spread == 2 * MIB


def test_components_that_the_runtime_does_not_tell_apart_are_empty(tmp_path: Path) -> None:
    """If only the runtime tells sizes, register commands, task list and io are unknown."""
    row = stored(tmp_path, npu=runtime_account)
    account = component_memory(row)
    assert account is not None
    assert {name for name in COMPONENTS if account.sizes[name] is None} == {
        "biases",
        "register_commands",
        "task_list",
        "task_list_copy",
        "padding",
        "io",
    }
    assert (account.peak, account.left) == (None, None)


def test_who_gave_the_figure(tmp_path: Path) -> None:
    """The ledger comes before the process's dma-bufs, and these before the runtime's own figure."""
    assert npu_source(stored(tmp_path / "ledger")) == "ledger"
    assert npu_source(stored(tmp_path / "runtime", npu=runtime_account)) == "runtime"
    assert npu_source(stored(tmp_path / "none", npu=None)) is None
    info = result(tmp_path / "held", "no_reuse", even(3), npu=runtime_account)
    held = NpuMemory(MIB, 1, None, None, None, None, None, None)
    repeats = []
    for repeat in info.repeats:
        steady = msgspec.structs.replace(repeat.phases["steady"], npu=held)
        repeats.append(msgspec.structs.replace(repeat, phases={**repeat.phases, "steady": steady}))
    assert (
        npu_source(group_of(tmp_path / "held", changed(info, repeats=tuple(repeats))).rows[0])
        == "dmabuf"
    )


def test_a_runtime_on_the_cpu_has_no_npu_memory(tmp_path: Path) -> None:
    """Without an account there are neither components nor a peak."""
    row = stored(tmp_path, npu=None)
    assert component_memory(row) is None
    assert row.memory("npu_peak_bytes") is None


# Kinds of pages


def test_parts_are_what_grew_since_the_import(tmp_path: Path) -> None:
    """The parts are the growth of each kind of page since the import.

    Files are all that is neither anonymous nor shared memory, whatever PSS leaves to others.
    """
    info = result(tmp_path, "no_reuse", even(3))
    info = with_steady(
        info,
        lambda index, steady: replace(
            steady,
            distinct_bytes=known(steady.distinct_bytes) - (index + 1) * MIB,
            pss_file_bytes=0,
        ),
    )
    memory = page_memory(group_of(tmp_path, info).rows[0])
    assert memory is not None
    medians = {name: figure.median / MIB for name, figure in memory.over.items()}
    assert medians == {"anonymous": 36, "file": -2, "shared": 0}
    assert memory.over["file"].spread == MIB
    assert (memory.baseline.median, memory.total.median) == (IMPORTED, IMPORTED + 36 * MIB)


def test_old_kernels_do_not_tell_parts_apart(tmp_path: Path) -> None:
    """If the kernel does not tell the kinds of pages apart, there is no table."""
    info = result(tmp_path, "no_reuse", even(3))
    rows = group_of(
        tmp_path, with_steady(info, lambda _, steady: replace(steady, pss_anon_bytes=None))
    ).rows
    memory = page_memory(rows[0])
    assert memory is not None
    assert memory.over == {}
    assert page_kinds_table(rows, ENGLISH) is None


def test_a_failure_has_no_parts(tmp_path: Path) -> None:
    """A configuration that was not measured has no row; if none was, there is no table."""
    rows = group_of(tmp_path, result(tmp_path, "no_reuse", [], failure=FAILED)).rows
    assert page_memory(rows[0]) is None
    assert page_kinds_table(rows, ENGLISH) is None


# Sharing

FREED = Finding("reads_freed", context=3, buffer=7, owner=0, amount=5)


def shared(
    storage: Path, scenario: str, **arguments: Any
) -> list[tuple[str, int, tuple[int, ...], int | None]]:
    memories = shared_memories(stored(storage, scenario, **arguments))
    return [(memory.component, memory.owner, memory.readers, memory.seen) for memory in memories]


def test_partial_dup_shares_the_weights_of_each_stream(tmp_path: Path) -> None:
    """Each stream's first context lends its weights to the other two, counted from 1."""
    assert shared(tmp_path, "partial_dup") == [
        ("weights", owner, (owner + 1, owner + 2), 2) for owner in (1, 4, 7, 10)
    ]


def test_weights_and_internal_memory_of_one_owner_are_told_apart(tmp_path: Path) -> None:
    """The first context lends its weights to all, and internal memory to the others on its core."""
    assert shared(tmp_path, "full_dup_internal_reuse") == [
        ("weights", 1, tuple(range(2, 13)), 11),
        ("internal", 1, (3, 5, 7, 9, 11), 5),
        ("internal", 2, (4, 6, 8, 10, 12), 5),
    ]


def test_size_is_that_of_the_owner(tmp_path: Path) -> None:
    """Shared memory has the size that its owner's account says."""
    (memory,) = shared_memories(stored(tmp_path, "internal_reuse"))
    assert memory.size is not None
    assert memory.size.median == NPU_SIZES["internal"]


def test_sharing_that_was_not_seen_is_not_verified(tmp_path: Path) -> None:
    """Planned sharing that no submit shows counts as not seen; without a ledger it is not known."""
    unseen = shared(
        tmp_path / "unseen", "shared_weights", npu=lambda plan: npu_account(plan, shared=())
    )
    assert unseen == [("weights", 1, (2, 3, 4), 0)]
    unknown = shared(tmp_path / "unknown", "shared_weights", npu=runtime_account)
    assert unknown == [("weights", 1, (2, 3, 4), None)]


def test_shared_internal_memory_does_not_verify_weights(tmp_path: Path) -> None:
    """Dups that read only the internal memory of their source do not share its weights."""
    not_shared = tuple(Finding("not_shared", context, None, 0, 0) for context in range(1, 12))
    internal = (Shared(1000, "internal", 1, owner=0, readers=(2, 4, 6, 8, 10)),)
    rows = shared(
        tmp_path,
        "full_dup_internal_reuse",
        npu=lambda plan: npu_account(plan, shared=internal, findings=not_shared),
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
    """A summary has the contexts of all findings of a kind, and the addresses of one repeat."""
    two = (FREED, msgspec.structs.replace(FREED, context=4, amount=2))
    leak = Finding("leak", None, None, None, MIB)
    row = stored(tmp_path, npu=lambda plan: npu_account(plan, findings=(*two, leak)))
    assert findings_of(row) == [
        FindingSummary("reads_freed", (4, 5), (1,), 7),
        FindingSummary("leak", (), (), MIB),
    ]


def test_a_configuration_that_failed_has_its_findings_too(tmp_path: Path) -> None:
    """Findings that made the outcome wrong memory are there, though figures are not compared."""
    failure = Failure("wrong_memory", "steady", 3, in_words("it did"))
    row = stored(tmp_path, npu=lambda plan: npu_account(plan, findings=(FREED,)), failure=failure)
    assert [finding.kind for finding in findings_of(row)] == ["reads_freed"]
    assert shared_memories(row) == []
