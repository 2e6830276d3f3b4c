"""NPU memory of a configuration over its repeats: by component, by context, and who said so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reports.base.statistics import Figure
from reports.results.rows import Row

__all__ = ["COMPONENTS", "ComponentMemory", "component_memory", "context_components", "npu_source"]

#: The components of a context's memory as stored results name them, in the order of tables and bars.
COMPONENTS = ("weights", "internal", "register_commands", "task_list", "io", "other")


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
        sizes={name: Figure.of(_of_all_contexts(each, name) for each in accounts) for name in COMPONENTS},
        total=Figure.of(each.total_bytes for each in accounts),
        peak=Figure.of(each.peak_bytes for each in accounts),
        left=Figure.of(each.left_bytes for each in accounts),
    )


def context_components(row: Row) -> Iterator[tuple[int | None, str, Figure | None]]:
    """Yield (context counted from 1, component, bytes); the context is None for what was made in no context's step."""
    accounts = row.accounts if row.measured else []
    for context in range(min((len(each.contexts) for each in accounts), default=0)):
        for name in COMPONENTS:
            yield context + 1, name, Figure.of(each.contexts[context][f"{name}_bytes"] for each in accounts)
    if any(each.unattributed_bytes for each in accounts):
        yield None, COMPONENTS[-1], Figure.of(each.unattributed_bytes for each in accounts)


def npu_source(row: Row) -> str | None:
    """Return who gave the figure of NPU memory: "ledger", "dmabuf" or "runtime"; None where nobody did."""
    if row.memory("npu_memory_bytes") is None:
        return None
    if any(each.source == "ledger" for each in row.accounts):
        return "ledger"
    steady = [repeat.phases.get("steady", {}).get("npu") for repeat in row.info.repeats]
    held = any(each and each.get("process_dmabuf_bytes") is not None for each in steady)
    return "dmabuf" if held else "runtime"


def _of_all_contexts(account: dict[str, Any], component: str) -> int | None:
    """Return what all contexts have of a component; what was made in no context's step counts as other."""
    sizes = [context[f"{component}_bytes"] for context in account.contexts]
    known = [size for size in sizes if size is not None]
    if component == COMPONENTS[-1]:
        known.append(account.unattributed_bytes)
    return sum(known) if known else None
