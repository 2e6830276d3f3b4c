"""Who shares what: the memory that a plan shares, whether submits were seen to read it, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reports.base.statistics import Figure
from reports.results.rows import Row

__all__ = ["Finding", "SharedMemory", "findings", "shared_memories"]

#: Mechanisms of contexts that read the weights of their source.
_SHARE_WEIGHTS = ("dup", "shared_weights")


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

    #: As in storage/schema/result-1.json.
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
    seen = [_seen(planned, each) for each in accounts if each.source == "ledger"]
    return [
        SharedMemory(
            component=component,
            owner=owner + 1,
            readers=tuple(reader + 1 for reader in readers),
            seen=min((each[place] for each in seen), default=None),
            size=Figure.of(each.contexts[owner][f"{component}_bytes"] for each in accounts),
        )
        for place, (component, owner, readers) in enumerate(planned)
    ]


def findings(row: Row) -> list[Finding]:
    """Return what was found, one for each kind, in the order of finding."""
    repeats = [each.findings for each in row.accounts]
    every = [finding for repeat in repeats for finding in repeat]
    return [
        Finding(
            kind=kind,
            contexts=_numbers(each.context for each in every if each.kind == kind),
            owners=_numbers(each.owner for each in every if each.kind == kind),
            amount=max(sum(each.amount for each in repeat if each.kind == kind) for repeat in repeats),
            past_end_bytes=_lowest(each.get("past_end_bytes") for each in every if each.kind == kind),
        )
        for kind in dict.fromkeys(each.kind for each in every)
    ]


def _planned(contexts: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield (component, owner, readers) of each memory that the plan shares, in the order in which it is made."""
    for owner in range(len(contexts)):
        readers = [place for place, each in enumerate(contexts) if _reads_weights_of(each, owner)]
        if readers:
            yield "weights", owner, readers
    numbers = [context.get("internal") for context in contexts]
    for number in dict.fromkeys(number for number in numbers if number is not None):
        owner, *readers = [place for place, each in enumerate(numbers) if each == number]
        if readers:
            yield "internal", owner, readers


def _reads_weights_of(context: dict[str, Any], owner: int) -> bool:
    return context.mechanism in _SHARE_WEIGHTS and bool(context.source == owner)


def _seen(planned: Sequence[tuple[str, int, list[int]]], account: dict[str, Any]) -> list[int]:
    """Return how many of the planned readers of each memory were seen to read it."""
    without_weights = {each.context for each in account.findings if each.kind == "not_shared"}
    readers_of = {(each.component, each.owner): set(each.readers) for each in account.shared}
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
