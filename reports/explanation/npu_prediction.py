"""NPU memory: the account of a configuration, and its prediction from the baseline's account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import SHARED_CONTEXT
from reusebench.reports.base.statistics import Figure, known_mean, known_sum
from reusebench.reports.explanation.explained_memory import (
    NPU_MEMORY,
    ExplainedMemory,
    means_by_model,
    model_digests,
)
from reusebench.reports.results.memory_use import component_memory
from reusebench.reports.results.rows import Row

_Sizes = dict[str, Optional[float]]


def npu_memory(row: Row) -> ExplainedMemory | None:
    """Return the NPU memory by the account; None without an account."""
    memory = component_memory(row)
    if memory is None or memory.total is None:
        return None
    return ExplainedMemory(NPU_MEMORY, memory.sizes, memory.total)


def predict_npu_memory(row: Row, baseline: Row) -> ExplainedMemory:
    """Return the plan's memory if a context takes what its model takes in the baseline."""
    repeats = [_predicted_sizes(row, baseline, account) for account in baseline.accounts]
    sizes = {}
    for name in COMPONENTS:
        sizes[name] = Figure.of(repeat[name] for repeat in repeats)
    total = Figure.of(known_sum(repeat.values()) for repeat in repeats)
    assert total is not None
    return ExplainedMemory(NPU_MEMORY, sizes, total)


def _predicted_sizes(row: Row, baseline: Row, account: Account) -> _Sizes:
    """Return the predicted size of each component, from one account of the baseline."""
    baseline_digests = model_digests(baseline)
    means = {}
    for name in COMPONENTS:
        baseline_sizes = [context.size_bytes(name) for context in account.contexts]
        means[name] = means_by_model(baseline_digests, baseline_sizes)

    # Another thread on a context takes nothing.
    contexts = []
    digests = []
    for context, digest in zip(row.info.plan.contexts, model_digests(row)):
        if context.mechanism != SHARED_CONTEXT:
            contexts.append(context)
            digests.append(digest)

    sizes = {}
    for name in COMPONENTS:
        sizes[name] = known_sum(means[name][digest] for digest in digests)
    with_weights = [digest for context, digest in zip(contexts, digests) if context.source is None]
    sizes["weights"] = known_sum(means["weights"][digest] for digest in with_weights)
    internal_memories = [context.internal for context in contexts]
    sizes["internal"] = _shared_size(internal_memories, digests, means["internal"])
    io_memories = [context.io for context in contexts]
    sizes["io"] = _shared_size(io_memories, digests, means["io"])
    sizes["other"] = known_sum([sizes["other"], account.unattributed_bytes])
    return sizes


def _shared_size(
    memories: Sequence[int | None],
    digests: Sequence[str],
    means: Mapping[str, float | None],
) -> float | None:
    """Return the size that contexts of these models need.

    Contexts with the same memory, which is given by its number, share one of the largest size.
    """
    largest: dict[object, float] = {}
    for index, (memory, digest) in enumerate(zip(memories, digests)):
        size = means[digest]
        if size is not None:
            key = ("alone", index) if memory is None else memory
            largest[key] = max(size, largest.get(key, size))
    return known_sum(largest.values())


def own_npu_memory(row: Row, indices: Sequence[int]) -> dict[str, Figure | None]:
    """Return the mean size of each component in the contexts with these indices."""
    own = {}
    for name in COMPONENTS:
        means = []
        for account in row.accounts:
            sizes = [account.contexts[index].size_bytes(name) for index in indices]
            means.append(known_mean(sizes))
        own[name] = Figure.of(means)
    return own
