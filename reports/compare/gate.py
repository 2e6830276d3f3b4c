"""The gate: which changes break a limit, so that a build fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.compare.changes import Change, Changes, Unmeasured
from reusebench.reports.compare.difference import HIGHER, LOWER
from reusebench.storage.limits import GateLimit


@dataclass(frozen=True)
class GateResult:
    """What the limits make of a comparison."""

    limits: tuple[GateLimit, ...]
    #: Worse than allowed, and more than noise.
    broken: tuple[tuple[GateLimit, Change], ...]
    #: Worse than allowed by the figures, but it may be noise: more repeats would show it.
    unsure: tuple[tuple[GateLimit, Change], ...]
    #: Not judged, since memory was short: an eviction makes a figure smaller, and hides a rise.
    short: tuple[tuple[GateLimit, Change], ...]
    #: How many changes each limit was held against, in their order, and in how many of them a
    #: change of the size that it allows could not have been distinguished from noise.
    held: tuple[int, ...]
    blind: tuple[int, ...]
    #: Configurations that were measured before and cannot be any more.
    lost: tuple[Unmeasured, ...]

    @property
    def passed(self) -> bool:
        """Whether the build may go on."""
        return not self.broken and not self.lost

    @property
    def is_open(self) -> bool:
        """Whether a limit was held against nothing, or not against all: then nothing is known."""
        return bool(self.short) or not all(self.held)


def check_limits(changes: Changes, limits: Sequence[GateLimit]) -> GateResult:
    """Hold every limit against every change of its metric.

    A limit is broken where the change is more than noise and worse than allowed. Both must hold: a
    threshold alone fails builds by chance, significance alone fails them for a page.
    """
    broken: list[tuple[GateLimit, Change]] = []
    unsure: list[tuple[GateLimit, Change]] = []
    short: list[tuple[GateLimit, Change]] = []
    held = []
    blind = []
    for limit in limits:
        short += (
            (limit, change)
            for change in changes.rows
            if change.metric == limit.metric and change.is_short
        )
        of_metric = [
            change
            for change in changes.rows
            if change.metric == limit.metric and not change.is_short
        ]
        held.append(len(of_metric))
        blind.append(0)
        for change in of_metric:
            difference = change.difference
            allowed = limit.allowed(change.difference.base_mean)
            blind[-1] += difference.error is None or difference.error > allowed
            worse, verdict = (
                (difference.change, HIGHER)
                if limit.metric.less_is_better
                else (-difference.change, LOWER)
            )
            if worse > allowed:
                (broken if change.verdict == verdict else unsure).append((limit, change))
    lost = tuple(one for one in changes.unmeasured if one.is_broken)
    return GateResult(
        tuple(limits), tuple(broken), tuple(unsure), tuple(short), tuple(held), tuple(blind), lost
    )
