"""Who shares what: the memory that a plan shares, whether submits were seen to read it, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from accounting.account import Account
from reports.base.statistics import Figure
from reports.results.rows import Row
from scenarios.plan import DUP, SHARED_WEIGHTS, Context

#: Mechanisms of contexts that read the weights of their source.
_SHARE_WEIGHTS = (DUP, SHARED_WEIGHTS)


@dataclass(frozen=True)
class SharedMemory:
    """One memory that a plan shares between contexts, which are counted from 1."""

    #: "weights" or "internal".
    component: str
    owner: int
    #: Contexts besides the owner.
    readers: tuple[int, ...]
    #: How many of the readers named it in their register commands, in every repeat; None without a ledger.
    seen: int | None
    size: Figure | None


@dataclass(frozen=True)
class Finding:
    """Something that a configuration did with memory and its plan does not say, over contexts and repeats."""

    #: As in accounting.sharing.Finding.
    kind: str
    #: Counted from 1; empty for a leak.
    contexts: tuple[int, ...]
    #: Contexts that the memory belongs to, where that is known.
    owners: tuple[int, ...]
    #: Addresses, of a leak bytes: in the repeat that had most.
    amount: int
    #: Of addresses of no known buffer: by how much the lowest one lies past the end of the owners' memory.
    past_end_bytes: int | None = None


def shared_memories(row: Row) -> list[SharedMemory]:
    """Return what the plan shares, weights first; none where there is no account to look it up in."""
    accounts = row.accounts if row.measured else []
    planned = list(_planned(row.info.plan.contexts)) if accounts else []
    seen = [_seen(planned, account) for account in accounts if account.source == "ledger"]
    return [
        SharedMemory(
            component=component,
            owner=owner + 1,
            readers=tuple(reader + 1 for reader in readers),
            seen=min((counts[place] for counts in seen), default=None),
            size=Figure.of(account.contexts[owner].size_bytes(component) for account in accounts),
        )
        for place, (component, owner, readers) in enumerate(planned)
    ]


def findings_of(row: Row) -> list[Finding]:
    """Return what was found, one for each kind, in the order of finding."""
    repeats = [account.findings for account in row.accounts]
    kinds = dict.fromkeys(finding.kind for repeat in repeats for finding in repeat)
    findings = []
    for kind in kinds:
        of_kind = [finding for repeat in repeats for finding in repeat if finding.kind == kind]
        findings.append(
            Finding(
                kind=kind,
                contexts=_numbers(finding.context for finding in of_kind),
                owners=_numbers(finding.owner for finding in of_kind),
                amount=max(sum(finding.amount for finding in repeat if finding.kind == kind) for repeat in repeats),
                past_end_bytes=_lowest(finding.past_end_bytes for finding in of_kind),
            )
        )
    return findings


def _planned(contexts: Sequence[Context]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield (component, owner, readers) of each memory that the plan shares, in the order in which it is made."""
    for owner in range(len(contexts)):
        readers = [
            place
            for place, context in enumerate(contexts)
            if context.mechanism in _SHARE_WEIGHTS and context.source == owner
        ]
        if readers:
            yield "weights", owner, readers
    members: dict[int, list[int]] = {}
    for place, context in enumerate(contexts):
        if context.internal is not None:
            members.setdefault(context.internal, []).append(place)
    for owner, *readers in members.values():
        if readers:
            yield "internal", owner, readers


def _seen(planned: Sequence[tuple[str, int, list[int]]], account: Account) -> list[int]:
    """Return how many of the planned readers of each memory were seen to read it."""
    without_weights = {finding.context for finding in account.findings if finding.kind == "not_shared"}
    readers_of = {(memory.component, memory.owner): set(memory.readers) for memory in account.shared}
    counts = []
    for component, owner, readers in planned:
        expected = set(readers) - (without_weights if component == "weights" else set())
        counts.append(len(expected & readers_of.get((component, owner), set())))
    return counts


def _lowest(sizes: Iterable[int | None]) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def _numbers(contexts: Iterable[int | None]) -> tuple[int, ...]:
    """Return the distinct contexts counted from 1."""
    return tuple(sorted({context + 1 for context in contexts if context is not None}))
