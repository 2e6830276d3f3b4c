"""NPU memory of a configuration over its repeats: by component, by context, and who said so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accounting.account import Account
from accounting.sizes import COMPONENTS
from reports.base.statistics import Figure
from reports.results.rows import Row


@dataclass(frozen=True)
class ComponentMemory:
    """The account of all contexts of one configuration, in bytes."""

    #: By component of COMPONENTS; None where the source does not tell it apart from the others.
    sizes: dict[str, Figure | None]
    total: Figure | None
    peak: Figure | None
    #: After all contexts were destroyed.
    left: Figure | None


def component_memory(row: Row) -> ComponentMemory | None:
    """Return the account over the repeats; None where there is none, or the figures are not to be compared."""
    accounts = row.accounts
    if not row.measured or not accounts:
        return None
    return ComponentMemory(
        sizes={name: Figure.of(_of_all_contexts(account, name) for account in accounts) for name in COMPONENTS},
        total=Figure.of(account.total_bytes for account in accounts),
        peak=Figure.of(account.peak_bytes for account in accounts),
        left=Figure.of(account.left_bytes for account in accounts),
    )


def context_components(row: Row) -> Iterator[tuple[int | None, str, Figure | None]]:
    """Yield (context counted from 1, component, bytes); the context is None for what was made in no context's step."""
    accounts = row.accounts if row.measured else []
    for context in range(min((len(account.contexts) for account in accounts), default=0)):
        for name in COMPONENTS:
            yield context + 1, name, Figure.of(account.contexts[context].size_bytes(name) for account in accounts)
    if any(account.unattributed_bytes for account in accounts):
        yield None, COMPONENTS[-1], Figure.of(account.unattributed_bytes for account in accounts)


def npu_source(row: Row) -> str | None:
    """Return who gave the figure of NPU memory: "ledger", "dmabuf" or "runtime"; None where nobody did."""
    if row.memory("npu_memory_bytes") is None:
        return None
    if any(account.source == "ledger" for account in row.accounts):
        return "ledger"
    for repeat in row.info.repeats:
        steady = repeat.phases.get("steady")
        if steady and steady.npu and steady.npu.process_dmabuf_bytes is not None:
            return "dmabuf"
    return "runtime"


def _of_all_contexts(account: Account, component: str) -> int | None:
    """Return what all contexts have of a component; what was made in no context's step counts as other."""
    sizes = [context.size_bytes(component) for context in account.contexts]
    known = [size for size in sizes if size is not None]
    if component == COMPONENTS[-1]:
        known.append(account.unattributed_bytes)
    return sum(known) if known else None
