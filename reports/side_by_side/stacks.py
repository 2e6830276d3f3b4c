"""Pairs of NPU runtimes that have measured the same network on the same chip."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from reusebench.accounting.account import Account
from reusebench.measured.plan import SHARED_CONTEXT, Model
from reusebench.measured.runtimes import RUNTIMES
from reusebench.reports.base.statistics import Figure, total
from reusebench.reports.explanation.explained_memory import NPU_MEMORY, TOTAL, ExplainedMemory
from reusebench.reports.explanation.npu_prediction import npu_memory, own_npu_memory
from reusebench.reports.results.agreement import origin_of
from reusebench.reports.results.model_names import short_name
from reusebench.reports.results.recommendation import recommendations
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.weight_copies import weight_copies
from reusebench.storage.savings import NPU

#: NPU runtimes in the order of a pair.
NPU_RUNTIMES = tuple(entry.name for entry in RUNTIMES if entry.device == "npu")
#: The origin of a built-in model that is not quantised yet: network, size and seed alone.
_FLOAT_ORIGIN = re.compile(r"\w+-\d+-seed\d+")

Sizes = dict[str, Optional[Figure]]


@dataclass(frozen=True)
class Stack:
    """One runtime of a pair: contexts of the network without reuse, and their leanest layout."""

    group: Group
    #: The contexts of without_reuse are all of the same network, and have an account.
    without_reuse: Row
    #: It is without_reuse if no layout takes measurably less.
    least: Row
    #: Every layout that was measured.
    layouts: Sequence[Row]

    @property
    def runtime(self) -> str:
        """The runtime's name."""
        return self.group.info.runtime

    @property
    def contexts(self) -> int:
        """The number of contexts without reuse, all of which the leanest layout serves."""
        return len(self.without_reuse.info.plan.contexts)

    @property
    def model(self) -> Model:
        """The first context's model."""
        plan = self.without_reuse.info.plan
        return plan.models[plan.contexts[0].model]

    @cached_property
    def one_context(self) -> Sizes:
        """NPU memory of the first context by component, and in all (TOTAL)."""
        return self._with_total([0])

    @cached_property
    def further_context(self) -> Sizes:
        """The mean NPU memory of a further context without reuse; None with one context."""
        further = range(1, self.contexts)
        return self._with_total(further) if further else {}

    def _with_total(self, indices: Sequence[int]) -> Sizes:
        row = self.without_reuse
        totals = [_mean_total(account, indices) for account in row.accounts]
        return {**own_npu_memory(row, indices), TOTAL: Figure.of(totals)}

    @property
    def application_of_one(self) -> Figure | None:
        """Application memory that the first context added."""
        return self._application(lambda added: added[0])

    @property
    def application_of_further(self) -> Figure | None:
        """Application memory that a further context added, without reuse; None with one context."""
        if self.contexts < 2:
            return None
        return self._application(lambda added: statistics.fmean(added[1:]))

    def _application(self, of: Callable[[Sequence[int]], float]) -> Figure | None:
        added = self.without_reuse.info.memory.context_memory_bytes
        return Figure.of(of(repeat) for repeat in added if repeat)

    @property
    def waits(self) -> bool:
        """Whether the leanest layout is one context, whose inferences wait for each other."""
        return _is_one_context(self.least)

    @property
    def least_at_once(self) -> Row:
        """The least of the layouts whose inferences do not all wait for each other."""
        others = [row for row in self.layouts if not _is_one_context(row)]
        return min(others, key=_npu_bytes, default=self.without_reuse)

    @cached_property
    def with_shared_weights(self) -> ExplainedMemory | None:
        """The predicted memory without reuse if contexts of a model had its weights in common.

        None if they hold no weights twice, or no patch could change it.
        """
        memory = npu_memory(self.without_reuse)
        copies = weight_copies(self.without_reuse)
        if memory is None or not copies:
            return None
        sizes = dict(memory.sizes)
        for name, copy in copies.items():
            size = sizes[name]
            assert size is not None
            sizes[name] = Figure(size.median - copy.median)
        all_copies = total(copies.values())
        assert all_copies is not None
        return ExplainedMemory(NPU_MEMORY, sizes, Figure(memory.total.median - all_copies.median))


@dataclass(frozen=True)
class SideBySide:
    """The same network on one chip with two runtimes."""

    chip: str
    network: str
    stacks: tuple[Stack, Stack]

    @property
    def has_equal_contexts(self) -> bool:
        """Whether both had as many contexts, so that their leanest layouts are comparable."""
        first, second = self.stacks
        return first.contexts == second.contexts

    @property
    def has_one_source(self) -> bool:
        """Whether both files were made of one file, or of one built-in network."""
        first, second = self.stacks
        return origin_of(first.model) == origin_of(second.model)

    @property
    def is_quantised_alike(self) -> bool:
        """Whether both files are of one quantised network, with the same scales."""
        return self.has_one_source and all(_keeps_scales(stack.model) for stack in self.stacks)


def side_by_side(
    groups: Iterable[Group], names: Mapping[str, str] | None = None
) -> list[SideBySide]:
    """Return a pair for each chip and network that two NPU runtimes have measured.

    The groups come newest first. `names` are networks by the name of a model, given by the user.
    """
    stacks: dict[tuple[str, str], dict[str, list[Stack]]] = {}
    for group in groups:
        for stack in _stacks(group):
            network = network_of(stack.without_reuse, names or {})
            if network and group.info.chip:
                by_runtime = stacks.setdefault((group.info.chip, network), {})
                by_runtime.setdefault(stack.runtime, []).append(stack)
    pairs = []
    for (chip, network), by_runtime in stacks.items():
        runtimes = [name for name in NPU_RUNTIMES if name in by_runtime]
        if len(runtimes) > 1:
            both = itertools.product(*(by_runtime[name] for name in runtimes[:2]))
            candidates = [SideBySide(chip, network, (first, second)) for first, second in both]
            # The first of equal ones is the newest.
            pairs.append(max(candidates, key=_comparability))
    return pairs


def network_of(row: Row, names: Mapping[str, str]) -> str | None:
    """Return the network of all models of a row, with its size if it is built in.

    None if there are several networks.
    """
    networks = {_network(model, names) for model in row.info.plan.models}
    return networks.pop() if len(networks) == 1 else None


def _network(model: Model, names: Mapping[str, str]) -> str:
    if model.name in names:
        return names[model.name]
    for name in (model.origin or "", model.name):
        short = short_name(name)
        if short != name:
            return short
    return Path(model.conversion.source).stem if model.conversion else model.name


def _stacks(group: Group) -> Iterator[Stack]:
    if group.info.runtime not in NPU_RUNTIMES:
        return
    for recommendation in recommendations(group.rows):
        row = recommendation.without_reuse
        if recommendation.memory == NPU and row.measured and row.accounts:
            yield Stack(group, row, recommendation.least, recommendation.layouts)


def _comparability(pair: SideBySide) -> tuple[Any, ...]:
    """Return the order of pairs, the best last: sameness, contexts, equal models."""
    row = pair.stacks[0].without_reuse
    return (
        pair.has_equal_contexts,
        pair.is_quantised_alike,
        len(row.info.plan.contexts),
        -len(row.info.plan.models),
    )


def _keeps_scales(model: Model) -> bool:
    """Whether the source of the file was quantised already, and no converter did it anew."""
    if model.conversion and model.conversion.is_calibrated:
        return False
    return not _FLOAT_ORIGIN.fullmatch(model.origin or "")


def _is_one_context(row: Row) -> bool:
    """Whether one context serves all, from several threads."""
    return any(context.mechanism == SHARED_CONTEXT for context in row.info.plan.contexts)


def _npu_bytes(row: Row) -> float:
    size = row.memory(NPU)
    assert size is not None
    return size.median


def _mean_total(account: Account, indices: Sequence[int]) -> float:
    return statistics.fmean(account.contexts[index].total_bytes for index in indices)
