"""A configuration's memory over its repeats: by component, context, kind of page and sharing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from reusebench.accounting.account import Account
from reusebench.accounting.domains import DomainUse
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import SHARED_CONTEXT, Plan
from reusebench.reports.base.statistics import Figure, known_sum
from reusebench.reports.results.rows import Row
from reusebench.samplers.readings import ProcessMemory
from reusebench.storage.result import PSS, Result, StoredRepeat
from reusebench.storage.savings import NPU

#: The kinds of pages that the kernel tells apart, by their figures in a reading of the process.
PAGE_KINDS = {"anonymous": "pss_anon_bytes", "file": "pss_file_bytes", "shared": "pss_shmem_bytes"}
#: The component of memory that was allocated in no context's step.
_OTHER = COMPONENTS[-1]


@dataclass(frozen=True)
class ComponentMemory:
    """The account of all contexts of one configuration, in bytes."""

    #: Key: a component of COMPONENTS. None if the source does not tell it apart from the others.
    sizes: dict[str, Figure | None]
    total: Figure | None
    peak: Figure | None
    #: After all contexts were destroyed.
    left: Figure | None


@dataclass(frozen=True)
class PageMemory:
    """The application memory of one configuration at the end of the steady phase, in bytes."""

    total: Figure
    baseline: Figure
    #: Memory above the do-nothing baseline, by kind of PAGE_KINDS; empty if the kernel does not
    #: tell the kinds apart.
    over: dict[str, Figure]


@dataclass(frozen=True)
class SharedMemory:
    """One memory that a plan shares between contexts, which are counted from 1."""

    #: "weights" or "internal".
    component: str
    owner: int
    #: The contexts other than the owner.
    readers: tuple[int, ...]
    #: The number of readers that named it in their register commands, in every repeat; None without
    #: a ledger.
    seen: int | None
    size: Figure | None


@dataclass(frozen=True)
class DomainMemory:
    """One domain of the NPU's IOMMU when it was fullest, over the repeats."""

    domain: int
    #: Used address space, in bytes.
    peak: Figure
    #: Free address space, in bytes.
    left: Figure
    #: Counted from 1.
    contexts: tuple[int, ...]


@dataclass(frozen=True)
class FindingSummary:
    """A use of memory that the plan does not predict, over all contexts and repeats."""

    #: The kind of an accounting.sharing.Finding.
    kind: str
    #: Counted from 1; empty for a leak.
    contexts: tuple[int, ...]
    #: Contexts that the memory belongs to, if that is known.
    owners: tuple[int, ...]
    #: The number of addresses, or the bytes of a leak, in the repeat that had most.
    amount: int
    #: Addresses in no known buffer: distance of the lowest one from the end of the owners' memory.
    past_end_bytes: int | None = None


@dataclass(frozen=True)
class _PlannedSharing:
    """One memory that a plan shares; contexts are indices."""

    component: str
    owner: int
    readers: Sequence[int]


def knows_parts_of_commands(rows: Iterable[Row]) -> bool:
    """Return whether no account is of a version that had COMMAND_BUFFER as one component."""
    for row in rows:
        for account in row.accounts:
            if not all(context.has_parts_of_commands for context in account.contexts):
                return False
    return True


def component_memory(row: Row, parts_of_commands: bool = True) -> ComponentMemory | None:
    """Return the account over the repeats; None if there is none, or if it must not be compared.

    Without `parts_of_commands` COMMAND_BUFFER is one component, as in results of earlier versions.
    """
    accounts = _accounts(row, parts_of_commands)
    if not accounts:
        return None
    sizes = {}
    for name in COMPONENTS:
        sizes[name] = Figure.of(_component_bytes(account, name) for account in accounts)
    return ComponentMemory(
        sizes=sizes,
        total=Figure.of(account.total_bytes for account in accounts),
        peak=Figure.of(account.peak_bytes for account in accounts),
        left=Figure.of(account.left_bytes for account in accounts),
    )


def _component_bytes(account: Account, component: str) -> float | None:
    """Return the size of a component in all contexts."""
    sizes: list[float | None] = [context.size_bytes(component) for context in account.contexts]
    if component == _OTHER:
        sizes.append(account.unattributed_bytes)
    return known_sum(sizes)


def domain_memories(row: Row) -> list[DomainMemory]:
    """Return the domains that the configuration used, in order; empty if the ledger has none."""
    by_domain: dict[int, list[DomainUse]] = {}
    for account in row.accounts if row.measured else ():
        for use in account.domains:
            by_domain.setdefault(use.domain, []).append(use)

    memories = []
    for domain, uses in sorted(by_domain.items()):
        peak = Figure.of(use.peak_bytes for use in uses)
        left = Figure.of(use.left_bytes for use in uses)
        assert peak is not None
        assert left is not None
        contexts: set[int] = set()
        for use in uses:
            contexts.update(context + 1 for context in use.contexts)
        memories.append(DomainMemory(domain, peak, left, tuple(sorted(contexts))))
    return memories


def context_components(
    row: Row, parts_of_commands: bool = True
) -> Iterator[tuple[int | None, str, Figure | None]]:
    """Yield (context counted from 1, component, bytes).

    The context is None for memory that was allocated in no context's step. Without
    `parts_of_commands` COMMAND_BUFFER is one component, as in results of earlier versions.
    """
    accounts = _accounts(row, parts_of_commands)
    for context in range(min((len(account.contexts) for account in accounts), default=0)):
        for name in COMPONENTS:
            sizes = [account.contexts[context].size_bytes(name) for account in accounts]
            yield context + 1, name, Figure.of(sizes)

    unattributed = [account.unattributed_bytes for account in accounts]
    if any(unattributed):
        yield None, _OTHER, Figure.of(unattributed)


def _accounts(row: Row, parts_of_commands: bool) -> list[Account]:
    """Return the accounts that may be compared."""
    if not row.measured or parts_of_commands:
        return row.accounts if row.measured else []
    accounts = []
    for account in row.accounts:
        contexts = tuple(context.with_commands_as_one() for context in account.contexts)
        accounts.append(msgspec.structs.replace(account, contexts=contexts))
    return accounts


def npu_source(row: Row) -> str | None:
    """Return the source of NPU memory: "ledger", "dmabuf", "drm" or "runtime"; None without one."""
    if row.memory(NPU) is None:
        return None
    if any(account.source == "ledger" for account in row.accounts):
        return "ledger"
    for repeat in row.info.repeats:
        steady = repeat.phases.get("steady")
        if steady and steady.npu and steady.npu.process_bytes is not None:
            return "drm" if steady.npu.process_dmabuf_bytes is None else "dmabuf"
    return "runtime"


def page_memory(row: Row) -> PageMemory | None:
    """Return application memory by kind of page, over the repeats; None if it was not measured."""
    total = row.memory("application_memory_bytes")
    baseline = row.memory("baseline_memory_bytes")
    if total is None or baseline is None:
        return None

    over = {}
    for name in PAGE_KINDS:
        figure = Figure.of(_page_growth(row.info, repeat, name) for repeat in row.info.repeats)
        if figure is not None:
            over[name] = figure
    return PageMemory(total, baseline, over if len(over) == len(PAGE_KINDS) else {})


def _page_growth(info: Result, repeat: StoredRepeat, kind: str) -> int | None:
    """Return the growth of a kind of page from the import to the steady phase."""
    sizes = []
    for phase in ("imported", "steady"):
        reading = repeat.phases.get(phase)
        sizes.append(_page_bytes(info, reading.process, kind) if reading else None)
    before, after = sizes
    if before is None or after is None:
        return None
    return after - before


def _page_bytes(info: Result, process: ProcessMemory, kind: str) -> int | None:
    """Return the memory of a kind of page as application memory counts it.

    Pages of files are all that are neither anonymous nor shared memory, each once.
    """
    size: int | None = getattr(process, PAGE_KINDS[kind])
    if kind != "file" or info.counted_by == PSS or process.distinct_bytes is None:
        return size
    anon_bytes = process.pss_anon_bytes
    shmem_bytes = process.pss_shmem_bytes
    if anon_bytes is None or shmem_bytes is None:
        return None
    return process.distinct_bytes - anon_bytes - shmem_bytes


def shared_memories(row: Row) -> list[SharedMemory]:
    """Return the memories that the plan shares, weights first; empty if there is no account."""
    accounts = row.accounts if row.measured else []
    if not accounts:
        return []
    ledgers = [account for account in accounts if account.source == "ledger"]
    memories = []
    for planned in _planned_sharing(row.info.plan):
        owner = planned.owner
        seen = [_seen_readers(planned, ledger) for ledger in ledgers]
        sizes = [account.contexts[owner].size_bytes(planned.component) for account in accounts]
        memories.append(
            SharedMemory(
                component=planned.component,
                owner=owner + 1,
                readers=tuple(reader + 1 for reader in planned.readers),
                seen=min(seen, default=None),
                size=Figure.of(sizes),
            )
        )
    return memories


def findings_of(row: Row) -> list[FindingSummary]:
    """Return a summary of each kind of finding of the accounts, in their order."""
    kinds: dict[str, None] = {}
    for account in row.accounts:
        kinds.update((finding.kind, None) for finding in account.findings)
    return [_finding_summary(row, kind) for kind in kinds]


def _finding_summary(row: Row, kind: str) -> FindingSummary:
    contexts = set()
    owners = set()
    past_ends = []
    amounts = []
    for account in row.accounts:
        findings = [finding for finding in account.findings if finding.kind == kind]
        amounts.append(sum(finding.amount for finding in findings))
        for finding in findings:
            if finding.context is not None:
                contexts.add(finding.context + 1)
            if finding.owner is not None:
                owners.add(finding.owner + 1)
            if finding.past_end_bytes is not None:
                past_ends.append(finding.past_end_bytes)
    return FindingSummary(
        kind=kind,
        contexts=tuple(sorted(contexts)),
        owners=tuple(sorted(owners)),
        amount=max(amounts),
        past_end_bytes=min(past_ends, default=None),
    )


def _planned_sharing(plan: Plan) -> Iterator[_PlannedSharing]:
    """Yield each memory that the plan shares, in the order of allocation."""
    contexts = plan.contexts
    for owner in range(len(contexts)):
        readers = []
        for index, context in enumerate(contexts):
            if context.source == owner and context.mechanism != SHARED_CONTEXT:
                readers.append(index)
        if readers:
            yield _PlannedSharing("weights", owner, readers)

    shared_memories = {"internal": plan.internal_memories(), "io": plan.io_memories()}
    for component, memories in shared_memories.items():
        for owner, *readers in memories.values():
            if readers:
                yield _PlannedSharing(component, owner, readers)


def _seen_readers(planned: _PlannedSharing, ledger: Account) -> int:
    """Return the number of planned readers of a memory that were seen to read it."""
    expected = set(planned.readers)
    if planned.component == "weights":
        for finding in ledger.findings:
            if finding.kind == "not_shared" and finding.context is not None:
                expected.discard(finding.context)

    seen: set[int] = set()
    for memory in ledger.shared:
        if (memory.component, memory.owner) == (planned.component, planned.owner):
            seen = set(memory.readers)
    return len(expected & seen)
