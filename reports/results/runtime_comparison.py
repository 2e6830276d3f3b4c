"""The comparison of runtimes that ran the same contexts of the same models: memory and speed."""

from __future__ import annotations

import re
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Optional

from reusebench.measured.plan import Model
from reusebench.measured.runtimes import RUNTIMES
from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.agreement import DIFFERS, Agreement, agreement, origin_of
from reusebench.reports.results.recommendation import Recommendation, recommendations, weight
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.speed_change import rate
from reusebench.storage.result_summary import workload_of
from reusebench.storage.savings import APPLICATION, NPU

#: The name of a built-in model in results that do not say its origin: network, size and seed, then
#: a part that differs by runtime.
_BUILT_IN = re.compile(r"(\w+-\d+-seed\d+)-.*")
_ORDER = {runtime.name: position for position, runtime in enumerate(RUNTIMES)}


@dataclass(frozen=True)
class Member:
    """A group in a comparison of groups that ran the same contexts."""

    group: Group
    #: Its position among the groups of the page.
    number: int
    recommendation: Recommendation
    #: A row of the same models on the first runtime that computes them, in the order of RUNTIMES;
    #: None if no runtime does.
    reference: Row | None

    @property
    def memory(self) -> str:
        """The memory that its layouts are compared by: NPU or APPLICATION."""
        return self.recommendation.memory

    @property
    def least(self) -> Row:
        """Its layout with the least memory."""
        return self.recommendation.least

    @property
    def size(self) -> Figure | None:
        """The memory of that layout."""
        return self.least.memory(self.memory)

    @property
    def is_reference(self) -> bool:
        """Whether the outputs of the others are compared with its own."""
        return self.reference in self.group.rows

    @cached_property
    def agreement(self) -> Agreement | None:
        """The agreement with the reference; None for the reference, and without one."""
        if self.reference is None or self.is_reference:
            return None
        return agreement(self.least.info, self.reference.info)

    @property
    def differs(self) -> bool:
        """Whether its outputs differ from the reference's, though the precision is the same."""
        return self.agreement is not None and self.agreement.verdict == DIFFERS


@dataclass(frozen=True)
class LayoutPoint:
    """One layout of one member: its memory, and its rate per second."""

    member: Member
    row: Row
    size: Figure
    rate: Figure


@dataclass(frozen=True)
class RuntimeComparison:
    """Groups of one board that ran the same contexts, in the order of the page."""

    members: Sequence[Member]

    @property
    def is_of_streams(self) -> bool:
        """Whether the contexts serve streams of frames; otherwise they infer again and again."""
        return self.members[0].least.schedule is not None

    def of_memory(self, memory: str) -> list[Member]:
        """Return the members compared by this memory, NPU or APPLICATION, the least first."""
        sizes = []
        for member in self.members:
            if member.memory == memory and member.size:
                sizes.append((member.size.median, member))
        return [member for _, member in sorted(sizes, key=lambda pair: pair[0])]

    @property
    def best(self) -> list[Member]:
        """The members with the least of each memory whose outputs do not differ, two at most."""
        best: list[Member] = []
        for memory in (APPLICATION, NPU):
            best += [member for member in self.of_memory(memory) if not member.differs][:2]
        return best

    def points(self, memory: str) -> list[LayoutPoint]:
        """Return every layout whose memory and speed are known."""
        points = []
        for member in self.of_memory(memory):
            for row in member.recommendation.layouts:
                size = row.memory(memory)
                row_rate = rate(row)
                if size and row_rate and row.computes:
                    points.append(LayoutPoint(member, row, size, row_rate))
        return points

    def frontier(self, memory: str) -> list[LayoutPoint]:
        """Return, by memory, the layouts that no other one beats in both memory and speed.

        Layouts whose outputs differ from the reference's are left out.
        """
        points = [point for point in self.points(memory) if not point.member.differs]
        frontier: list[LayoutPoint] = []
        for point in sorted(points, key=lambda point: (point.size.median, -point.rate.median)):
            if not frontier or point.rate.median > frontier[-1].rate.median:
                frontier.append(point)
        return frontier


def runtime_comparison(groups: Sequence[Group]) -> RuntimeComparison | None:
    """Return the groups that ran the same contexts; None if no two groups did.

    Each group has run several layouts of the contexts, on the same board. Contexts that infer again
    and again come before streams of frames, then the contexts that most groups ran.
    """
    origins: set[str | None] = set()
    for group in groups:
        for row in group.rows:
            origins.update(model.origin for model in row.info.plan.models)

    by_contexts: dict[Hashable, dict[int, Recommendation]] = {}
    for number, group in enumerate(groups):
        for recommendation in recommendations(group.rows):
            if len(recommendation.layouts) > 1:
                key = (group.board, *_contexts_key(recommendation, origins))
                by_contexts.setdefault(key, {}).setdefault(number, recommendation)
    shared = [by_group for by_group in by_contexts.values() if len(by_group) > 1]
    if not shared:
        return None

    # If as many groups ran other contexts, the main recommendation of the first group decides.
    chosen = max(shared, key=_comparison_weight)
    references = references_of(groups)
    members = []
    for number, recommendation in chosen.items():
        reference = references.get(origins_of(recommendation.without_reuse))
        members.append(Member(groups[number], number, recommendation, reference))
    return RuntimeComparison(members)


def references_of(groups: Iterable[Group]) -> dict[tuple[str, ...], Row]:
    """Return the reference rows, which the outputs of others are compared with.

    Key: the origins of the models. The row is of the first runtime in the order of RUNTIMES that
    has computed them with its default options.
    """
    references: dict[tuple[str, ...], Row] = {}
    for group in sorted(groups, key=lambda group: _ORDER.get(group.info.runtime, len(_ORDER))):
        for row in group.rows:
            if row.measured and row.computes and row.info.output_samples and not row.options:
                references.setdefault(origins_of(row), row)
    return references


def origins_of(row: Row) -> tuple[str, ...]:
    """Return the origins of the models of a row."""
    return tuple(map(origin_of, row.info.plan.models))


def _comparison_weight(by_group: Mapping[int, Recommendation]) -> tuple[Any, ...]:
    first = next(iter(by_group.values()))
    return first.without_reuse.schedule is None, len(by_group), weight(first)


def _contexts_key(
    recommendation: Recommendation,
    origins: Container[Optional[str]],
) -> tuple[Hashable, ...]:
    """Return the models, the contexts and their task, equal in all runtimes that ran them."""
    info = recommendation.without_reuse.info
    models = tuple(_comparable_name(model, origins) for model in info.plan.models)
    streams = tuple(context.stream for context in info.plan.contexts)
    return models, streams, workload_of(info)


def _comparable_name(model: Model, origins: Container[Optional[str]]) -> str:
    """Return a name that is the same for equal models: the origin, or without one the name."""
    if model.origin or model.digest in origins:
        return origin_of(model)
    return _BUILT_IN.sub(r"\1", model.name)
