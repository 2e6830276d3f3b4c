"""The memory of a configuration over its repeats: by component, by context, by kind of page, and
who shares what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reusebench.accounting.account import Account
from reusebench.accounting.domains import DomainUse
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import SHARED_CONTEXT, Plan
from reusebench.reports.base.statistics import Figure, known_sum
from reusebench.reports.results.rows import Row
from reusebench.reports.results.savings import NPU
from reusebench.storage.result import StoredRepeat

#: The kinds of pages that the kernel tells apart, by their figures in a reading of the process.
PAGE_KINDS = {"anonymous": "pss_anon_bytes", "file": "pss_file_bytes", "shared": "pss_shmem_bytes"}


@dataclass(frozen=True)
class ComponentMemory:
    """The account of all contexts of one configuration, in bytes."""

    #: By component of COMPONENTS; None if the source does not tell it apart from the others.
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
    #: Over the do-nothing baseline, by kind of PAGE_KINDS; empty if the kernel does not tell
    #: them apart.
    over: dict[str, Figure]


@dataclass(frozen=True)
class SharedMemory:
    """One memory that a plan shares between contexts, which are counted from 1."""

    #: "weights" or "internal".
    component: str
    owner: int
    #: Contexts besides the owner.
    readers: tuple[int, ...]
    #: How many of the readers named it in their register commands, in every repeat; None without a
    #: ledger.
    seen: int | None
    size: Figure | None


@dataclass(frozen=True)
class DomainMemory:
    """One domain of the NPU's IOMMU when it was fullest, over the repeats."""

    domain: int
    #: Addresses, in bytes: taken, and free.
    peak: Figure
    left: Figure
    #: Counted from 1.
    contexts: tuple[int, ...]


@dataclass(frozen=True)
class FindingSummary:
    """Something that a configuration did with memory and its plan does not say, over contexts and
    repeats.
    """

    #: As in accounting.sharing.Finding.
    kind: str
    #: Counted from 1; empty for a leak.
    contexts: tuple[int, ...]
    #: Contexts that the memory belongs to, where that is known.
    owners: tuple[int, ...]
    #: Addresses, of a leak bytes: in the repeat that had most.
    amount: int
    #: Of addresses of no known buffer: by how much the lowest one lies past the end of the owners'
    #: memory.
    past_end_bytes: int | None = None


def component_memory(row: Row) -> ComponentMemory | None:
    """Return the account over the repeats; None if there is none, or the figures are not to be
    compared.
    """
    accounts = row.accounts
    if not row.measured or not accounts:
        return None

    def of_all_contexts(account: Account, component: str) -> float | None:
        # What was made in no context's step counts as other.
        rest = [account.unattributed_bytes] if component == COMPONENTS[-1] else []
        return known_sum([*(context.size_bytes(component) for context in account.contexts), *rest])

    return ComponentMemory(
        sizes={
            name: Figure.of(of_all_contexts(account, name) for account in accounts)
            for name in COMPONENTS
        },
        total=Figure.of(account.total_bytes for account in accounts),
        peak=Figure.of(account.peak_bytes for account in accounts),
        left=Figure.of(account.left_bytes for account in accounts),
    )


def domain_memories(row: Row) -> list[DomainMemory]:
    """Return the domains that the configuration used, in order; none where the ledger tells
    none.
    """
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
        contexts = sorted({context + 1 for use in uses for context in use.contexts})
        memories.append(DomainMemory(domain, peak, left, tuple(contexts)))
    return memories


def context_components(row: Row) -> Iterator[tuple[int | None, str, Figure | None]]:
    """Yield (context counted from 1, component, bytes); the context is None for what was made in no
    context's step.
    """
    accounts = row.accounts if row.measured else []
    for context in range(min((len(account.contexts) for account in accounts), default=0)):
        for name in COMPONENTS:
            yield (
                context + 1,
                name,
                Figure.of(account.contexts[context].size_bytes(name) for account in accounts),
            )
    if any(account.unattributed_bytes for account in accounts):
        yield None, COMPONENTS[-1], Figure.of(account.unattributed_bytes for account in accounts)


def npu_source(row: Row) -> str | None:
    """Return who gave the figure of NPU memory: "ledger", "dmabuf" or "runtime"; None if nobody
    did.
    """
    if row.memory(NPU) is None:
        return None
    if any(account.source == "ledger" for account in row.accounts):
        return "ledger"
    for repeat in row.info.repeats:
        steady = repeat.phases.get("steady")
        if steady and steady.npu and steady.npu.process_dmabuf_bytes is not None:
            return "dmabuf"
    return "runtime"


def page_memory(row: Row) -> PageMemory | None:
    """Return application memory by kind of page over the repeats; None if the configuration was
    not measured.
    """
    total = row.memory("application_memory_bytes")
    baseline = row.memory("baseline_memory_bytes")
    if total is None or baseline is None:
        return None

    def growth(repeat: StoredRepeat, key: str) -> int | None:
        imported = repeat.phases.get("imported")
        steady = repeat.phases.get("steady")
        before: int | None = getattr(imported.process, key) if imported else None
        after: int | None = getattr(steady.process, key) if steady else None
        return None if before is None or after is None else after - before

    over = {
        name: Figure.of(growth(repeat, key) for repeat in row.info.repeats)
        for name, key in PAGE_KINDS.items()
    }
    known = {name: figure for name, figure in over.items() if figure is not None}
    return PageMemory(total, baseline, known if len(known) == len(PAGE_KINDS) else {})


def shared_memories(row: Row) -> list[SharedMemory]:
    """Return what the plan shares, weights first; none if there is no account to look it up
    in.
    """
    accounts = row.accounts if row.measured else []
    planned = list(_planned_sharing(row.info.plan)) if accounts else []
    seen = [_seen(planned, account) for account in accounts if account.source == "ledger"]
    return [
        SharedMemory(
            component=component,
            owner=owner + 1,
            readers=tuple(reader + 1 for reader in readers),
            seen=min((counts[index] for counts in seen), default=None),
            size=Figure.of(account.contexts[owner].size_bytes(component) for account in accounts),
        )
        for index, (component, owner, readers) in enumerate(planned)
    ]


def findings_of(row: Row) -> list[FindingSummary]:
    """Return a summary of each kind of finding of the accounts, in their order."""
    repeats = [account.findings for account in row.accounts]
    summaries = []
    for kind in dict.fromkeys(finding.kind for repeat in repeats for finding in repeat):
        findings = [finding for repeat in repeats for finding in repeat if finding.kind == kind]
        past_ends = [
            finding.past_end_bytes for finding in findings if finding.past_end_bytes is not None
        ]
        summaries.append(
            FindingSummary(
                kind=kind,
                contexts=tuple(
                    sorted({one.context + 1 for one in findings if one.context is not None})
                ),
                owners=tuple(sorted({one.owner + 1 for one in findings if one.owner is not None})),
                amount=max(
                    sum(finding.amount for finding in repeat if finding.kind == kind)
                    for repeat in repeats
                ),
                past_end_bytes=min(past_ends, default=None),
            )
        )
    return summaries


def _planned_sharing(plan: Plan) -> Iterator[tuple[str, int, list[int]]]:
    """Yield (component, owner, readers) of each memory that the plan shares, in the order in which
    it is made.
    """
    contexts = plan.contexts
    for owner in range(len(contexts)):
        readers = [
            index
            for index, context in enumerate(contexts)
            if context.mechanism != SHARED_CONTEXT and context.source == owner
        ]
        if readers:
            yield "weights", owner, readers
    for component, memories in (("internal", plan.internal_memories()), ("io", plan.io_memories())):
        for owner, *readers in memories.values():
            if readers:
                yield component, owner, readers


def _seen(planned: Sequence[tuple[str, int, list[int]]], account: Account) -> list[int]:
    """Return how many of the planned readers of each memory were seen to read it."""
    without_weights = {
        finding.context for finding in account.findings if finding.kind == "not_shared"
    }
    readers_of = {
        (memory.component, memory.owner): set(memory.readers) for memory in account.shared
    }
    counts = []
    for component, owner, readers in planned:
        expected = set(readers) - (without_weights if component == "weights" else set())
        counts.append(len(expected & readers_of.get((component, owner), set())))
    return counts
