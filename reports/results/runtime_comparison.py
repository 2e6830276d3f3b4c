"""Runtimes beside each other: which ran the same contexts of the same models, and which need least
or are fastest.
"""

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
from reusebench.reports.results.rows import Group, Row, workload_key
from reusebench.reports.results.speed_change import rate

#: The name of a built-in model in results that do not say its origin: network, size and seed, then
#: what differs by runtime.
_BUILT_IN = re.compile(r"(\w+-\d+-seed\d+)-.*")
_ORDER = {runtime.name: place for place, runtime in enumerate(RUNTIMES)}


@dataclass(frozen=True)
class Member:
    """A group beside others that ran the same contexts."""

    group: Group
    #: Its place among the groups of the page.
    number: int
    recommendation: Recommendation
    #: Of the same models on the first runtime that computes them, in the order of RUNTIMES; None:
    #: there is none.
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
        """What that takes."""
        return self.least.memory(self.memory)

    @property
    def is_reference(self) -> bool:
        """Whether the outputs of the others are compared with its own."""
        return self.reference in self.group.rows

    @cached_property
    def agreement(self) -> Agreement | None:
        """Its outputs beside the reference's; None if it is the reference, or there is none."""
        if self.reference is None or self.is_reference:
            return None
        return agreement(self.least.info, self.reference.info)

    @property
    def differs(self) -> bool:
        """Whether its outputs are not those of the reference, though it has the reference's
        precision.
        """
        return self.agreement is not None and self.agreement.verdict == DIFFERS


@dataclass(frozen=True)
class LayoutPoint:
    """One layout of one member: what it takes, and what it does a second."""

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
        """Whether the contexts serve streams of frames; else they infer again and again."""
        return self.members[0].least.schedule is not None

    def of_memory(self, memory: str) -> list[Member]:
        """Return those whose layouts are compared by this memory, NPU or APPLICATION, the least
        first.
        """
        members = [
            (member.size.median, member)
            for member in self.members
            if member.memory == memory and member.size
        ]
        return [member for _, member in sorted(members, key=lambda pair: pair[0])]

    def points(self, memory: str) -> list[LayoutPoint]:
        """Return every layout whose memory and speed are known."""
        points = []
        for member in self.of_memory(memory):
            for row in member.recommendation.layouts:
                size = row.memory(memory)
                per_s = rate(row)
                if size and per_s and row.computes:
                    points.append(LayoutPoint(member, row, size, per_s))
        return points

    def frontier(self, memory: str) -> list[LayoutPoint]:
        """Return, by memory, the layouts with agreeing outputs that none is better than: less
        memory, and faster.
        """
        frontier: list[LayoutPoint] = []
        for point in sorted(
            self.points(memory), key=lambda point: (point.size.median, -point.rate.median)
        ):
            if not point.member.differs and (
                not frontier or point.rate.median > frontier[-1].rate.median
            ):
                frontier.append(point)
        return frontier


def runtime_comparison(groups: Sequence[Group]) -> RuntimeComparison | None:
    """Return the groups that ran the same contexts: those contexts that most of them ran, streams
    of frames at last.

    Each has run several layouts of them, on the same board. None if no two groups did.
    """
    origins = {
        model.origin for group in groups for row in group.rows for model in row.info.plan.models
    }
    references = references_of(groups)
    alike: dict[Hashable, dict[int, Recommendation]] = {}
    for number, group in enumerate(groups):
        for recommendation in recommendations(group.rows):
            if len(recommendation.layouts) > 1:
                key = (group.board, *_what_ran(recommendation, origins))
                alike.setdefault(key, {}).setdefault(number, recommendation)
    shared = [of_groups for of_groups in alike.values() if len(of_groups) > 1]
    if not shared:
        return None
    # Of equally many groups, the contexts that the answer of the first is of.
    chosen = max(shared, key=_weight_of)
    return RuntimeComparison(
        [
            Member(groups[number], number, one, references.get(origins_of(one.without_reuse)))
            for number, one in chosen.items()
        ]
    )


def _weight_of(of_groups: Mapping[int, Recommendation]) -> tuple[Any, ...]:
    first = next(iter(of_groups.values()))
    return first.without_reuse.schedule is None, len(of_groups), weight(first)


def references_of(groups: Iterable[Group]) -> dict[tuple[str, ...], Row]:
    """Return, by the origins of its models, the row whose outputs those of other runtimes are
    compared with.

    It is of the first runtime in the order of RUNTIMES that has computed them, as it does by
    default.
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


def _what_ran(
    recommendation: Recommendation, origins: Container[Optional[str]]
) -> tuple[Hashable, ...]:
    info = recommendation.without_reuse.info
    models = tuple(_comparable_name(model, origins) for model in info.plan.models)
    return models, tuple(context.stream for context in info.plan.contexts), workload_key(info)


def _comparable_name(model: Model, origins: Container[Optional[str]]) -> str:
    """Return what is equal for equal models: the origin; where nothing says it the name."""
    if model.origin or model.digest in origins:
        return origin_of(model)
    return _BUILT_IN.sub(r"\1", model.name)
